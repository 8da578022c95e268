"""The compiled part reads the same ids, columns, positions and errors as pulsar-client."""

from __future__ import annotations

import logging
import random
from importlib import import_module

import pulsar
import pytest
from compiled_parts import compiled_part

import mqplug
from mqplug_pulsar._cluster import compiled_part as part
from mqplug_pulsar._consume.received_messages import LeasedRun, ReceivedMessages

compiled_part("mqplug_pulsar_native")
compiled_reading = import_module("mqplug_pulsar._consume.compiled_reading")
CollectedLeases = compiled_reading.CollectedLeases

CODECS = ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY")
TEXTS = (
    "",
    "a",
    "key",
    "m",
    "mqplug:base64:",
    "mqplug:base64:AAE=",
    "mqplug:base64:?",
    "a\0b",
    "\0",
    "é",
    "日本\0",
    "x" * 300,
)
NAMES = ("a", "b", "a\0b", "é", "mqplug.headers", "mqplug.epoch", "mqplug.other", "mqplug.schema-version", "n" * 200)
SIZES = (0, 0, 1, 5, 128, 1024, 70_000)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.night) for seed in range(1, 8))]


@pytest.fixture
def both(pulsar_server):
    """A client without the compiled part, and one with it."""
    url = pulsar_server.url
    with mqplug.connect(url, native="off") as plain, mqplug.connect(url, native="required") as native:
        yield plain, native


