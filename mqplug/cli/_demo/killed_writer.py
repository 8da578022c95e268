"""Killing a process while it writes."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from subprocess import PIPE, Popen
from threading import Timer
from typing import IO, cast

import attrs

import mqplug
from mqplug._base.deadline import Deadline
from mqplug.cli._demo.verdict import StoredPlace, payload_of
from mqplug.cli._demo.writer_process import BATCH

WRITER = "victim"
AT_LEAST = 10  # batches that must be acknowledged before the kill
START = 30.0  # seconds for the process to come up and be acknowledged so much


@attrs.frozen
class KilledWriter:
    """What a killed process left behind: what was acknowledged to it, and what may be stored beside that."""

    acknowledged: dict[bytes, StoredPlace]
    possible: frozenset[bytes]


def kill_writer(url: str, topic: str, seconds: float) -> KilledWriter:
    """Let another process send for about so long, kill -9 it in the midst of it, and gather what it was told."""
    program = [sys.executable, "-P", "-m", "mqplug.cli._demo.writer_process"]
    task = json.dumps({"url": url, "topic": topic, "writer": WRITER})
    with Popen(program, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:  # noqa: S603 - our own module
        too_late = Timer(START + seconds, process.kill)
        too_late.start()
        try:
            lines = _answers(process, task, seconds)
        finally:
            too_late.cancel()
            process.kill()
        lines += [line for line in cast(IO[str], process.stdout) if line.endswith("\n")]
        complaint = cast(IO[str], process.stderr).read().strip() or "it said nothing"
    if len(lines) < AT_LEAST:
        raise mqplug.Error(f"the writing process ended, or was stuck, before it was killed: {complaint[-300:]}")
    return _gathered(lines)


def _answers(process: Popen[str], task: str, seconds: float) -> list[str]:
    with suppress(BrokenPipeError):  # it ended: its complaint says why
        print(task, file=process.stdin, flush=True)
    lines: list[str] = []
    deadline: Deadline | None = None
    for line in cast(IO[str], process.stdout):
        lines.append(line)
        deadline = deadline or Deadline(seconds)
        if len(lines) >= AT_LEAST and deadline.expired:
            break
    return lines


def _gathered(lines: list[str]) -> KilledWriter:
    acknowledged: dict[bytes, StoredPlace] = {}
    behind = 0
    for line in lines:
        first, places = json.loads(line)
        for number, (partition, coordinates) in enumerate(places, first):
            acknowledged[payload_of(WRITER, number)] = (partition, tuple(coordinates))
        behind = first + len(places)
    return KilledWriter(acknowledged, frozenset(payload_of(WRITER, number) for number in range(behind, behind + BATCH)))
