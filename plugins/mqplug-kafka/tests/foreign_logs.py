"""Logs with everything that other clients may write to Kafka, generated from a seed."""

from __future__ import annotations

import random
import time

import confluent_kafka
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka_driver import new_name, time_limit

import mqplug

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMES = (None, None, 1, 1_700_000_000_123, -5, 1_700_000_000_000_000_000)
NAMES = ("a", "a", "", "ключ", "x" * 300)


class ForeignLog:
    """A topic filled step by step: transactions, codecs, headers, nulls, trims, compaction."""

    def __init__(self, server, mq, seed, partitions=1):
        self.chance = random.Random(seed)
        self.topic = new_name()
        self._server = server
        self._mq = mq
        self._partitions = partitions
        self._is_compacted = self.chance.random() < 0.3
        options = time_limit(server, 2**63 - 1)
        if self._is_compacted:
            options |= {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
                        "max.compaction.lag.ms": "100", "delete.retention.ms": "0"}  # fmt: skip
        elif self.chance.random() < 0.3:
            options["message.timestamp.type"] = "LogAppendTime"
        mq.create_topic(self.topic, partitions=partitions, options=options)

    def grow(self, steps):
        """Run steps: each sends some messages and may trim the log. Then wait until a compacted log was compacted."""
        for _ in range(steps):
            self._send(self.chance.choice((1, 7, 60, 400)))
            if self.chance.random() < 0.15 and not self._is_compacted:
                self._trim()
        if self._is_compacted:
            time.sleep(0.3)
            self._send(1)  # begins a segment, so that the earlier ones may be compacted
            time.sleep(1.5)
        self._settle()

    def _settle(self):
        """Wait until each transaction has its marker: the broker writes it after answering the commit."""
        admin = AdminClient({"bootstrap.servers": self._server.bootstrap})
        latest = {TopicPartition(self.topic, number): OffsetSpec.latest() for number in range(self._partitions)}

        def ends(isolation):
            found = admin.list_offsets(latest, isolation_level=isolation, request_timeout=20)
            return {each.partition: future.result(20).offset for each, future in found.items()}

        end = time.monotonic() + 60
        while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
            assert time.monotonic() < end
            time.sleep(0.02)

    def _send(self, count):
        outcome = self.chance.choice(("plain", "plain", "commit", "commit", "abort"))
        options = {"bootstrap.servers": self._server.bootstrap, "compression.type": self.chance.choice(CODECS),
                   "batch.num.messages": self.chance.choice((1, 10, 10_000)), "linger.ms": 5}  # fmt: skip
        if outcome != "plain":
            options["transactional.id"] = new_name()
        out = confluent_kafka.Producer(options)
        if outcome != "plain":
            out.init_transactions(30)
            out.begin_transaction()
        for _ in range(count):
            out.produce(self.topic, **self._message())
        assert out.flush(30) == 0
        if outcome == "commit":
            out.commit_transaction(30)
        elif outcome == "abort":
            out.abort_transaction(30)

    def _message(self):
        pick = self.chance.choice
        keys = (b"", b"k", b"\0", b"%d" % self.chance.randrange(30))
        moment = pick(TIMES)
        return {
            "value": pick((None, b"", b"\0\xff", self.chance.randbytes(self.chance.choice((1, 128, 5000))))),
            "key": pick(keys if self._is_compacted else (None, *keys)),
            "headers": [(pick(NAMES), pick((None, b"", b"\0v", b"value"))) for _ in range(pick((0, 0, 0, 1, 3)))],
            "partition": self.chance.randrange(self._partitions),
            **({} if moment is None else {"timestamp": moment}),
        }

    def _trim(self):
        marks = self._mq.watermarks(self.topic)
        partition = self.chance.randrange(self._partitions)
        low, high = marks[partition].low.coordinates[0], marks[partition].high.coordinates[0]
        if low < high:
            kept = self.positions({partition: self.chance.randint(low, high)})
            self._mq.trim(self.topic, {log.partition: position for log, position in kept.items()})

    def low(self):
        """Return the first position of each partition that still exists."""
        return {mark.low.log: mark.low for mark in self._mq.watermarks(self.topic).values()}

    def positions(self, offsets):
        """Return positions at these offsets, by partition."""
        logs = self._mq.partitions(self.topic)
        return {logs[p]: mqplug.Position(logs[p], (offset,)) for p, offset in offsets.items()}