@pytest.fixture
def foreign(pulsar_server):
    """A client of pulsar-client without mqplug."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    client = pulsar.Client(pulsar_server.service_url, operation_timeout_seconds=30, logger=logger)
    yield client
    client.close()


def fill_at_random(client, topic, chance):
    """Send messages of all kinds through producers of all kinds. Return how many were stored."""
    results = []
    for _ in range(8):
        batched, codec = chance.random() < 0.7, chance.choice(CODECS)
        producer = client.create_producer(
            topic,
            batching_enabled=batched,
            chunking_enabled=not batched,
            batching_max_publish_delay_ms=10_000,
            block_if_queue_full=True,
            compression_type=getattr(pulsar.CompressionType, codec),
        )
        for _ in range(chance.randint(1, 120 if batched else 15)):
            large = not batched and codec == "NONE" and chance.random() < 0.2
            size = 6_000_000 if large else chance.choice(SIZES)
            if not batched and codec == "ZLib":
                size = size or 1  # the client cannot read the empty messages of its own zlib
            send_at_random(producer, chance, size, lambda result, _: results.append(result))
        producer.flush()
        producer.close()
    return results.count(pulsar.Result.Ok)


def send_at_random(producer, chance, size, done):
    """Send a message of this size, or a null value if it is 0, with a random key and properties."""
    properties = {chance.choice(NAMES): chance.choice(TEXTS) for _ in range(chance.choice((0, 0, 1, 3)))}
    if chance.random() < 0.1:
        properties["mqplug.headers"] = chance.choice(('["a",["b","AA=="]]', '[["",null],"a"]', "[", "{}", '["zz"]'))
    producer.send_async(
        None if size == 0 and chance.random() < 0.5 else chance.randbytes(min(size, 64)) * (size // 64 or 1),
        done,
        partition_key=chance.choice(TEXTS) or None,
        properties=properties,
        event_timestamp=chance.choice((None, 1, 1_700_000_000_000, 2**62)),
    )


def read(client, topic, count, most=1000, **options):
    """Read messages. Return the content of each, and the position after the last one."""
    messages, behind = [], None
    with client.consumer(topic, **options) as consumer:
        while len(messages) < count:
            batch = consumer.receive_many(most, timeout=20)
            messages += contents(batch)
            behind = batch.next_position
            check_arrow(batch)
    return messages, behind


def contents(batch):
    """Return the fields of each message."""
    columns = (batch.ids, batch.details, batch.keys, batch.values, batch.headers, batch.timestamps, batch.log_times)
    return list(zip(*columns, batch.attempts, strict=True))


def check_arrow(batch):
    """Check that the arrays hold what the columns do."""
    table = batch.to_arrow(["key", "value", "headers", "attempt"]).to_pydict()
    assert table["key"] == list(batch.keys)
    assert table["value"] == list(batch.values)
    assert [[(each["key"], each["value"]) for each in row] for row in table["headers"]] == [*map(list, batch.headers)]
    assert table["attempt"] == list(batch.attempts)
    times = batch.to_arrow(["timestamp", "log_time", "offset"])
    assert times["timestamp"].cast("int64").to_pylist() == list(batch.timestamps)
    assert times["log_time"].cast("int64").to_pylist() == list(batch.log_times)
    assert times["offset"].null_count == len(batch)
    assert batch.to_arrow().validate(full=True) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_is_read(both, foreign, topic, seed):
    """Both clients read the same messages, from the beginning and from positions inside batches and chunks."""
    chance = random.Random(seed)
    sent = fill_at_random(foreign, f"{topic}-partition-0", chance)
    plain, native = both
    expected = read(plain, topic, sent, start=mqplug.EARLIEST)
    assert len(expected[0]) == sent
    for most in (1000, 7):
        assert read(native, topic, sent, most, start=mqplug.EARLIEST) == expected
    for row in chance.sample(range(sent), 10):
        start = mqplug.before(expected[0][row][0])
        assert read(native, topic, sent - row, start=start) == (expected[0][row:], expected[1])
    with native.consumer(topic, start=mqplug.EARLIEST) as consumer:
        for content in chance.sample(expected[0], 10):
            consumer.seek(mqplug.before(content[0]))
            assert contents(consumer.receive_many(1, timeout=20)) == [content]


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_members_get_the_same(both, foreign, topic, seed):
    """Members of both clients get the same messages, and those acked inside a batch do not come again."""
    chance = random.Random(seed)
    sent = fill_at_random(foreign, f"{topic}-partition-0", chance)
    got = []
    for client, group in zip(both, ("plain", "native"), strict=True):
        with client.consumer(topic, group=group, start=mqplug.EARLIEST) as member:
            messages, contained = [], []
            while len(messages) < sent:
                batch = member.receive_many(1000, timeout=20)
                assert len(batch), f"{group}: {len(messages)} of {sent}"
                messages += batch
                contained += contents(batch)
                check_arrow(batch)
            for message in random.Random(seed).sample(messages, sent // 2):
                member.ack(message)
            member.commit()
        with client.consumer(topic, group=group) as member:
            got.append((contained, [member.receive(20).id for _ in range(sent - sent // 2)]))
    assert got[0] == got[1]


@pytest.mark.parametrize("mode", ["shared", pytest.param("key_shared", marks=pytest.mark.night)])
def test_members_that_share_get_the_same(both, foreign, topic, mode):
    """Members in shared modes get the same messages with both clients, also after a nack, with the same attempts."""
    chance = random.Random(mode)
    sent = fill_at_random(foreign, f"{topic}-partition-0", chance)
    got = []
    for client, group, kind in zip(both, ("plain", "native"), (LeasedRun, CollectedLeases), strict=True):
        with client.consumer(topic, group=group, mode=mode, start=mqplug.EARLIEST) as member:
            contained = {}
            while len(contained) < sent:
                batch = member.receive_many(1000, timeout=20)
                assert len(batch), f"{group}: {len(contained)} of {sent}"
                assert type(batch._columns) is kind
                check_arrow(batch)
                for message, content in zip(batch, contents(batch), strict=True):
                    (member.nack if message.attempt == 1 else member.ack)(message)
                    if message.attempt == 2:
                        contained[message.id] = content
        got.append(contained)
    assert got[0] == got[1]


def test_times_that_no_int64_holds(both, foreign, topic):
    """A foreign timestamp of 2**63 or more is read as that number by both clients; in Arrow it is a typed error."""
    producer = foreign.create_producer(f"{topic}-partition-0")
    for time in (1, 2**63 - 1, 2**63, 2**64 - 1):
        producer.send(b"x", event_timestamp=time)
    for client in (*both, both[1]):  # the first messages of a process are compared
        with client.consumer(topic, start=mqplug.EARLIEST) as consumer:
            times = []
            while len(times) < 4:
                batch = consumer.receive_many(10, timeout=20)
                times += batch.timestamps
                assert batch.to_arrow(["value", "log_time"]).num_rows == len(batch)
                if max(batch.timestamps) >= 2**63:
                    with pytest.raises(mqplug.InvalidTimestamp, match="Arrow cannot hold"):
                        batch.to_arrow()
        assert times == [1, 2**63 - 1, 2**63, 2**64 - 1]


def test_what_mqplug_sends(both, topic):
    """Binary keys, repeated and unsorted headers, tombstones and a timestamp of 0 are read as they were sent."""
    plain, native = both
    records = [
        mqplug.Record(b"a", key=b"\xff\0", headers=[("b", b"1"), ("a", None), ("b", b"\xfe")]),
        mqplug.Record(None, key=b"", timestamp=0),
        mqplug.Record(b"", headers=[("", b""), ("é", "ü".encode())]),
        mqplug.Record(b"\0" * 10, key=b"mqplug:base64:", timestamp=0, headers=[("z", b"\0")]),
    ]
    with plain.producer(topic) as out:
        out.send_many(records)
    expected = read(plain, topic, len(records), start=mqplug.EARLIEST)
    assert read(native, topic, len(records), start=mqplug.EARLIEST) == expected
    assert [content[2:5] for content in expected[0]] == [
        (each.key, each.value, tuple(each.headers)) for each in records
    ]


def test_schema_versions(both, foreign, name):
    """Both clients add the header with the version of a message's schema."""
    plain, native = both
    plain.create_topic(name)
    producer = foreign.create_producer(f"{name}-partition-0", schema=pulsar.schema.StringSchema())
    for properties in ({}, {"a": "b"}):
        producer.send("text", properties=properties)
    expected = read(plain, name, 2, start=mqplug.EARLIEST)
    assert [dict(content[4])["mqplug.schema-version"] for content in expected[0]] == [b"0", b"0"]
    assert read(native, name, 2, start=mqplug.EARLIEST) == expected


