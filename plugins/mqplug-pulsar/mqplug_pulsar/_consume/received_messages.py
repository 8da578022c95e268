"""Received native messages as columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from mqplug.spi import Headers, Numbers
from mqplug_pulsar._format.escapes import EPOCH, headers_from_properties, key_from_text
from mqplug_pulsar._format.message_ids import coordinates, detail


class ReceivedMessages:
    """Native messages of one partition, in order. Each column is built on demand."""

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages

    @cached_property
    def ids(self) -> list[Any]:
        """The native ids. Only these can be acked safely: ids deserialized from bytes ack too many messages."""
        return [message.message_id() for message in self.messages]

    @cached_property
    def _coordinates(self) -> list[Numbers]:
        return [coordinates(native) for native in self.ids]

    @cached_property
    def _properties(self) -> list[dict[str, str]]:
        return [message.properties() for message in self.messages]

    def coordinates(self) -> Sequence[Numbers]:
        return self._coordinates

    def details(self) -> Sequence[Numbers]:
        return [detail(native) for native in self.ids]

    def keys(self) -> Sequence[bytes | None]:
        return [key_from_text(message.partition_key()) for message in self.messages]

    def values(self) -> Sequence[bytes | None]:
        return [None if message.has_null_value() else message.data() for message in self.messages]

    def headers(self) -> Sequence[Headers]:
        return [headers_from_properties(properties) for properties in self._properties]

    def timestamps(self) -> Sequence[int]:
        times = [message.event_timestamp() for message in self.messages]
        if all(times):
            return times
        return [
            time or (0 if EPOCH in properties else published)
            for time, properties, published in zip(times, self._properties, self.log_times(), strict=True)
        ]

    def log_times(self) -> Sequence[int]:
        return [message.publish_timestamp() for message in self.messages]

    def attempts(self) -> Sequence[int]:
        return [message.redelivery_count() + 1 for message in self.messages]
