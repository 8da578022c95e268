"""The rounds of contests within a limit of time: each contest has at least one, and fewer than asked for at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds_of_each(contests: Sequence[T], rounds: int, end: float = math.inf) -> Iterator[tuple[T, Iterator[int]]]:
    """Yield each contest with the numbers of its rounds: -1 for the warm-up, 0, and those that fit into its part.

    The parts of the time until ``end``, a moment of ``time.monotonic``, are equal. A contest that takes longer shortens
    those of the later ones.
    """
    for position, contest in enumerate(contests):
        begin = time.monotonic()
        yield contest, _numbers(rounds, begin + (end - begin) / (len(contests) - position))


def _numbers(rounds: int, end: float) -> Iterator[int]:
    begin = time.monotonic()
    for number in range(-1, rounds):
        now = time.monotonic()
        if number > 0 and now + (now - begin) / (number + 1) > end:
            return  # another round would take longer
        yield number
