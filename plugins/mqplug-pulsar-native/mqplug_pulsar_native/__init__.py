"""The compiled part of mqplug-pulsar. It imports nothing of mqplug, and only mqplug-pulsar imports it.

Importing it raises ``ImportError`` if the compiled part was not built, or if a function of pulsar-client is missing or
behaves unexpectedly.
"""

from __future__ import annotations

import _pulsar

from mqplug_pulsar_native._native import (
    CHUNKED,
    HUGE_TIME,
    NO_KEY,
    NULL_VALUE,
    ODD_HEADERS,
    ODD_KEY,
    ReportBox,
    Rows,
    RunReport,
    collect,
    load,
    take,
    try_out,
)

__all__ = [
    "CHUNKED",
    "HUGE_TIME",
    "NO_KEY",
    "NULL_VALUE",
    "ODD_HEADERS",
    "ODD_KEY",
    "ReportBox",
    "Rows",
    "RunReport",
    "__version__",
    "collect",
    "take",
]

__version__ = "0.1.0"

TEXT = "\0k\xe9y\0 " * 9
"""Text that a wrong function would cut off, or read from a wrong place."""


def _check_functions() -> None:
    """Raise ``ImportError`` unless the library's functions work as expected."""
    builder = _pulsar.MessageBuilder()
    try:
        numbers = try_out(_pulsar.MessageId(5, 2**40, 7, 8), builder, TEXT.encode(), b"\0v")
    except (TypeError, AttributeError) as error:
        raise ImportError(f"pulsar-client does not give access to its C++ objects: {error}") from error
    message = builder.build()
    if numbers[:3] != (2**40, 7, 8) or message.partition_key() != TEXT or message.properties() != {TEXT: "\0v"}:
        raise ImportError("pulsar-client's functions do not work as expected")
    rows = collect([message, _pulsar.MessageBuilder().set_null_value().build()])
    found = (rows.values(), rows.keys(), rows.headers(), bytes(rows.buffer("timestamp")))
    expected = ([b"", None], [TEXT, None], [{TEXT: "\0v"}, ()], bytes(16))
    if found != expected:
        raise ImportError("pulsar-client's messages are not read as expected")


load(_pulsar.__file__)
_check_functions()
