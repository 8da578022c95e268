"""The personalities of the memory backend: the oddities of Kafka and Pulsar, at the driver seam."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import pytest
from memory_drivers import Seam

import mqplug
from mqplug import (
    Client,
    MessageId,
    Position,
    PositionLost,
    Record,
    TopicNotFound,
    Unsupported,
    before,
    memory,
)
from mqplug.memory import Store
from mqplug.spi import Capabilities, DeleteTopic, GroupPosition

pytestmark = pytest.mark.python

ELSEWHERE = {"auth", "multi_node", "persistent", "multi_process", "message_max_bytes"}  # only servers have these
PULSAR_ITSELF = {"exclusive", "shared", "key_shared", "nack", "ack_timeout", "pause_resume", "add_partitions"}


@pytest.fixture
def kafka() -> Iterator[Client]:
    """A store that imitates Kafka, with a topic."""
    with mqplug.connect("memory", like="kafka", debug=True) as client:
        client.create_topic("orders")
        yield client


@pytest.fixture
def pulsar() -> Iterator[Client]:
    """A store that imitates Pulsar, with a topic."""
    with mqplug.connect("memory", like="pulsar", debug=True) as client:
        client.create_topic("orders")
        yield client


def fill(mq: Client, count: int, partition: int = 0) -> Sequence[MessageId]:
    """Send this many messages together."""
    with mq.producer("orders") as out:
        return out.send_many([Record(b"%d" % number, partition=partition) for number in range(count)])


def with_store(mq: Client, do: Callable[[Store], object]) -> None:
    """Remove messages as retention does, for a backend without a call for it."""
    store = mq.unwrap(Store)
    assert store is not None
    with store.changed:
        do(store)


def trim(mq: Client, before: MessageId) -> None:
    """Remove the messages before this one."""
    with_store(mq, lambda store: store.partition(before.log).trim(before.coordinates))


def like(backend: str) -> Capabilities:
    """Return the capabilities of memory with this personality."""
    connection: Any = memory.mqplug_connect(memory.MemorySettings(like=backend))
    found: Capabilities = connection.capabilities
    return found


def declared(capabilities: Capabilities) -> dict[str, object]:
    """Return the declared capabilities that memory could have, too."""
    return {name: value for name, value in attrs.asdict(capabilities).items() if name not in ELSEWHERE}


def test_kafka_can_do_what_the_plugin_can() -> None:
    """The personality declares exactly the plugin's capabilities, except those that memory cannot have."""
    plugin: Any = pytest.importorskip("mqplug_kafka")
    assert declared(like("kafka")) == declared(plugin.mqplug_describe().capabilities)


def test_pulsar_can_do_what_the_plugin_can_and_pulsar_itself() -> None:
    """The personality declares all capabilities of the plugin, and beyond them only some of Pulsar itself."""
    plugin: Any = pytest.importorskip("mqplug_pulsar")
    native, ours = declared(plugin.mqplug_describe().capabilities), declared(like("pulsar"))
    assert {name for name in native if native[name] != ours[name]} <= PULSAR_ITSELF
    assert not any(native[name] and not ours[name] for name in native)


@pytest.mark.parametrize("mode", ["exclusive", "shared", "key_shared"])
def test_kafka_has_one_mode(kafka: Client, mode: Any) -> None:
    """A test with a shared mode fails on this personality as it would in production."""
    with pytest.raises(Unsupported, match=mode):
        kafka.consumer("orders", group="billing", mode=mode)


def test_markers_of_kafka_leave_gaps(kafka: Client) -> None:
    """After each batch lies an offset without a message; a read up to high skips it and ends."""
    ids = [*fill(kafka, 2), *fill(kafka, 2)]
    assert [message_id.coordinates for message_id in ids] == [(0,), (1,), (3,), (4,)]
    marks = kafka.watermarks("orders")[0]
    assert (marks.high.coordinates, marks.count, marks.exact) == ((6,), 6, False)
    assert [message.id for message in kafka.read("orders")] == ids


def test_a_position_at_a_marker_of_kafka_is_stepped_over(kafka: Client) -> None:
    """An empty batch moves a reader past the marker, so that it reaches its end."""
    last = fill(kafka, 2)[-1]
    high = kafka.watermarks("orders")[0].high
    with kafka.consumer("orders", start=mqplug.after(last), until=high) as orders:
        assert list(orders) == []


def test_kafka_keeps_as_many_ranges_as_fit(kafka: Client) -> None:
    """Of too many acked ranges the nearest are stored; the other messages come again."""
    ids = fill(kafka, 500)
    stands = GroupPosition(
        Position(ids[0].log, ids[0].coordinates),
        tuple((each.coordinates, each.coordinates) for each in ids[1::2]),
    )
    with_store(kafka, lambda store: store.store_positions("billing", {ids[0].log: stands}))
    stored = kafka.positions("orders", group="billing")[0]
    assert len(stored.acked) == kafka.capabilities.acked_ranges_max


def test_kafka_tells_of_a_bad_seek_late() -> None:
    """A seek of a deleted topic succeeds, and the next poll raises."""
    seam = Seam(like="kafka")
    reader = seam.reader()
    seam.do(DeleteTopic("orders"))
    reader.seek({seam.logs[0]: Position(seam.logs[0], (0,))}, 1)
    with pytest.raises(TopicNotFound):
        reader.poll(10, 0)


def test_memory_tells_of_a_bad_seek_at_once() -> None:
    """A seek of a deleted topic is refused at once."""
    seam = Seam()
    reader = seam.reader()
    seam.do(DeleteTopic("orders"))
    with pytest.raises(TopicNotFound):
        reader.seek({seam.logs[0]: Position(seam.logs[0], (0,))}, 1)


