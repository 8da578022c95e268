"""What ``produce`` sends: the lines of standard input, files, or a text that is repeated."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from mqplug_cli._messages.line_splitting import LineSplitter
from mqplug_cli._messages.pipe_size import widen_pipe

_READ_BYTES: Final = 256 * 1024
_REPEATED_TOGETHER: Final = 1000

Inputs = tuple[list[bytes], int]
"""Some inputs, and their bytes together."""


class Stop:
    """Ends waiting for input, from any thread."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def set(self) -> None:
        """End it."""
        os.write(self._writer, b".")

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until it is ended. Return whether it is."""
        return bool(self._poll.poll(seconds * 1000))

    def wait_for_input(self, descriptor: int) -> bool:
        """Wait until there is input. Return False if it was ended instead."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._reader, select.POLLIN)
        return self._reader not in dict(poll.poll())


def lines(descriptor: int, separator: bytes, stop: Stop) -> Iterator[Inputs]:
    """Yield the lines of a stream as soon as they are there; the last one also without its end."""
    widen_pipe(descriptor)
    splitter = LineSplitter(separator)
    while stop.wait_for_input(descriptor):
        piece = os.read(descriptor, _READ_BYTES)
        if not piece:
            rest = splitter.rest()
            yield rest, sum(map(len, rest))
            return
        yield splitter.split(piece), len(piece)


def files(paths: Sequence[Path]) -> Iterator[Inputs]:
    """Yield the contents of each file."""
    for path in paths:
        content = path.read_bytes()
        yield [content], len(content)


def repeated(count: int, make: Callable[[int], bytes], together: int = _REPEATED_TOGETHER) -> Iterator[Inputs]:
    """Yield what ``make`` returns for the numbers from 1."""
    for first in range(1, count + 1, together):
        made = [make(number) for number in range(first, min(first + together, count + 1))]
        yield made, sum(map(len, made))
