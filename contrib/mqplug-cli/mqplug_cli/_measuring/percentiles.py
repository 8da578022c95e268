"""Percentiles of times."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Return the percentiles in milliseconds: for each, a time that this share of all did not exceed."""
    ordered = sorted(seconds)
    return {
        name: round(1000 * ordered[max(ceil(share * len(ordered)), 1) - 1], 4) for name, share in PERCENTILES.items()
    }
