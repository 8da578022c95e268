"""Steps of rocksmq_large, each in its own process: ``python -m benchmarks._large_steps STEP PATH COUNT``.

A step prints one line of JSON: its seconds, and its peak memory in MiB.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import mqplug
from benchmarks._load import BATCH_MESSAGES, batch_values
from benchmarks._process_memory import peak_memory_mib

TOPIC = "messages"
MESSAGE_BYTES = 1024
IDLE_S = 2.0  # the background work of an open is done by then

StepFigures = dict[str, float]


def write_store(path: str, batches: int) -> Iterator[StepFigures]:
    """Write `batches` batches, report them, and continue writing until this process is killed."""
    values = batch_values(MESSAGE_BYTES)
    with mqplug.connect("rocksmq", path=path) as mq:
        mq.create_topic(TOPIC, exist_ok=True)
        with mq.producer(TOPIC) as out:
            with _measured() as took:
                for _ in range(batches):
                    out.send_many(values)
            yield {"write": took["seconds"], "write, peak": took["peak"]}
            while True:
                out.send_many(values)


def reopen_store(path: str, messages: int) -> Iterator[StepFigures]:
    """Open the store, receive one message, stay idle for a while, and close."""
    with _measured() as opening, mqplug.connect("rocksmq", path=path) as mq:
        first = _receive_first(mq, opening)
        with _measured() as idle:
            time.sleep(IDLE_S)
        assert mq.watermarks(TOPIC)[0].count >= messages
        closing = time.perf_counter()
    yield {**first, "idle, peak": idle["peak"], "close": time.perf_counter() - closing}


def read_store(path: str, messages: int) -> Iterator[StepFigures]:
    """Read all messages of the store."""
    with mqplug.connect("rocksmq", path=path) as mq, mq.consumer(TOPIC, start=mqplug.EARLIEST) as consumer:
        count, there = 0, mq.watermarks(TOPIC)[0].count
        with _measured() as took:
            while count < there:
                count += len(consumer.receive_many(BATCH_MESSAGES, 30).values)
        assert there >= messages
    yield {"read": took["seconds"], "read, messages": count, "read, peak": took["peak"]}


def add_topics(path: str, count: int) -> Iterator[StepFigures]:
    """Create `count` topics, send a message to each, and read them all with one consumer."""
    names = [f"topic-{number}" for number in range(count)]
    with mqplug.connect("rocksmq", path=path) as mq:
        with _measured() as making:
            for name in names:
                mq.create_topic(name, exist_ok=True)
        with _measured() as sending, mq.producer() as out:
            for start in range(0, count, BATCH_MESSAGES):
                out.send_many([mqplug.Record(b"x" * 128, topic=name) for name in names[start : start + BATCH_MESSAGES]])
        with _measured() as reading, mq.consumer(names, start=mqplug.EARLIEST) as consumer:
            received = 0
            while received < count:
                received += len(consumer.receive_many(BATCH_MESSAGES, 30).values)
    yield {
        "make topics": making["seconds"],
        "make topics, peak": making["peak"],
        "send to topics": sending["seconds"],
        "send to topics, peak": sending["peak"],
        "read topics": reading["seconds"],
        "read topics, peak": reading["peak"],
    }


def _receive_first(mq: mqplug.Client, opening: StepFigures) -> StepFigures:
    with mq.consumer(TOPIC, start=mqplug.EARLIEST) as consumer:
        assert consumer.receive(60)
    return {"reopen": time.perf_counter() - opening["began"]}


@contextmanager
def _measured() -> Iterator[StepFigures]:
    took: StepFigures = {"began": time.perf_counter()}
    with peak_memory_mib() as most:
        yield took
    took["seconds"] = time.perf_counter() - took["began"]
    took["peak"] = most[0]


STEPS: dict[str, Callable[[str, int], Iterator[StepFigures]]] = {
    "write": write_store,
    "reopen": reopen_store,
    "read": read_store,
    "topics": add_topics,
}


def _warm_up() -> None:
    """Import everything first, so that the memory of imports does not count as the store's."""
    with TemporaryDirectory() as path, mqplug.connect("rocksmq", path=path) as mq:
        mq.create_topic(TOPIC)


if __name__ == "__main__":
    _warm_up()
    for numbers in STEPS[sys.argv[1]](sys.argv[2], int(sys.argv[3])):
        print(json.dumps(numbers), flush=True)
