"""Checks of arguments that are numbers, and of ``missing=``."""

from __future__ import annotations

from datetime import timedelta


def whole_number(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number from ``least`` to ``most``. Raise ``TypeError`` or ``ValueError`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {kind_of(value)}")
    if least is not None and most is not None and not least <= value <= most:
        raise ValueError(f"{name} must be {least} to {most}, not {value}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    return value


def number(name: str, value: object, kind: str = "a number") -> float:
    """Return a number. Raise ``TypeError`` for anything else; ``kind`` names the expected number in the error."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be {kind}, not {kind_of(value)}")
    return value


def check_missing(missing: object) -> None:
    """Raise ``ValueError`` unless ``missing`` is one of the two words."""
    if missing not in {"error", "next"}:
        raise ValueError(f"missing must be 'error' or 'next', not {missing!r}")


def kind_of(value: object) -> str:
    """Return the type's name, and how to turn a timedelta into a number of seconds."""
    return "timedelta: pass its total_seconds()" if isinstance(value, timedelta) else type(value).__name__
