"""Refuses options that need positions which can be counted, where the backend has none."""

from __future__ import annotations

from mqplug import Client, Unsupported


def check_countable(client: Client, option: str, *, operation: str, fix: str) -> None:
    """Raise ``Unsupported`` with the name of an option if the backend cannot count messages by their positions."""
    if not client.capabilities.advance:
        raise Unsupported(
            "advance", f"{option} needs positions that can be counted, and those of {client.backend} cannot",
            backend=client.backend, operation=operation, fix=fix,
        )  # fmt: skip
