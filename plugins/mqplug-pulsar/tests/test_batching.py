"""Batches and compression as set, and the ids of the sent messages."""

from __future__ import annotations

import itertools
import time

import pytest
from pulsar_driver import take
from waiting import wait_until

import mqplug
from mqplug import EARLIEST, Record


def entries(ids):
    """Return how many messages each entry holds, in order."""
    return [len(list(group)) for _, group in itertools.groupby(each.coordinates[:2] for each in ids)]


def received(client, topic, count):
    """Return the first messages of a topic."""
    with client.consumer(topic, start=EARLIEST) as reader:
        return take(reader, count)


@pytest.mark.parametrize(
    "settings",
    [
        {"compression": "gzip"},
        {"compression": ""},
        {"batching": "off"},
        {"batch_delay": 0},
        {"batch_delay": 60},
        {"batch_delay": float("nan")},
        {"batch_messages": 1},
        {"batch_messages": 2.5},
        {"batch_bytes": 0},
        {"batch_bytes": 1 << 30},
    ],
)
def test_wrong_settings(settings):
    """A wrong setting of batches or compression is a ``ConfigError`` that names the setting, before any I/O."""
    with pytest.raises(mqplug.ConfigError, match=next(iter(settings))):
        mqplug.connect("pulsar", service_url="pulsar://127.0.0.1:1", **settings)


@pytest.mark.parametrize(
    "compression",
    ["lz4", pytest.param("zlib", marks=pytest.mark.night), "zstd", pytest.param("snappy", marks=pytest.mark.night)],
)
def test_compressed(connected, mq, topic, rest, compression):
    """Compressed messages take less space at the broker and are read unchanged."""
    value = b"all the same " * 10_000
    with connected(compression=compression).producer(topic) as out:
        out.send(value)
    assert rest.ask("GET", f"{rest.path(topic)}-partition-0/internalStats")["totalSize"] < len(value) / 2
    assert received(mq, topic, 1)[0].value == value


def test_no_batches(connected, topic):
    """Without batching each message is an entry of its own."""
    with connected(batching="none").producer(topic) as out:
        ids = out.send_many([b"%d" % number for number in range(20)])
    assert [each.coordinates[2] for each in ids] == [-1] * 20
    assert entries(ids) == [1] * 20


def test_full_at_a_number_of_messages(connected, topic):
    """A batch is sent when it holds ``batch_messages`` messages."""
    with connected(batch_messages=10, batch_delay=2.0).producer(topic) as out:
        assert entries(out.send_many([b"x"] * 25)) == [10, 10, 5]


def test_full_at_a_number_of_bytes(connected, topic):
    """A batch is sent when it holds ``batch_bytes`` bytes."""
    with connected(batch_bytes=1024, batch_delay=2.0).producer(topic) as out:
        assert max(entries(out.send_many([bytes(300)] * 12))) < 5


def test_delay(connected, topic):
    """A batch waits ``batch_delay`` for more messages while nobody waits for one of them."""
    with connected(batch_delay=0.6).producer(topic) as out:
        out.send(b"opens the producer")
        began = time.monotonic()
        handle = out.submit(b"x")
        wait_until(lambda: handle.done)
        assert time.monotonic() - began > 0.5


def test_batches_by_key(connected, mq, topic):
    """By key, each batch holds the messages of one key, in order, under the ids that ``send_many`` returned."""
    records = [Record(b"%d" % number, key=b"key-%d" % (number % 3)) for number in range(300)]
    with connected(batching="by_key", batch_delay=0.5).producer(topic) as out:
        ids = out.send_many(records)
        alone = out.send(b"last", key=b"key-0")
    found = {message.id: message for message in received(mq, topic, 301)}
    assert [(found[each].key, found[each].value) for each in ids] == [(each.key, each.value) for each in records]
    keys_of_entries = {(each.coordinates[:2], found[each].key) for each in ids}
    assert len(keys_of_entries) == len({entry for entry, _ in keys_of_entries})
    for key in range(3):
        assert ids[key::3] == sorted(ids[key::3])
    assert found[alone].value == b"last"


@pytest.mark.parametrize(
    "count", [1, pytest.param(127, marks=pytest.mark.night), 128, pytest.param(1000, marks=pytest.mark.night), 2500]
)
def test_ids_of_batches_of_any_size(mq, topic, count):
    """The ids that ``send_many`` returns equal the ids of the read messages, including their details."""
    with mq.producer(topic) as out:
        ids = out.send_many([b"%d" % number for number in range(count)])
    messages = received(mq, topic, count)
    assert [message.id for message in messages] == ids
    assert [message.value for message in messages] == [b"%d" % number for number in range(count)]
    assert [message.id.detail for message in messages] == [each.detail for each in ids]


def test_ids_of_submitted_messages(mq, topic):
    """Handles return the ids of their messages in the order of sending, whatever fields the messages have."""
    with mq.producer(topic) as out:
        handles = []
        for number in range(2000):
            fields = [{}, {"key": b"k"}, {"headers": [("h", b"1")]}, {"timestamp": 0}][number % 7 % 4]
            handles.append(out.submit(b"%d" % number, **fields))
        ids = [handle.result(30) for handle in handles]
    assert [message.id for message in received(mq, topic, 2000)] == ids == sorted(ids)


def test_too_large_as_text(mq, topic):
    """A key that is too large as text fails with its batch; the other batches are stored."""
    records = [Record(b"%d" % number, key=b"\xff" * (4_500_000 if number == 1500 else 1)) for number in range(3000)]
    with mq.producer(topic) as out, pytest.raises(mqplug.SendFailed) as caught:
        out.send_many(records)
    results = caught.value.results
    failed = [number for number, each in enumerate(results) if isinstance(each, mqplug.Error)]
    assert {type(results[number]) for number in failed} == {mqplug.MessageTooLarge}
    assert 1500 in failed
    stored = [each for each in results if not isinstance(each, mqplug.Error)]
    assert [message.id for message in received(mq, topic, len(stored))] == stored
    assert len(stored) > 1000
