"""The errors of this package, each with a fix in its text."""

from __future__ import annotations


class BrokerError(RuntimeError):
    """A broker could not be fetched, started, reached or stopped. The text says why and what to do."""


class MissingTool(BrokerError):
    """A program that must be installed by hand is missing: Java, or Maven for the first download."""
