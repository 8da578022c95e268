"""Runs a download that reports its progress, and shows it in one line of the terminal."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections import deque
from typing import IO, TYPE_CHECKING, cast

from mqplug_devbrokers._errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Iterator

TAIL_LINES = 20
REDRAW_S = 0.2
CLEAR_LINE = "\r\x1b[K"


def run_shown(command: list[str], label: str, *, timeout: float) -> None:
    """Run Maven, and show what it is downloading. A failure raises an error with the end of its output."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    drawn = 0.0
    with subprocess.Popen(  # noqa: S603  the command is ours
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            for line in _lines(process, time.monotonic() + timeout):
                progress = re.match(r"Progress \(\d+\): (.*?) *$", line)
                if progress is None:
                    tail.append(line)
                elif time.monotonic() > drawn + REDRAW_S:
                    drawn = time.monotonic()
                    _draw(f"{label}: {progress[1]}")
        except subprocess.TimeoutExpired as error:
            raise BrokerError(f"{command[0]} could not be run to its end: {error}") from error
        finally:
            process.kill()
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()
    if process.returncode:
        raise BrokerError(f"{' '.join(command)} failed with status {process.returncode}:\n" + "\n".join(tail))


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[str]:
    """Yield the lines of the output, and those that the next one overwrites."""
    output = cast("IO[bytes]", process.stdout)
    rest = b""
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([output], [], [], max(0.0, left))
        if not ready:
            raise subprocess.TimeoutExpired(process.args, deadline - time.monotonic())
        data = os.read(output.fileno(), 65536)
        *whole, rest = re.split(rb"[\r\n]+", rest + data)
        yield from (line.decode(errors="replace") for line in whole)
        if not data:
            process.wait(max(1.0, left))
            return


def _draw(text: str) -> None:
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(CLEAR_LINE + text[:width])
    sys.stderr.flush()
