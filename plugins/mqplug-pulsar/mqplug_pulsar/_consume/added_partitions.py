"""Partitions that are added to the topics of a group member: opened in the background, picked up between polls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from mqplug import Closed, Log
from mqplug_pulsar._cluster.connection import PulsarConnection

PARTITION_CHECK_S = 5.0
OpenedConsumers = dict[Log, Any]  # native consumers


class AddedPartitions:
    """Checks for added partitions at intervals, and opens a native consumer for each."""

    def __init__(self, connection: PulsarConnection, logs: Iterable[Log], subscribe: Callable[[Log], Any]) -> None:
        self._connection = connection
        self._counts: Mapping[str, int] = Counter(log.topic for log in logs)
        self._subscribe = subscribe
        self._next = time.monotonic() + PARTITION_CHECK_S
        self._under_way: Future[OpenedConsumers] | None = None

    def follow(self, logs: Iterable[Log]) -> None:
        """Check the topics of these logs from now on."""
        self._counts = Counter(log.topic for log in logs)

    def opened(self, held: Iterable[Log]) -> OpenedConsumers:
        """Return the consumers opened since the last call, of logs that are not held yet. Never waits."""
        look = self._under_way
        if look is None:
            if time.monotonic() >= self._next:
                self._begin()
            return {}
        if not look.done():
            return {}
        self._under_way, self._next = None, time.monotonic() + PARTITION_CHECK_S
        if look.exception() is not None:
            return {}  # the broker is down, or the topic deleted: a poll reports that
        found = look.result()
        unwanted = {log for log in found if log in held or log.topic not in self._counts}  # the topics have changed
        _close({log: found.pop(log) for log in unwanted})
        self._counts = Counter(self._counts) + Counter(log.topic for log in found)
        return found

    def _begin(self) -> None:
        with suppress(Closed):
            self._under_way = self._connection.calls.start(self._look)

    def _look(self) -> OpenedConsumers:
        opened: OpenedConsumers = {}
        try:
            for topic, count in self._counts.items():
                there = self._connection.client.get_topic_partitions(self._connection.names.full(topic))
                for partition in range(count, len(there)):
                    log = self._connection.log(topic, partition)
                    opened[log] = self._subscribe(log)
        except BaseException:
            _close(opened)
            raise
        return opened

    def stop(self) -> None:
        """Stop checking, and close what a check under way opens."""
        if self._under_way is not None:
            self._under_way.add_done_callback(lambda done: None if done.exception() else _close(done.result()))
            self._under_way, self._next = None, float("inf")


def _close(opened: OpenedConsumers) -> None:
    for native in opened.values():
        with suppress(Exception):
            native.close()
