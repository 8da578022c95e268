"""Helpers for members in mode shared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import attrs

import mqplug
import mqplug_rocksmq
from mqplug import EARLIEST
from mqplug.spi import ConsumerOptions, GroupPosition, Mode, Settlement

GROUP = "workers"


class Sharer:
    """A member of the topic ``jobs`` at the driver interface, with its messages and their attempts."""

    def __init__(self, mq: mqplug.Client, mode: Mode = "shared", group: str = GROUP, **options: Any) -> None:
        wanted = ConsumerOptions(logs=mq.partitions("jobs"), group=group, start=EARLIEST, mode=mode, **options)
        connection: Any = mq._connection
        self.driver: Any = mqplug_rocksmq.mqplug_open_consumer(connection, wanted, self, 10)
        self.log = wanted.logs[0]
        self.held: dict[mqplug.Log, GroupPosition] = {}

    def assigned(self, positions: Mapping[mqplug.Log, GroupPosition]) -> None:
        self.held |= positions

    def revoked(self, logs: Sequence[mqplug.Log]) -> Mapping[mqplug.Log, GroupPosition]:
        raise AssertionError("a log that is shared goes to nobody else")

    def lost(self, logs: Sequence[mqplug.Log]) -> None:
        raise AssertionError("a log that is shared is not lost")

    def take(self, most: int = 1, timeout: float = 0) -> list[tuple[int, int]]:
        """Poll once, and return offsets and attempts."""
        batches = self.driver.poll(most, timeout)
        return [
            (at[0], attempt) for batch in batches for at, attempt in zip(batch.coordinates, batch.attempts, strict=True)
        ]

    def values(self, most: int) -> list[bytes | None]:
        """Poll once, and return values."""
        return [value for batch in self.driver.poll(most, 0) for value in batch.values]

    def settle(self, *acked: int, back: Mapping[int, float] | None = None, timeout: float = 10) -> None:
        """Ack these offsets, and return others with a delay in seconds."""
        returned = [((at,), delay) for at, delay in (back or {}).items()]
        self.driver.settle({self.log: Settlement([(at,) for at in acked], returned)}, timeout)

    def close(self) -> None:
        self.driver.close(10)


def jobs(mq: mqplug.Client, count: int, key: Callable[[int], bytes | None] = lambda _: None, **fields: Any) -> None:
    """Send messages whose values are their numbers."""
    with mq.producer("jobs") as out:
        out.send_many([mqplug.Record(b"%d" % number, key=key(number), **fields) for number in range(count)])


def stored(mq: mqplug.Client, group: str = GROUP) -> tuple[int, list[tuple[int, int]]]:
    """Return a group's stored position: the first unacked message, and the acked ranges after it."""
    stands = mq.positions("jobs", group=group)[0]
    return stands.position.coordinates[0], [(first[0], last[0]) for first, last in stands.acked]


@attrs.define(slots=False)
class Waiter:
    """A member that waits for messages in its own thread."""

    member: Sharer
    seconds: float = 30.0
    got: list[tuple[int, int]] = attrs.field(factory=list)
    waited: float = 0.0
    ended: float = 0.0  # when it got messages

    def __enter__(self) -> Waiter:
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()
        return self

    def _poll(self) -> None:
        began = monotonic()
        while not self.got and self.waited < self.seconds:
            self.got = self.member.take(10, self.seconds)
            self.ended = monotonic()
            self.waited = self.ended - began

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
