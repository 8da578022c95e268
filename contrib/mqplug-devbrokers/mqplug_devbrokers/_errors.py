"""What can go wrong, said so that it can be mended."""

from __future__ import annotations


class BrokerError(RuntimeError):
    """A broker could not be fetched, started, reached or stopped; the text says why and what to do."""


class MissingTool(BrokerError):
    """A program that must be installed by hand is not there: Java, or Maven for the first download."""
