"""Standard output, to which messages are written whole batches at a time."""

from __future__ import annotations

import select
import sys
from contextlib import suppress
from io import UnsupportedOperation

from mqplug_cli._messages.pipe_size import widen_pipe


class OutputPipe:
    """Standard output."""

    def __init__(self) -> None:
        self._out = sys.stdout.buffer
        self.is_terminal = sys.stdout.isatty()
        self._poll = select.poll()
        with suppress(UnsupportedOperation):  # raised where it is no file
            self._poll.register(sys.stdout.fileno(), 0)  # errors are always told
            widen_pipe(sys.stdout.fileno())

    def write(self, data: bytes) -> None:
        """Write, and return when it has left this process."""
        self._out.write(data)
        self._out.flush()

    def check(self) -> None:
        """Raise ``BrokenPipeError`` if nothing reads the output any more."""
        if self._poll.poll(0):
            raise BrokenPipeError
