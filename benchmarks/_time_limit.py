"""The rounds of contests within a limit of time: each contest has at least one, and fewer than asked for at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds_of_each(contests: Sequence[T], rounds: int, end: float = math.inf) -> Iterator[tuple[T, Iterator[int]]]:
    """Yield each contest with the numbers of its rounds: -1 for the warm-up, then those that begin in its part of time.

    The parts are equal; a contest that takes longer shortens the later ones. ``end`` is a moment of ``time.monotonic``.
    """
    for position, contest in enumerate(contests):
        begin = time.monotonic()
        yield contest, _numbers(rounds, begin + (end - begin) / (len(contests) - position))


def _numbers(rounds: int, end: float) -> Iterator[int]:
    for number in range(-1, rounds):
        if number <= 0 or time.monotonic() < end:
            yield number