def test_ids_of_pulsar_are_entries(pulsar: Client) -> None:
    """Messages sent together share an entry, up to its size; a single message is an entry without a batch."""
    with pulsar.producer("orders") as out:
        single = out.send(b"x")
    batch = fill(pulsar, 12)
    assert single.coordinates == (1, 0, -1)
    assert [each.coordinates for each in (batch[0], batch[9], batch[10], batch[11])] == [
        (1, 1, 0), (1, 1, 9), (1, 2, 0), (1, 2, 1),
    ]  # fmt: skip
    assert batch[9].detail == (10,)


def test_pulsar_has_one_time_for_a_batch(pulsar: Client) -> None:
    """A search by time uses the time of storing, whatever timestamp a message has."""
    with pulsar.producer("orders") as out:
        out.send_many([Record(b"a", timestamp=1000), Record(b"b", timestamp=2000)])
    first, second = pulsar.read("orders")
    assert first.log_time == second.log_time > second.timestamp > first.timestamp
    assert list(pulsar.read("orders", start=mqplug.at_time(first.timestamp))) == [first, second]


def test_pulsar_removes_whole_ledgers(pulsar: Client) -> None:
    """A trim keeps the messages of the ledger in which it ends."""
    with pulsar.producer("orders") as out:
        ids = [out.send(b"%d" % number) for number in range(12)]  # five to a ledger
    trim(pulsar, ids[7])
    assert [message.id for message in pulsar.read("orders")] == ids[5:]


def test_a_reader_of_pulsar_hears_of_a_loss_when_something_follows(pulsar: Client) -> None:
    """A reader whose next message retention removed gets the error at the next stored message."""
    ids = fill(pulsar, 3)
    with pulsar.consumer("orders", start=before(ids[0])) as orders:
        with_store(pulsar, lambda store: store.topic("orders")[0].numbering.roll())
        with_store(pulsar, lambda store: store.topic("orders")[0].trim(store.topic("orders")[0].high))
        assert orders.receive(timeout=0.1) is None
        fill(pulsar, 1)
        with pytest.raises(PositionLost):
            orders.receive(timeout=5)


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_a_group_of_pulsar_never_hears_of_a_loss(pulsar: Client, mode: Any) -> None:
    """A subscription continues after the messages that retention removed."""
    with pulsar.consumer("orders", group="billing", mode=mode) as orders:
        assert orders.receive(timeout=0) is None
        with pulsar.producer("orders") as out:
            ids = [out.send(b"%d" % number) for number in range(8)]
        trim(pulsar, ids[6])
        received = orders.receive(timeout=5)
        assert received is not None
        assert received.id == ids[5]


def test_acks_of_pulsar_count_by_the_entry(pulsar: Client) -> None:
    """An entry with an unacked message comes again as a whole."""
    ids = fill(pulsar, 20)
    with pulsar.consumer("orders", group="billing") as orders:
        received = [orders.receive(timeout=5) for _ in range(20)]
        for message in received[12:15]:
            orders.ack(message)  # type: ignore[arg-type]
    with pulsar.consumer("orders", group="billing") as orders:
        assert [orders.receive(timeout=5).id for _ in range(20)] == ids  # type: ignore[union-attr]


def test_a_nack_on_pulsar_brings_back_the_whole_entry(pulsar: Client) -> None:
    """In shared modes an entry comes again as long as one of its messages is not acked."""
    fill(pulsar, 3)
    with pulsar.consumer("orders", group="billing", mode="shared") as jobs:
        messages = [jobs.receive(timeout=5) for _ in range(3)]
        for message in messages[:2]:
            jobs.ack(message)  # type: ignore[arg-type]
        jobs.commit()
        jobs.nack(messages[2], delay=0)  # type: ignore[arg-type]
        again = [jobs.receive(timeout=5) for _ in range(3)]
        assert sorted((message.value, message.attempt) for message in again if message) == [
            (b"0", 2), (b"1", 2), (b"2", 2),
        ]  # fmt: skip
        for message in again:
            jobs.ack(message)  # type: ignore[arg-type]
        jobs.commit()
    assert pulsar.lag("orders", group="billing") == {0: 0}


def test_pulsar_tells_nobody_who_is_active(pulsar: Client) -> None:
    """Every member is assigned all partitions; each message goes to one of them, even after the other has left."""
    assert not pulsar.capabilities.assignment_events
    first, second = (pulsar.consumer("orders", group="billing") for _ in range(2))
    assert [member.receive(timeout=0) for member in (first, second)] == [None, None]
    assert [len(member.assignment()) for member in (first, second)] == [1, 1]
    fill(pulsar, 1)
    assert first.receive(timeout=5) is not None
    assert second.receive(timeout=0.1) is None
    first.close()
    assert second.receive(timeout=5) is not None, "it was not acked"
    second.close()


def test_a_topic_of_pulsar_that_was_made_again_has_the_same_name() -> None:
    """There is no incarnation: old ids lie below low, since ledgers are never reused."""
    with mqplug.connect("memory", like="pulsar") as mq:
        mq.create_topic("orders")
        old = fill(mq, 1)[0]
        mq.delete_topic("orders")
        mq.create_topic("orders")
        assert mq.partitions("orders") == [old.log]
        assert not mq.watermarks("orders")[0].low.precedes(old)


def test_each_personality_is_a_setting() -> None:
    """An unknown personality is refused before anything is opened."""
    with pytest.raises(mqplug.ConfigError, match="like"):
        mqplug.connect("memory://x?like=nats")
    assert importlib.import_module("mqplug.memory").MemorySettings().like == "full"
