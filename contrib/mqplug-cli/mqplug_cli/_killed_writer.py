"""A process that sends until it is killed with -9, and the messages that its answers prove to be stored.

The process reads its task from one line of JSON on standard input, so that no secret of a URL appears in a list of
processes. Each line that it prints is a batch: the number of its first message, and the place of each message.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from itertools import count
from subprocess import PIPE, Popen
from threading import Timer
from typing import IO, cast

import attrs

import mqplug
from mqplug.spi import Deadline

StoredPlace = tuple[int, tuple[int, ...]]  # the partition and the coordinates of an id

KILLED_WRITER = "victim"
WRITER_BATCH_MESSAGES = 100
MIN_BATCHES_BEFORE_KILL = 10  # acknowledged
WRITER_START_S = 30.0  # for the process to start and get that many acknowledged


def payload_of(writer: str, number: int) -> bytes:
    """Return the payload of a writer's message with this number: 64 bytes."""
    return b"%s %d " % (writer.encode(), number) + b"." * (62 - len(writer) - len(str(number)))


@attrs.frozen
class KilledWriter:
    """The sends of a killed process: the acknowledged ones, and those that may be stored as well."""

    acknowledged: dict[bytes, StoredPlace]
    possible: frozenset[bytes]


def kill_writer(url: str, topic: str, seconds: float) -> KilledWriter:
    """Start a process that sends, kill it with -9 after about `seconds`, and return its sends."""
    program = [sys.executable, "-P", "-m", "mqplug_cli._killed_writer"]
    task = json.dumps({"url": url, "topic": topic, "writer": KILLED_WRITER})
    with Popen(program, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:  # noqa: S603 - our own module
        too_late = Timer(WRITER_START_S + seconds, process.kill)
        too_late.start()
        try:
            lines = _answers(process, task, seconds)
        finally:
            too_late.cancel()
            process.kill()
        lines += [line for line in cast(IO[str], process.stdout) if line.endswith("\n")]
        complaint = cast(IO[str], process.stderr).read().strip() or "it printed no error"
    if len(lines) < MIN_BATCHES_BEFORE_KILL:
        raise mqplug.Error(
            f"the writing process exited or hung after {len(lines)} batches, before it was killed: {complaint[-300:]}"
        )
    return _gathered(lines)


def _answers(process: Popen[str], task: str, seconds: float) -> list[str]:
    with suppress(BrokenPipeError):  # it has exited: its standard error says why
        print(task, file=process.stdin, flush=True)
    lines: list[str] = []
    deadline: Deadline | None = None
    for line in cast(IO[str], process.stdout):
        lines.append(line)
        deadline = deadline or Deadline(seconds)
        if len(lines) >= MIN_BATCHES_BEFORE_KILL and deadline.expired:
            break
    return lines


def _gathered(lines: list[str]) -> KilledWriter:
    acknowledged: dict[bytes, StoredPlace] = {}
    behind = 0
    for line in lines:
        first, places = json.loads(line)
        for number, (partition, coordinates) in enumerate(places, first):
            acknowledged[payload_of(KILLED_WRITER, number)] = (partition, tuple(coordinates))
        behind = first + len(places)
    return KilledWriter(
        acknowledged,
        frozenset(payload_of(KILLED_WRITER, number) for number in range(behind, behind + WRITER_BATCH_MESSAGES)),
    )


def write_until_killed() -> None:
    """Send batches forever, following the task on standard input."""
    task = json.loads(sys.stdin.readline())
    writer = task["writer"]
    with mqplug.connect(task["url"]) as mq, mq.producer(task["topic"]) as out:
        for first in count(0, WRITER_BATCH_MESSAGES):
            ids = out.send_many(payload_of(writer, number) for number in range(first, first + WRITER_BATCH_MESSAGES))
            places = [(each.log.partition, each.coordinates) for each in ids]
            print(json.dumps([first, places]), flush=True)  # noqa: T201 - this is how the process answers


if __name__ == "__main__":
    write_until_killed()
