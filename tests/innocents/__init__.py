"""Memory backends that are odd in a way that nothing forbids: the contract has to let them pass."""

from __future__ import annotations

from innocents.lacking import LACKING
from innocents.peculiar import PECULIAR

__all__ = ["LACKING", "PECULIAR"]
