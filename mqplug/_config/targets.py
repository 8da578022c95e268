"""What people write where a program wants a backend."""

from __future__ import annotations

from pathlib import Path


def target_of(text: str) -> str | Path:
    """A URL, or the path of a configuration file, as people write them in one place."""
    path = Path(text)
    return path if "://" not in text and path.suffix in {".toml", ".yaml", ".yml"} else text
