"""The settings of a topic as callers give them, checked before any I/O: for a new topic, and for one to be altered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mqplug._model.checks import whole_number
from mqplug._model.errors import Unsupported
from mqplug._model.names import check_new_topic, check_topic
from mqplug._model.retention import Retention, retention_seconds
from mqplug.spi._actions import AlterTopic, CreateTopic

if TYPE_CHECKING:
    from mqplug.spi._descriptor import Capabilities


def new_topic(
    topic: str,
    able: Capabilities,
    *,
    partitions: int,
    retention: Retention | None,
    retention_bytes: int | None,
    options: Mapping[str, Any] | None,
) -> CreateTopic:
    """Return a topic to be created; raise unless its name and settings are legal here."""
    check_new_topic(topic, able.topic_name_max)
    check_partitions(partitions, able)
    seconds, size, own = _settings(able, retention, retention_bytes, options)
    return CreateTopic(topic, partitions, seconds, own, size)


def altered_topic(
    topic: str,
    able: Capabilities,
    *,
    retention: Retention | None,
    retention_bytes: int | None,
    options: Mapping[str, Any] | None,
) -> AlterTopic:
    """Return the settings of a topic to be changed; raise unless there are some, and they are legal here."""
    check_topic(topic)
    seconds, size, own = _settings(able, retention, retention_bytes, options)
    if seconds is None and size is None and not own:
        raise TypeError("nothing to alter: pass retention=, retention_bytes= or options=")
    return AlterTopic(topic, seconds, own, size)


def _settings(
    able: Capabilities, retention: Retention | None, size: int | None, options: Mapping[str, Any] | None
) -> tuple[float | None, int | None, dict[str, Any]]:
    """Return retention in seconds and in bytes, and the backend's own options."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options are a mapping, not {type(options).__name__}")
    seconds = retention_seconds(retention)
    if size is not None:
        whole_number("retention_bytes", size, 0)
    if not able.retention and (seconds, size) != (None, None):
        raise Unsupported("retention")
    return seconds, size, dict(options or {})


def check_partitions(count: int, able: Capabilities) -> int:
    """Return the number of partitions; raise unless a topic of this backend may have it."""
    whole_number("the number of partitions", count, 1, able.partitions_max)
    if count > 1 and not able.partitions:
        raise Unsupported("partitions", fix="Create the topic with one partition")
    return count
