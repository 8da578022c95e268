"""Records as messages of the native client.

They are built without ``pulsar.Producer``, which checks again what the core has checked.
"""

from __future__ import annotations

from typing import Any

from _pulsar import MessageBuilder

from mqplug.spi import Headers
from mqplug_pulsar._format.escapes import EPOCH, headers_to_properties, key_to_text


def message_of(
    value: bytes | None, key: bytes | None = None, headers: Headers = (), timestamp: int | None = None
) -> Any:
    """Return a record as a message. Raise what the native client raises for one that it refuses."""
    builder = MessageBuilder()
    if value is None:
        builder.set_null_value()
    else:
        builder.content(value)
    if key is not None:
        builder.partition_key(key_to_text(key))
    if headers:
        builder.properties(headers_to_properties(headers))
    if timestamp is not None:
        if timestamp == 0:
            builder.property(EPOCH, "")
        else:
            builder.event_timestamp(timestamp)
    return builder.build()
