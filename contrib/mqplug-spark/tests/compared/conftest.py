"""Kafka topics with everything that a log can hold."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, Producer
from peers import NOON

import mqplug
from mqplug import Position

if TYPE_CHECKING:
    from peers import Peer


@pytest.fixture(scope="session")
def logs(peer: Peer) -> Iterator[mqplug.Client]:
    """Yield a client of a Kafka whose topics have everything that a log can hold."""
    with mqplug.connect(peer.url) as mq:
        _plain(peer, mq)
        _appended(peer, mq)
        with _transactions(peer, mq):
            _compacted(peer, mq)
            _trimmed(peer, mq)
            _compressed(peer, mq)
            yield mq


def _plain(peer: Peer, mq: mqplug.Client) -> None:
    """Keys, values and headers that are present, empty or null; and times, one of them long ago."""
    mq.create_topic("peer-plain", partitions=3)
    out = _producer(peer)
    headers = [[("a", b"1"), ("a", b"2"), ("b", None), ("", b""), ("\u00fc", b"\xff\x00")], [("a", None)], None, []]
    for number in range(48):
        out.produce(
            "peer-plain",
            key=[b"k%d" % number, b"", None, b"\x00\xff"][number % 4],
            value=[b"v%d" % number, None, b""][number % 3],
            headers=headers[number // 4 % 4],
            partition=number % 3,
            timestamp=NOON + number * 1000 if number else 1,
        )
    _flush(out)


def _appended(peer: Peer, mq: mqplug.Client) -> None:
    """Messages with the time of the broker."""
    mq.create_topic("peer-appended", options={"message.timestamp.type": "LogAppendTime"})
    _send(peer, "peer-appended", range(5))


def _transactions(peer: Peer, mq: mqplug.Client) -> _Open:
    """A topic with messages of a committed, an aborted and an open transaction."""
    mq.create_topic("peer-transactions", partitions=2)
    out = _producer(peer, **{"transactional.id": "peer", "transaction.timeout.ms": "900000"})
    out.init_transactions(30)
    for number in range(6):
        out.begin_transaction()
        for partition in (0, 1):
            out.produce("peer-transactions", b"%d" % number, partition=partition, timestamp=NOON + number)
        out.abort_transaction(30) if number % 3 == 1 else out.commit_transaction(30)
    out.begin_transaction()
    out.produce("peer-transactions", b"open", partition=0, timestamp=NOON)
    _send(peer, "peer-transactions", range(3))  # those in partition 0 wait for the transaction
    return _Open(out)


class _Open:
    """A transaction that stays open inside a ``with`` block."""

    def __init__(self, out: Producer) -> None:
        self._out = out

    def __enter__(self) -> None:
        _flush(self._out)

    def __exit__(self, *raised: object) -> None:
        with suppress(KafkaException):  # the broker aborts it after 15 minutes
            self._out.abort_transaction(30)


def _compacted(peer: Peer, mq: mqplug.Client) -> None:
    """A compacted topic with the last message of each key, and gaps between them and at the start."""
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    mq.create_topic("peer-compacted", options=settings)
    out = _producer(peer)
    for number in range(30):
        out.produce("peer-compacted", b"%d" % number, key=b"%d" % (number % 4), timestamp=NOON + number)
    _flush(out)
    end, later = time.monotonic() + 60, itertools.count(1000, 1000)
    while sum(1 for _ in mq.read("peer-compacted")) > 10:
        assert time.monotonic() < end, "nothing was compacted"
        time.sleep(0.2)
        _send(peer, "peer-compacted", [next(later)])  # a later message closes the previous segment


def _trimmed(peer: Peer, mq: mqplug.Client) -> None:
    """A topic whose first messages are removed."""
    mq.create_topic("peer-trimmed")
    _send(peer, "peer-trimmed", range(10))
    mq.trim("peer-trimmed", {0: Position(mq.watermarks("peer-trimmed")[0].high.log, (4,))})


def _compressed(peer: Peer, mq: mqplug.Client) -> None:
    """A topic with batches in every compression."""
    mq.create_topic("peer-compressed")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        out = _producer(peer, **{"compression.type": codec, "linger.ms": "100"})
        for number in range(200):
            out.produce("peer-compressed", b"%s %d" % (codec.encode(), number) * 9, timestamp=NOON + number)
        _flush(out)


def _send(peer: Peer, topic: str, numbers: range | list[int]) -> None:
    out = _producer(peer)
    for number in numbers:
        out.produce(topic, b"%d" % number, key=b"%d" % number, timestamp=NOON + number)
    _flush(out)


def _producer(peer: Peer, **settings: str | int) -> Producer:
    return Producer({"bootstrap.servers": peer.bootstrap, **settings})


def _flush(out: Producer) -> None:
    assert out.flush(30) == 0
