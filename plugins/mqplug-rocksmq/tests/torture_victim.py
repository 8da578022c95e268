"""The program that is killed. It reports each operation before and after. It never ends by itself."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from torture import (
    SHARERS,
    TORTURE_GROUP,
    TORTURE_PARTITIONS,
    VictimReport,
    low_position,
    partition_of,
    value_for,
)

import mqplug
from mqplug import Consumer, Position, PositionLost, Record

_reporting = threading.Lock()


def report(**fields: Any) -> None:
    """Write one report, at once."""
    line = memoryview(json.dumps(fields).encode() + b"\n")
    with _reporting:
        while line:
            line = line[os.write(1, line) :]


class VictimWorker:
    """A thread with its own topics. It never uses the number of a message twice."""

    def __init__(self, mq: mqplug.Client, thread: int, seed: int, number: int) -> None:
        self._mq = mq
        self._thread = thread
        self._chance = random.Random(seed)
        self._number = number
        self._names = [f"t{thread}-{each}" for each in range(2)]
        self._out = mq.producer()
        self._consumers: dict[str, Consumer] = {}
        self._sharers: dict[str, Consumer] = {}

    def work(self) -> None:
        """Carry out random operations, forever."""
        steps: list[Callable[[str], None]] = [self._send, self._consume, self._share, self._trim, self._delete]
        while True:
            topic = self._chance.choice(self._names)
            if topic not in self._mq.topics():
                self._create(topic)
            self._chance.choices(steps, (10, 8, 4, 1, 0.3))[0](topic)

    @contextmanager
    def _reported(self, what: str, topic: str, **more: Any) -> Iterator[VictimReport]:
        report(thread=self._thread, begin=what, topic=topic, **more)
        done: VictimReport = {}
        yield done
        report(thread=self._thread, done=done)

    def _create(self, topic: str) -> None:
        with self._reported("create", topic):
            self._mq.create_topic(topic, partitions=TORTURE_PARTITIONS)

    def _delete(self, topic: str) -> None:
        for consumers in (self._consumers, self._sharers):
            if consumer := consumers.pop(topic, None):
                consumer.close()
        with self._reported("delete", topic):
            self._mq.delete_topic(topic)

    def _send(self, topic: str) -> None:
        count = self._chance.choice((1, 1, 10, 200))
        numbers = range(self._number, self._number + count)
        self._number = numbers.stop
        partition = self._chance.randrange(TORTURE_PARTITIONS)
        with self._reported("send", topic, partition=partition, numbers=[numbers.start, numbers.stop]) as done:
            values = [value_for(number) for number in numbers]
            if self._chance.random() < 0.5:
                ids = self._out.send_many([Record(value, topic=topic, partition=partition) for value in values])
            else:
                handles = [self._out.submit(value, topic=topic, partition=partition) for value in values]
                ids = [handle.result(30) for handle in handles]
            done["offsets"] = [each.coordinates[0] for each in ids]

    def _consume(self, topic: str) -> None:
        consumer = self._consumers.get(topic)
        if consumer is None:
            consumer = self._consumers[topic] = self._mq.consumer(topic, group=TORTURE_GROUP)
        try:
            batch = consumer.receive_many(self._chance.choice((1, 20, 500)), timeout=0.01)
        except PositionLost as lost:
            with self._reported("forget", topic, partition=partition_of(lost)):
                consumer.seek(low_position(lost))
            return
        chosen = [message for message in batch if self._chance.random() < 0.8]
        places = [[message.partition, message.id.coordinates[0]] for message in chosen]
        with self._reported("ack", topic, places=places):
            for message in chosen:
                consumer.ack(message)
            consumer.commit()

    def _share(self, topic: str) -> None:
        """Take messages in mode shared: ack some, return some, and leave the rest until after the kill."""
        consumer = self._sharers.get(topic)
        if consumer is None:
            consumer = self._sharers[topic] = self._mq.consumer(topic, group=SHARERS, mode="shared")
        try:
            batch = list(consumer.receive_many(self._chance.choice((1, 20)), timeout=0.01))
        except PositionLost as lost:
            with self._reported("forget_shared", topic, partition=partition_of(lost)):
                consumer.seek(low_position(lost))
            return
        with self._reported("take", topic) as done:
            done["taken"] = [[each.partition, each.id.coordinates[0], each.attempt] for each in batch]
        acked = [each for each in batch if self._chance.random() < 0.4]
        places = [[each.partition, each.id.coordinates[0]] for each in acked]
        with self._reported("settle", topic, places=places):
            for each in batch:
                if each in acked:
                    consumer.ack(each)
                elif self._chance.random() < 0.5:
                    consumer.nack(each, delay=self._chance.choice((0.0, 0.1)))
            consumer.commit()

    def _trim(self, topic: str) -> None:
        partition = self._chance.randrange(TORTURE_PARTITIONS)
        marks = self._mq.watermarks(topic)[partition]
        low, high = marks.low.coordinates[0], marks.high.coordinates[0]
        offset = self._chance.randint(low, high)
        with self._reported("trim", topic, partition=partition, offset=offset):
            self._mq.trim(topic, {partition: Position(marks.low.log, (offset,))})


def main(path: str, sync: str, seed: int, number: int) -> None:
    """Work until killed. Message numbers begin at *number*, with a million for each thread."""
    settings = cast("Any", {"path": path, "sync": sync, "retention_interval": 0.05})
    mq = mqplug.connect("rocksmq", **settings)
    workers = [VictimWorker(mq, each, seed + each, number + each * 1_000_000) for each in range(3)]
    threads = [threading.Thread(target=_work, args=(worker,), daemon=True) for worker in workers]
    report(ready=True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _work(worker: VictimWorker) -> None:
    try:
        worker.work()
    except BaseException as error:
        report(failed=f"{type(error).__name__}: {error}")
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
