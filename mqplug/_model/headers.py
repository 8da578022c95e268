"""The headers of a message."""

from __future__ import annotations

Headers = tuple[tuple[str, bytes | None], ...]
"""Pairs of a name and bytes or None, in order; a name may come twice."""
