"""Options for tests, and the client that a process keeps for them."""

from __future__ import annotations

from mqplug_spark._clients import drop_client
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._options.read_options import ReadOptions, parse_options


def options(**given: str) -> ReadOptions:
    """Options for the topic ``orders``, and others."""
    return parse_options({"url": "kafka://localhost:9092", "subscribe": "orders", **given})


def drop_client_of(url: str) -> None:
    """Close the client that this process keeps for a backend, as it keeps it for the next task."""
    drop_client(BackendSettings(url=url))
