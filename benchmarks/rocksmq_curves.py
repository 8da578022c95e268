"""The suite of RocksMQ queries in small and large stores, whose cost should stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import mqplug
from benchmarks._contests import Contest, Side, Work
from benchmarks._sized_stores import SizedStore, StoreSize, open_sized_store

MIN_SPEED_RATIO = 0.5
"""The speed that a query must keep in the largest store, as a share of its speed in the smallest."""


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests. Each store is filled once. The largest is our side; the others are its rivals."""
    messages = [10**power for power in ((3, 4) if quick else (3, 4, 5, 6, 7))]
    topics = [10**power for power in ((0, 1, 2) if quick else (0, 1, 2, 3, 4))]
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        yield [
            _contest(Path(name), query, [StoreSize(unit, count) for count in counts], quick=quick)
            for unit, counts in (("message", messages), ("topic", topics))
            for query in QUERIES
        ]


def _contest(directory: Path, query: str, sizes: Sequence[StoreSize], *, quick: bool) -> Contest:
    calls = 20 if quick else 500 if "receive" in query or "time" in query else 3000
    sides = [Side(size.name, query, partial(_prepare, directory, size, query, calls)) for size in sizes]
    return Contest(
        name=f"rocksmq: {query}, by {sizes[0].unit}s",
        ours=sides[-1],
        rivals=sides[:-1],
        unit="call",
        min_speed_ratios={sides[0].name: MIN_SPEED_RATIO},
    )


@contextmanager
def _prepare(directory: Path, size: StoreSize, query: str, calls: int) -> Iterator[Work]:
    ask = QUERIES[query]
    with open_sized_store(directory, size) as store:
        _repeat(ask, store, calls // 10)
        yield lambda: _repeat(ask, store, calls)


def _repeat(ask: Callable[[SizedStore], None], store: SizedStore, calls: int) -> int:
    for _ in range(calls):
        ask(store)
    return calls


def _watermarks(store: SizedStore) -> None:
    store.mq.watermarks(store.topic())


def _seek(store: SizedStore) -> None:
    store.consumer.seek(store.position())


def _seek_and_receive(store: SizedStore) -> None:
    store.consumer.seek(store.position())
    assert store.consumer.receive(5)


def _seek_time(store: SizedStore) -> None:
    store.consumer.seek(mqplug.at_time(store.time()))


def _seek_end(store: SizedStore) -> None:
    store.consumer.seek(mqplug.last(10))


QUERIES = {
    "watermarks of a topic": _watermarks,
    "seek to a position": _seek,
    "seek to a position, and receive": _seek_and_receive,
    "seek to a time": _seek_time,
    "seek to the last ten": _seek_end,
}
"""The measured queries, each for a random topic, position or time."""
