"""Memory backends that are odd in a legal way: the contract must let them pass."""

from __future__ import annotations

from innocents.lacking import LACKING
from innocents.peculiar import PECULIAR

__all__ = ["LACKING", "PECULIAR"]
