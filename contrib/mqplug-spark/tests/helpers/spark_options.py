"""Options for tests."""

from __future__ import annotations

from mqplug_spark._options.read_options import ReadOptions, parse_options


def options(**given: str) -> ReadOptions:
    """Options for the topic ``orders``, and others."""
    return parse_options({"url": "kafka://localhost:9092", "subscribe": "orders", **given})
