"""The suite of RocksMQ wake-ups: how quickly a blocked receive returns a sent message, within and across processes."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import mqplug
from benchmarks._contests import Contest, Side, TimedMessages, Work
from benchmarks._wakeup_roles import PAUSE_BEFORE_SEND_S, TIMESTAMP, TOPIC, seconds_since, timestamp_now

_SERVE = [sys.executable, "-m", "mqplug_cli", "rocksmq", "serve", "--sync", "os"]
_ROLE = [sys.executable, "-m", "benchmarks._wakeup_roles"]


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests. They time each unsynced message until receive has returned it."""
    count = 30 if quick else 1000
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        directory = Path(name)
        yield [
            *(_within(directory, count, begin) for begin in TIMED_FROM),
            Contest(
                name="rocksmq: wake-up across processes, by serve",
                ours=Side("mqplug", "send, to receive in another process", partial(_across, directory, count, _SERVE)),
                rivals=[
                    Side("socket", "a bare relay: two Unix sockets", partial(_by_socket, directory, count, "relay"))
                ],
                max_p50_us=300,
            ),
            Contest(
                name="rocksmq: wake-up across processes, by a busy owner",
                ours=Side(
                    "mqplug",
                    "the same, the owner busy with Python",
                    partial(_across, directory, count, [*_ROLE, "own"]),
                ),
                rivals=[
                    Side(
                        "socket",
                        "the same, the relay busy with Python",
                        partial(_by_socket, directory, count, "busy-relay"),
                    )
                ],
            ),
        ]


TIMED_FROM = {"send is called": None, "send has returned": 100}
"""When timing begins within one process, and the upper limit of p50 in microseconds."""


def _within(directory: Path, count: int, begin: str) -> Contest:
    returned = begin == "send has returned"
    return Contest(
        name=f"rocksmq: wake-up in the process, from when {begin}",
        ours=Side("mqplug", "send, to receive in another thread", partial(_in_process, directory, count, returned)),
        rivals=[Side("queue", "put and get of a SimpleQueue", partial(_by_queue, count, returned))],
        max_p50_us=TIMED_FROM[begin],
    )


@contextmanager
def _in_process(directory: Path, count: int, returned: bool) -> Iterator[Work]:
    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync="os") as mq:
        mq.create_topic(TOPIC)
        with mq.producer(TOPIC) as out, mq.consumer(TOPIC, start=mqplug.EARLIEST) as consumer:
            yield lambda: _by_thread(count, out.send, lambda: _value(consumer), returned=returned)


@contextmanager
def _by_queue(count: int, returned: bool) -> Iterator[Work]:
    sent: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    yield lambda: _by_thread(count, sent.put, lambda: sent.get(timeout=30), returned=returned)


def _by_thread(
    count: int, send: Callable[[bytes], object], receive: Callable[[], bytes], *, returned: bool
) -> TimedMessages:
    """Send each message from another thread while this one waits for it."""
    asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
    done: queue.SimpleQueue[float] = queue.SimpleQueue()

    def run() -> None:
        while asked.get():
            time.sleep(PAUSE_BEFORE_SEND_S)
            send(timestamp_now())
            done.put(time.perf_counter())

    def since_return(_: bytes) -> float:
        now = time.perf_counter()
        return max(0.0, now - done.get())

    sender = threading.Thread(target=run)
    sender.start()
    try:
        return _received(count, lambda: asked.put(True), receive, since_return if returned else seconds_since)
    finally:
        asked.put(False)
        sender.join()


def _received(
    count: int, ask: Callable[[], object], receive: Callable[[], bytes], took: Callable[[bytes], float] = seconds_since
) -> TimedMessages:
    latencies = []
    for _ in range(count):
        ask()
        latencies.append(took(receive()))
    return TimedMessages(latencies, paced=True)


@contextmanager
def _across(directory: Path, count: int, owner: list[str]) -> Iterator[Work]:
    with (
        TemporaryDirectory(dir=directory) as path,
        _started([*owner, path]),
        mqplug.connect("rocksmq", path=path, sync="os") as mq,
    ):
        mq.create_topic(TOPIC, exist_ok=True)
        with mq.consumer(TOPIC, start=mqplug.EARLIEST) as consumer, _started([*_ROLE, "send", path]) as sender:
            yield lambda: _received(count, partial(_ask, sender), lambda: _value(consumer))


@contextmanager
def _by_socket(directory: Path, count: int, relay: str) -> Iterator[Work]:
    with TemporaryDirectory(dir=directory) as name:
        path = f"{name}/relay"
        with _started([*_ROLE, relay, path]), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.send(b"r")
            with _started([*_ROLE, "send-bare", path]) as sender:
                yield lambda: _received(count, partial(_ask, sender), lambda: connection.recv(TIMESTAMP.size))


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start another process, wait until it prints that it is ready, and kill it after the block."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            assert process.stdout
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def _ask(sender: subprocess.Popen[bytes]) -> None:
    assert sender.stdin
    sender.stdin.write(b"\n")


def _value(consumer: mqplug.Consumer) -> bytes:
    message = consumer.receive(30)
    assert message
    assert message.value
    return message.value