def test_redelivery_counts(foreign, topic):
    """The attempt of a message is one more than its earlier deliveries."""
    consumer = foreign.subscribe(
        f"{topic}-partition-0", "g", pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100, initial_position=pulsar.InitialPosition.Earliest,
    )  # fmt: skip
    foreign.create_producer(f"{topic}-partition-0").send(b"x")
    for attempt in (1, 2, 3):
        message = consumer.receive(20_000)
        plain = ReceivedMessages([message._message])
        assert compiled_reading.CollectedMessages(plain.messages).attempts() == plain.attempts() == [attempt]
        consumer.negative_acknowledge(message)


def test_large_batches(both, foreign, topic):
    """Batches of large messages are delivered in parts, complete and in order."""
    producer = foreign.create_producer(f"{topic}-partition-0", block_if_queue_full=True)
    for number in range(40):
        producer.send_async(b"%08d" % number + bytes(4_000_000), None)
    producer.flush()
    sizes, numbers = [], []
    with both[1].consumer(topic, start=mqplug.EARLIEST, prefetch_bytes=1 << 30) as consumer:
        while len(numbers) < 40:
            batch = consumer.receive_many(1000, timeout=20)
            sizes.append(len(batch))
            numbers += [int(value[:8]) for value in batch.values]
    assert numbers == list(range(40))
    assert max(sizes) <= 17  # 64 MiB


def test_a_difference_is_given_up(pulsar_server, mq, topic, monkeypatch, caplog):
    """If the compiled part reads the first messages differently, pulsar-client's are delivered, with one log line."""
    monkeypatch.setattr(compiled_reading, "_agreed", None)
    monkeypatch.setattr(part.PART, "_refused", {})
    monkeypatch.setattr(part.PART, "_logged", set())
    monkeypatch.setattr(compiled_reading.CompiledRows, "keys", lambda rows: [b"another"] * len(rows))
    with mq.producer(topic) as out:
        out.send(b"x", key=b"k")
    with mqplug.connect(pulsar_server.url) as client, caplog.at_level(logging.WARNING, "mqplug.pulsar"):
        found, _ = read(client, topic, 1, start=mqplug.EARLIEST)
        assert found[0][2] == b"k"
        assert any("the keys of its first messages differ" in note for note in client._connection.notes())
        read(client, topic, 1, start=mqplug.EARLIEST)
    assert len([record for record in caplog.records if "mqplug-pulsar-native" in record.getMessage()]) == 1


def test_the_compiled_part_is_used(both, topic):
    """Only the client with the compiled part reads columns that the compiled part filled."""
    plain, native = both
    with plain.producer(topic) as out:
        out.send(b"x")
    for client, kind in ((plain, ReceivedMessages), (native, compiled_reading.CompiledRows)):
        read(client, topic, 1, start=mqplug.EARLIEST)  # the first messages of a process are compared
        with client.consumer(topic, start=mqplug.EARLIEST) as consumer:
            assert isinstance(consumer.receive_many(1, timeout=20)._columns, kind)
