"""RocksMQ, what a question costs in a large store and in a small one: the curve is to stay flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import mqplug
from benchmarks._paired import Contest, Side, Work
from benchmarks._sizes import Place, Size, opened

FLAT = 0.5
"""The largest store answers at least so fast as a share of the speed of the smallest."""


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """What is measured. The stores are filled once; the largest of them is ours, the others its rivals."""
    messages = [10**power for power in ((3, 4) if quick else (3, 4, 5, 6, 7))]
    topics = [10**power for power in ((0, 1, 2) if quick else (0, 1, 2, 3, 4))]
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        yield [
            _contest(Path(name), question, [Size(unit, count) for count in counts], quick=quick)
            for unit, counts in (("message", messages), ("topic", topics))
            for question in QUESTIONS
        ]


def _contest(directory: Path, question: str, sizes: Sequence[Size], *, quick: bool) -> Contest:
    calls = 20 if quick else 500 if "receive" in question or "time" in question else 3000
    sides = [Side(size.name, question, partial(_prepare, directory, size, question, calls)) for size in sizes]
    return Contest(
        name=f"rocksmq: {question}, by {sizes[0].unit}s",
        ours=sides[-1],
        rivals=sides[:-1],
        unit="call",
        aims={sides[0].name: FLAT},
    )


@contextmanager
def _prepare(directory: Path, size: Size, question: str, calls: int) -> Iterator[Work]:
    ask = QUESTIONS[question]
    with opened(directory, size) as place:
        _repeat(ask, place, calls // 10)
        yield lambda: _repeat(ask, place, calls)


def _repeat(ask: Callable[[Place], None], place: Place, calls: int) -> int:
    for _ in range(calls):
        ask(place)
    return calls


def _watermarks(place: Place) -> None:
    place.mq.watermarks(place.topic())


def _seek(place: Place) -> None:
    place.consumer.seek(place.position())


def _seek_and_receive(place: Place) -> None:
    place.consumer.seek(place.position())
    assert place.consumer.receive(5)


def _seek_time(place: Place) -> None:
    place.consumer.seek(mqplug.at_time(place.time()))


def _seek_end(place: Place) -> None:
    place.consumer.seek(mqplug.last(10))


QUESTIONS = {
    "watermarks of a topic": _watermarks,
    "seek to a position": _seek,
    "seek to a position, and receive": _seek_and_receive,
    "seek to a time": _seek_time,
    "seek to the last ten": _seek_end,
}
"""What is asked, at random places."""
