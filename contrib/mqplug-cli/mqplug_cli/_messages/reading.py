"""The input of ``consume``: from where to where, with or without a group, and which messages pass."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

import mqplug
from mqplug_cli._places import Offset

if TYPE_CHECKING:
    from mqplug_cli._messages.envelopes import Headers
    from mqplug_cli._messages.pipes import OutputPipe

_Matches = Callable[[str], object]


class MessageFilter:
    """Patterns of keys, values and headers. A message passes if it matches one of each given kind."""

    def __init__(self, keys: Sequence[str], values: Sequence[str], headers: Sequence[str]) -> None:
        """Take headers as ``NAME=GLOB``. Raise ``ValueError`` for another text."""
        self._keys = [_pattern(each) for each in keys]
        self._values = [_pattern(each) for each in values]
        self._headers = [_header_patterns(each) for each in headers]

    @property
    def is_empty(self) -> bool:
        """Whether every message passes."""
        return not (self._keys or self._values or self._headers)

    def rows(self, batch: mqplug.Batch) -> list[int]:
        """Return the rows of the messages that pass."""
        rows = list(range(len(batch)))
        if self._keys:
            rows = [row for row in rows if _any_matches(self._keys, batch.keys[row])]
        if self._values:
            rows = [row for row in rows if _any_matches(self._values, batch.values[row])]
        if self._headers:
            rows = [row for row in rows if self._has_header(batch.headers[row])]
        return rows

    def _has_header(self, headers: Headers) -> bool:
        return any(
            name_matches(name) and _any_matches([value_matches], value)
            for name, value in headers
            for name_matches, value_matches in self._headers
        )


def _pattern(glob: str) -> _Matches:
    return re.compile(translate(glob)).match


def _header_patterns(text: str) -> tuple[_Matches, _Matches]:
    name, separator, glob = text.partition("=")
    if not separator:
        raise ValueError(f"{text!r} is not NAME=GLOB")
    return _pattern(name), _pattern(glob)


def _any_matches(patterns: Sequence[_Matches], data: bytes | None) -> bool:
    if data is None:
        return False
    text = data.decode("utf-8", "surrogateescape")  # as in arguments that are not UTF-8
    return any(matches(text) for matches in patterns)


MOST_TOGETHER: Final = 1000
_IDLE_S: Final = 0.5  # how often to check that the output is still read


class ReadRequest(NamedTuple):
    """The topics to read, and from where to where.

    ``until`` is None to read without an end. With ``tail``, only this many last messages are read.
    """

    topics: Any
    start: mqplug.Start | Offset | None
    until: mqplug.Start | Offset | None
    partitions: Sequence[int] | None
    group: str | None
    follow: bool
    tail: int | None
    timeout: float

    def open(self, mq: mqplug.Client) -> mqplug.Consumer:
        """Open a consumer. Raise ``UsageError`` for a partition that the topic does not have."""
        start, until = self._placed(self.start, mq), self._placed(self.until, mq)
        try:
            return mq.consumer(
                self.topics, start=start, until=until, partitions=self.partitions, group=self.group,
                timeout=self.timeout,
            )  # fmt: skip
        except ValueError as error:
            if isinstance(error, mqplug.Error):
                raise
            raise click.UsageError(str(error)) from None

    def _placed(self, place: mqplug.Start | Offset | None, mq: mqplug.Client) -> mqplug.Start | None:
        """Return a place, or the position of an offset."""
        if not isinstance(place, Offset):
            return place
        topics = self.topics if isinstance(self.topics, list) else []
        return place.position(mq, topics, self.partitions or [], self.timeout)


class Reader:
    """Receives batches until the end, or forever."""

    def __init__(self, mq: mqplug.Client, consumer: mqplug.Consumer, request: ReadRequest, pipe: OutputPipe) -> None:
        self._mq = mq
        self._consumer = consumer
        self._request = request
        self.pipe = pipe
        self._last = time.monotonic()

    def batches(self, room: Callable[[], int]) -> Iterator[mqplug.Batch]:
        """Yield batches, each of at most ``room()`` messages."""
        while True:
            began = time.monotonic()
            batch = self._consumer.receive_many(min(room(), MOST_TOGETHER), _IDLE_S)
            if batch:
                yield batch
                self._last = time.monotonic()
            elif time.monotonic() - began < _IDLE_S:
                return  # only the end returns earlier
            else:
                self._check_idle()

    def newest(self, count: int) -> Iterator[mqplug.Batch]:
        """Yield the last messages of all partitions together, ordered by time, in batches of only these rows."""
        topics = sorted({log.topic for log in self._consumer.assignment()})
        ends = {topic: self._mq.resolve(topic, mqplug.LATEST, timeout=self._request.timeout) for topic in topics}
        found: dict[mqplug.Log, deque[tuple[int, mqplug.Batch, int]]] = {}
        while not self._has_passed(ends):
            batch = self._consumer.receive_many(MOST_TOGETHER, _IDLE_S)
            if batch:
                rows = found.setdefault(batch.log, deque(maxlen=count))
                rows.extend((timestamp, batch, row) for row, timestamp in enumerate(batch.timestamps))
                self._last = time.monotonic()
            else:
                self._check_idle(may_wait=False)
        in_order = list(merge(*found.values(), key=itemgetter(0)))[-count:]
        for _, together in groupby(in_order, key=lambda row: id(row[1])):
            some = list(together)
            batch = some[0][1]
            yield batch.take([row for _, _, row in some], batch.next_position)

    def done(self, batch: mqplug.Batch, row: int) -> None:
        """Ack the messages of a batch up to this row if the consumer is a member of a group."""
        if self._request.group is not None:
            self._consumer.ack_through(batch.id(row))

    def _has_passed(self, ends: dict[str, dict[int, mqplug.Position]]) -> bool:
        held = self._request.partitions
        return all(
            self._consumer.position(topic)[partition] >= end
            for topic, by_partition in ends.items()
            for partition, end in by_partition.items()
            if held is None or partition in held
        )

    def _check_idle(self, *, may_wait: bool = True) -> None:
        """Raise if nothing reads the output, the server does not answer, or the end is not reached in time."""
        self.pipe.check()
        if time.monotonic() - self._last < self._request.timeout:
            return
        if may_wait and self._request.follow:
            self._mq.health(self._request.timeout)
            self._last = time.monotonic()
            return
        raise mqplug.Timeout(
            f"no message arrived within {self._request.timeout:g} s, and the end is not reached",
            operation="consume", fix=_why_not(self._consumer),
        )  # fmt: skip


def _why_not(consumer: mqplug.Consumer) -> str:
    if consumer.group is not None and not consumer.assignment():
        return "Close other members of the group: they hold all partitions"
    return "Check the server, or give a longer --timeout: an open transaction may hold messages back"
