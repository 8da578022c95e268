"""Messages with timestamps that mqplug itself would not send."""

from __future__ import annotations

import asyncio
import time

import confluent_kafka
import pyarrow as pa
import pytest
from kafka_driver import fill, new_name, take, time_limit

import mqplug
import mqplug.aio
from mqplug_testing.debug import Debug
from mqplug_testing.recording import Recorder

TIMES = [1_700_000_000_000_000, 1_700_000_000_000_000_000, -5, -(10**15), 1_700_000_000_123]


@pytest.fixture
def topic(kafka_server, mq):
    """A topic that accepts any timestamp."""
    name = new_name()
    mq.create_topic(name, options=time_limit(kafka_server, 2**63 - 1))
    return name


def send_foreign(server, topic, *times):
    """Send messages with these timestamps, as another client would."""
    out = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap})
    for moment in times:
        out.produce(topic, b"foreign", timestamp=moment)
        assert out.flush(20) == 0


@pytest.fixture
def ids(kafka_server, mq, topic):
    """The ids of another client's messages with such timestamps, and of a normal message after them."""
    send_foreign(kafka_server, topic, *TIMES)
    log = mq.partitions(topic)[0]
    return [*(mqplug.MessageId(log, (offset,)) for offset in range(len(TIMES))), *fill(mq, topic, 1)]


def moments(message):
    """Return both times of a message in milliseconds, from the error if the time is no datetime."""
    found = []
    for name in ("timestamp", "log_time"):
        try:
            found.append(getattr(message, name).timestamp() * 1000)
        except mqplug.InvalidTimestamp as error:
            found.append(error.milliseconds)
    return found


@pytest.mark.parametrize("extension", [None, Debug, Recorder])
def test_each_time_arrives_exactly(kafka_server, topic, ids, extension):
    """Any timestamp arrives exactly, also with extensions; an impossible datetime raises a typed error."""
    with mqplug.connect(kafka_server.url, extensions=[extension()] if extension else []) as mq:
        messages = list(mq.read(topic, timeout=30))
        assert [message.id for message in messages] == ids
        assert [moments(message) for message in messages[:-1]] == [[each, each] for each in TIMES]
        with mq.consumer(topic, start=mqplug.EARLIEST, until=mqplug.LATEST) as reader:
            batches = []
            while sum(map(len, batches)) < len(ids):
                batches.append(reader.receive_many(100, timeout=30))
        assert [each for batch in batches for each in batch.timestamps][:-1] == TIMES
        table = pa.Table.from_batches([batch.to_arrow() for batch in batches])
        assert table.column("timestamp").cast(pa.int64()).to_pylist()[:-1] == TIMES
        assert table.column("log_time") == table.column("timestamp")
        assert table.column("offset").to_pylist() == [each.coordinates[0] for each in ids]


def test_each_time_arrives_exactly_with_await(kafka_server, topic, ids):
    """The asyncio consumer receives messages with any timestamp, exactly as sent."""

    async def story():
        async with mqplug.aio.connect(kafka_server.url) as mq, mq.consumer(topic, start=mqplug.EARLIEST) as reader:
            return [await reader.receive(timeout=30) for _ in ids]

    messages = asyncio.run(story())
    assert [message.id for message in messages] == ids
    assert [moments(message) for message in messages[:-1]] == [[each, each] for each in TIMES]


def test_a_search_by_time_finds_them(mq, topic, ids):
    """``at_time`` finds the first message that is late enough; a time sent in microseconds is later than any date."""
    for moment in (0, 1_700_000_000_000, 4_000_000_000_000):
        with mq.consumer(topic, start=mqplug.at_time(moment)) as reader:
            assert take(reader, 1)[0].id == ids[0]


def test_they_become_dead_letters(kafka_server, mq, topic, ids):
    """A dead letter keeps in a header a time that cannot be sent, or that Kafka refuses as too far ahead."""
    mq.create_topic(dead := new_name())
    ahead = round(time.time() * 1000) + 7_200_000
    send_foreign(kafka_server, topic, ahead)
    ids.append(mqplug.MessageId(ids[0].log, (len(ids),)))
    with mq.consumer(topic, group=new_name(), retry=mqplug.Retry(1, delay=0), dead_letter=dead) as member:
        for message in take(member, len(ids)):
            member.nack(message)
        with mq.consumer(dead, start=mqplug.EARLIEST) as reader:
            letters = []
            end = time.monotonic() + 30
            while len(letters) < len(ids) and time.monotonic() < end:
                assert member.receive(timeout=0.1) is None  # which settles the letters
                letters += reader.receive_many(100, timeout=0.1)
    by_source = {dict(letter.headers)["mqplug-dead-source"].decode(): letter for letter in letters}
    found = [by_source[str(each)] for each in ids]
    kept = [dict(letter.headers).get("mqplug-dead-timestamp") for letter in found]
    assert kept == [*(b"%d" % each for each in TIMES[:4]), None, None, b"%d" % ahead]
    assert found[4].timestamp.timestamp() * 1000 == TIMES[4]
    assert abs(found[-1].timestamp.timestamp() - time.time()) < 3600


@pytest.mark.parametrize(("setting", "kind"), [("CreateTime", 0), ("LogAppendTime", 1)])
def test_a_batch_tells_who_set_its_timestamps(mq, setting, kind):
    """The column timestamp_type is 0 where the producer set the time, and 1 where the log did, as in Kafka itself."""
    name = new_name()
    mq.create_topic(name, options={"message.timestamp.type": setting})
    fill(mq, name, 3)
    with mq.consumer(name, start=mqplug.EARLIEST) as consumer:
        batch = consumer.receive_many(3, timeout=30)
    assert batch.to_arrow(["timestamp_type", "value"]).column("timestamp_type").to_pylist() == [kind] * len(batch)
    assert batch[1:].to_arrow(["timestamp_type"]).column("timestamp_type").to_pylist() == [kind] * (len(batch) - 1)
