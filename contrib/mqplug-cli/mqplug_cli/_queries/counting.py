"""Counts the messages between two positions: by computing where the backend can, otherwise by reading a few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import mqplug

MOST_READ: Final = 10_000


class Count(NamedTuple):
    """A number of messages. It is an estimate unless it is exact."""

    messages: int
    exact: bool

    def __str__(self) -> str:
        return f"{'' if self.exact else 'about '}{self.messages:,} message{'' if self.messages == 1 else 's'}"


def total(counts: Iterable[Count]) -> Count:
    """Return the sum of some counts."""
    every = list(counts)
    return Count(sum(each.messages for each in every), all(each.exact for each in every))


def stored(mq: mqplug.Client, topic: str, timeout: float) -> Count:
    """Return the number of messages that a topic retains."""
    return total(Count(each.count, each.exact) for each in mq.watermarks(topic, timeout=timeout).values())


def between(
    mq: mqplug.Client, start: mqplug.Position, until: mqplug.Position, marks: mqplug.Watermarks, timeout: float
) -> Count:
    """Return the number of messages between two positions of a partition that has these watermarks."""
    start, until = max(start, marks.low), min(until, marks.high)
    if start >= until:
        return Count(0, exact=True)
    if (start, until) == (marks.low, marks.high):
        return Count(marks.count, marks.exact)
    if mq.capabilities.advance:
        return Count(mq.distance(start, until), marks.exact)
    with some_messages(mq, start, min(until, marks.readable), timeout) as messages:
        read = sum(1 for _ in messages)
    return Count(min(read, MOST_READ), exact=read <= MOST_READ)


@contextmanager
def some_messages(
    mq: mqplug.Client, start: mqplug.Position, until: mqplug.Position, timeout: float
) -> Iterator[Iterator[mqplug.Message]]:
    """Yield the messages between two positions of one partition: ``MOST_READ``, and one more if there are more."""
    log = start.log
    found = mq.read(log.topic, start=start, until=until, partitions=[log.partition], missing="next", timeout=timeout)
    with closing(found):  # type: ignore[type-var]  # a generator
        yield islice(found, MOST_READ + 1)
