"""The suite of pipes: ``mqplug produce`` and ``consume`` beside kcat, each in a process at a pipe, on a Kafka topic."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

import mqplug
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import BATCH_MESSAGES
from mqplug_devbrokers import KafkaServer

LOADS = ((128, 1_000_000), (1024, 200_000))
LEAST_OF_KCAT = 0.5
TURN_S = 300
READ_BYTES = 1024 * 1024
LETTERS = bytes(range(ord("a"), ord("a") + 16))


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the broker runs within the block."""
    if shutil.which("kcat") is None:
        raise SystemExit("this suite needs kcat: apt-get install kcat")
    with TemporaryDirectory() as cache, KafkaServer() as server, mqplug.connect(server.url) as mq:
        # Modules are compiled, as in an installation.
        os.environ.update(PYTHONPYCACHEPREFIX=cache, PYTHONDONTWRITEBYTECODE="")
        found = [_start(server, mq)]
        for size, messages in LOADS:
            found += _contests(server, mq, size, BATCH_MESSAGES if quick else messages)
        yield found


def _contests(server: KafkaServer, mq: mqplug.Client, size: int, messages: int) -> list[Contest]:
    """Return the contests of reading and of sending lines of one size."""
    lines = _lines(size, messages)
    source, sink = f"source-{size}", f"sink-{size}"
    mq.create_topic(sink)
    mq.create_topic(source)
    with mq.producer(source) as out:
        for _ in range(messages // BATCH_MESSAGES):
            out.send_many(lines)
    data = (b"\n".join(lines) + b"\n") * (messages // BATCH_MESSAGES)
    reading = [_ours("consume", server.url, source, "-o", "raw"), _kcat("-C", server.bootstrap, source)]
    sending = [_ours("produce", server.url, sink), _kcat("-P", server.bootstrap, sink)]
    return [
        _contest(f"topic to pipe, {size} B", [_reader(command, messages) for command in reading]),
        _contest(f"pipe to topic, {size} B", [_writer(command, data, messages) for command in sending]),
    ]


def _start(server: KafkaServer, mq: mqplug.Client) -> Contest:
    """Return the contest of an empty topic: the cost that every other contest includes."""
    mq.create_topic("empty")
    commands = [_ours("consume", server.url, "empty"), _kcat("-C", server.bootstrap, "empty")]
    sides = [_side(command, partial(_start_and_end, command)) for command in commands]
    return Contest(name="an empty topic", ours=sides[0], rivals=sides[1:], unit="process")


def _lines(size: int, messages: int) -> list[bytes]:
    """Return the lines of a batch, half of each of it random."""
    import random

    rng = random.Random(size)
    half = size // 2
    return [bytes(rng.choices(LETTERS, k=half)) + b"x" * (size - half) for _ in range(min(messages, BATCH_MESSAGES))]


def _ours(verb: str, url: str, topic: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "mqplug_cli", verb, url, topic, *options]


def _kcat(mode: str, bootstrap: str, topic: str) -> list[str]:
    ends = ["-o", "beginning", "-e", "-q"] if mode == "-C" else []
    return ["kcat", mode, "-b", bootstrap, "-t", topic, "-p", "0", *ends]


def _contest(name: str, sides: Sequence[Side]) -> Contest:
    ours, kcat = sides
    return Contest(name=name, ours=ours, rivals=[kcat], min_speed_ratios={kcat.name: LEAST_OF_KCAT})


def _reader(command: list[str], messages: int) -> Side:
    return _side(command, lambda: _read(command, messages))


def _writer(command: list[str], data: bytes, messages: int) -> Side:
    def work() -> int:
        with TemporaryFile() as said, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said) as process:
            process.communicate(data, TURN_S)
            _check(process, said)
        return messages

    return _side(command, work)


def _start_and_end(command: list[str]) -> int:
    _read(command, 0)
    return 1


def _read(command: list[str], messages: int) -> int:
    """Read the output of a process from a pipe, and count the lines."""
    count = 0
    with TemporaryFile() as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, bufsize=0) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(READ_BYTES):
            count += piece.count(b"\n")
        process.wait(TURN_S)
        _check(process, said, nothing_read=not messages)
    if count != messages:
        raise RuntimeError(f"{command[0]} wrote {count} lines, not {messages}")
    return count


def _check(process: subprocess.Popen[bytes], said: IO[bytes], *, nothing_read: bool = False) -> None:
    if process.returncode not in ({0, 3} if nothing_read else {0}):
        said.seek(0)
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {said.read().decode()[-500:]}")


def _side(command: list[str], work: Work) -> Side:
    @contextmanager
    def prepare() -> Iterator[Work]:
        yield work

    name = "kcat" if command[0] == "kcat" else "mqplug"
    verb = f"kcat {command[1]}" if name == "kcat" else f"mqplug {command[3]}"
    return Side(name, f"{verb} in its own process, including its start", prepare)
