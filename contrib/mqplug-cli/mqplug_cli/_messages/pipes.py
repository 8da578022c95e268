"""Standard input, read line by line as it arrives, and standard output, written in whole batches.

Pipes get larger buffers, so that their ends wait for each other less often. Files or a repeated text can replace
standard input.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import UnsupportedOperation
from pathlib import Path
from typing import Final

_PIPE_BYTES: Final = 1024 * 1024


def widen_pipe(descriptor: int) -> None:
    """Enlarge the buffer of a pipe to 1 MiB if the system allows it. Anything else stays as it is."""
    import fcntl

    with suppress(AttributeError, OSError):  # not Linux, not a pipe, or above the user's limit
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class OutputPipe:
    """Standard output."""

    def __init__(self) -> None:
        self._out = sys.stdout.buffer
        self.is_terminal = sys.stdout.isatty()
        self._poll = select.poll()
        with suppress(UnsupportedOperation):  # raised if it is not a file
            self._poll.register(sys.stdout.fileno(), 0)  # errors are always reported
            widen_pipe(sys.stdout.fileno())

    def write(self, data: bytes) -> None:
        """Write data, and return when it has left this process."""
        self._out.write(data)
        self._out.flush()

    def check(self) -> None:
        """Raise ``BrokenPipeError`` if the reader of the output has gone."""
        if self._poll.poll(0):
            raise BrokenPipeError


class LineSplitter:
    """Splits a stream into lines, piece by piece."""

    def __init__(self, separator: bytes = b"\n") -> None:
        self._separator = separator
        self._begun: list[bytes] = []  # the pieces of an unfinished line, joined once

    def split(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in this piece."""
        if self._separator not in piece:
            self._begun.append(piece)
            return []
        if self._begun:
            piece = b"".join((*self._begun, piece))
        *lines, rest = piece.split(self._separator)
        self._begun = [rest] if rest else []
        return lines

    def rest(self) -> list[bytes]:
        """Return the last line if it is unfinished, and nothing otherwise."""
        rest, self._begun = b"".join(self._begun), []
        return [rest] if rest else []


_READ_BYTES: Final = 256 * 1024
_REPEATED_TOGETHER: Final = 1000

Inputs = tuple[list[bytes], int]
"""Some inputs, and their total size in bytes."""


class Stop:
    """Ends waiting for input, from any thread."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def set(self) -> None:
        """End all waiting."""
        os.write(self._writer, b".")

    def wait(self, seconds: float) -> bool:
        """Wait this long, or until ``set``. Return whether it is set."""
        return bool(self._poll.poll(seconds * 1000))

    def wait_for_input(self, descriptor: int) -> bool:
        """Wait until there is input. Return False if this was set instead."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._reader, select.POLLIN)
        return self._reader not in dict(poll.poll())


def lines(descriptor: int, separator: bytes, stop: Stop) -> Iterator[Inputs]:
    """Yield the lines of a stream as they arrive; the last one may be unfinished."""
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
    """Yield the results of ``make`` for the numbers from 1 to ``count``."""
    for first in range(1, count + 1, together):
        made = [make(number) for number in range(first, min(first + together, count + 1))]
        yield made, sum(map(len, made))
