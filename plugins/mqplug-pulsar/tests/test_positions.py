"""Ids, positions, seeks and watermarks, especially where Pulsar has pitfalls."""

from __future__ import annotations

import time
from datetime import timedelta

import pulsar
import pytest

import mqplug
from mqplug import EARLIEST, LATEST, MessageId, Position, PositionLost, after, at_time, before, last

pytestmark = pytest.mark.python

DEADLINE = 20


def values(messages):
    """Return the values of the messages."""
    return [message.value for message in messages]


def batch(mq, topic, *texts):
    """Send messages as one batch and return their ids."""
    with mq.producer(topic) as out:
        return out.send_many(list(texts))


@pytest.fixture
def native(pulsar_server):
    """A client of pulsar-client, as another program would use it."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    client = pulsar.Client(pulsar_server.service_url, logger=logger)
    yield client
    client.close()


def test_ids_agree(mq, topic):
    """The id that a send returns equals the id of the read message, including the batch size in its detail."""
    ids = batch(mq, topic, b"a", b"b", b"c")
    read = [message.id for message in mq.read(topic)]
    assert read == ids
    assert [each.detail for each in read] == [each.detail for each in ids] == [(3,)] * 3


def test_middle_of_a_batch(mq, topic):
    """Reading can begin and end at any message inside a batch, also with ids parsed from text."""
    ids = batch(mq, topic, b"a", b"b", b"c", b"d")
    assert values(mq.read(topic, start=before(ids[1]), until=after(ids[2]))) == [b"b", b"c"]
    assert values(mq.read(topic, start=after(MessageId.parse(str(ids[2]))))) == [b"d"]


def test_seek_backward_inside_a_batch(mq, topic):
    """After a seek the first message is the one at its position, not one that was fetched before."""
    ids = batch(mq, topic, b"a", b"b", b"c", b"d")
    with mq.consumer(topic, start=EARLIEST) as reader:
        assert reader.receive(DEADLINE).value == b"a"
        for index in (3, 0, 2, 1):
            reader.seek(ids[index])
            assert reader.receive(DEADLINE).id == ids[index]


@pytest.mark.parametrize("rounds", [30, pytest.param(200, marks=pytest.mark.night)])
def test_reading_as_fast_as_the_client(mq, topic, rounds):
    """No message is skipped when the reader empties its queue in the middle of an arriving batch."""
    ids = batch(mq, topic, *[b""] * 1500)
    with mq.consumer(topic, start=EARLIEST) as reader:
        for _ in range(rounds):
            read = []
            while len(read) < len(ids) and (more := reader.receive_many(len(ids), DEADLINE)):
                read += more.ids
            assert read == ids
            reader.seek(EARLIEST)


def test_end_of_a_closed_ledger(mq, topic, pulsar_server):
    """A reader at the end of a closed ledger gets the first message of the next ledger."""
    batch(mq, topic, b"a")
    high = mq.watermarks(topic)[0].high
    pulsar_server.unload(topic)
    assert mq.watermarks(topic)[0].high == high
    with mq.consumer(topic, start=high) as reader:
        assert reader.receive(0) is None
        sent = batch(mq, topic, b"b")
        assert reader.receive(DEADLINE).id == sent[0]
        assert sent[0].coordinates[0] > high.coordinates[0]


def test_silent_trim(mq, topic, pulsar_server):
    """A position in removed messages raises ``PositionLost`` with the low watermark, unless ``missing="next"``."""
    ids = batch(mq, topic, b"a", b"b")
    pulsar_server.unload(topic)
    left = batch(mq, topic, b"c")
    pulsar_server.trim(topic)
    low = mq.watermarks(topic)[0].low
    with pytest.raises(PositionLost) as caught:
        mq.consumer(topic, start=after(ids[0]))
    assert caught.value.low == low
    with mq.consumer(topic, start=after(ids[0]), missing="next") as reader:
        assert reader.receive(DEADLINE).id == left[0]


def test_overtaken_without_admin(mq, plain, topic, pulsar_server):
    """A reader whose next messages were removed raises ``PositionLost``, even without the admin interface."""
    for _ in range(60):  # more than the client prefetches
        batch(mq, topic, *[bytes(20_000)] * 5)
    with plain.consumer(topic, start=EARLIEST, prefetch_bytes=1) as reader:
        assert len(reader.receive_many(1, DEADLINE)) == 1
        pulsar_server.unload(topic)
        rest_ids = batch(mq, topic, b"new")
        pulsar_server.trim(topic)
        with pytest.raises(PositionLost) as caught:  # not inside a run of messages that is delivered together
            list(iter(lambda: reader.receive(DEADLINE).id, rest_ids[0]))
        assert caught.value.low.precedes(rest_ids[0])
        reader.seek(EARLIEST)
        assert reader.receive(DEADLINE).id == rest_ids[0]


def test_both_ways_to_watermarks_agree(mq, plain, topic, rest, pulsar_server):
    """Low, high and bounds are the same with and without the admin interface."""
    batch(mq, topic, b"a", b"b")
    pulsar_server.unload(topic)
    batch(mq, topic, b"c", b"d", b"e")
    one, other = mq.watermarks(topic)[0], plain.watermarks(topic)[0]
    assert (one.low, one.high) == (other.low, other.high)
    assert mq.bounds(topic) == plain.bounds(topic)
    end = time.monotonic() + DEADLINE
    while rest.cursors(topic):  # cursors of closed readers disappear a moment later
        assert time.monotonic() < end
        time.sleep(0.05)


def test_without_admin(mq, plain, topic):
    """Sending, reading, seeks and groups work without the admin interface; other calls raise ``Unsupported``."""
    ids = batch(plain, topic, b"a", b"b")
    assert values(plain.read(topic, start=last(1))) == [b"b"]
    assert values(plain.read(topic, start=at_time(0))) == [b"a", b"b"]
    assert [each.id for each in plain.read(topic)] == ids
    with plain.consumer(topic, group="g") as member:
        member.ack(member.receive(DEADLINE))
        member.seek(ids[1])
        assert member.receive(DEADLINE).id == ids[1]
        with pytest.raises(mqplug.Unsupported, match="admin_url"):
            member.committed()
    with pytest.raises(mqplug.Unsupported, match="admin_url"):
        plain.create_topic(f"{topic}-other")
    with pytest.raises(mqplug.Unsupported, match="admin_url"):
        plain.consumer(topic, group="new", start=last(1))
    with pytest.raises(mqplug.Unsupported):
        plain.topics()


def test_latest_on_an_empty_topic(mq, plain, topic):
    """The first message after ``LATEST`` is delivered, with and without the admin interface."""
    with mq.consumer(topic, start=LATEST) as one, plain.consumer(topic, start=LATEST) as other:
        ids = batch(mq, topic, b"a")
        assert one.receive(DEADLINE).id == other.receive(DEADLINE).id == ids[0]


def test_last_over_ledgers(mq, topic, pulsar_server):
    """``last(n)`` counts messages, not entries, and crosses ledgers."""
    batch(mq, topic, b"a", b"b", b"c")
    pulsar_server.unload(topic)
    batch(mq, topic, b"d", b"e")
    assert [values(mq.read(topic, start=last(n))) for n in (0, 1, 3, 9)] == [
        [], [b"e"], [b"c", b"d", b"e"], [b"a", b"b", b"c", b"d", b"e"],
    ]  # fmt: skip


def test_time_is_of_the_batch(mq, topic):
    """All messages of a batch have one log time, and a search by time finds the batch."""
    batch(mq, topic, b"a", b"b")
    first = next(iter(mq.read(topic))).log_time
    assert {message.log_time for message in mq.read(topic)} == {first}
    assert values(mq.read(topic, start=at_time(first))) == [b"a", b"b"]
    assert values(mq.read(topic, start=at_time(2_000_000_000_000))) == []


def test_time_of_what_was_sent_late(mq, topic, native):
    """A message that is stored late with an older time hides no earlier message from a search by time."""
    late = native.create_producer(
        f"{topic}-partition-0", batching_enabled=True, batching_max_messages=1000, batching_max_publish_delay_ms=60_000
    )
    batch(mq, topic, b"a")
    late.send_async(b"late", None)
    for text in (b"b", b"c"):
        time.sleep(0.005)
        batch(mq, topic, text)
    late.flush()
    late.close()
    messages = list(mq.read(topic))
    assert values(messages) == [b"a", b"b", b"c", b"late"]
    for text, behind in ((1, b"bc"), (2, b"c")):
        moment = messages[text].log_time
        assert messages[3].log_time < moment
        assert values(mq.read(topic, start=at_time(moment)))[0] == behind[:1]
        with mq.consumer(topic, start=EARLIEST) as reader:
            reader.seek(at_time(moment))
            assert reader.receive(DEADLINE).id == messages[text].id


def test_time_of_what_came_too_early(mq, topic, monkeypatch):
    """Messages older than the requested time are dropped, even if pulsar-client's reader still delivers them."""
    for text in (b"a", b"b", b"c"):
        batch(mq, topic, text)
        time.sleep(0.005)
    times = [message.log_time for message in mq.read(topic)]
    monkeypatch.setattr(pulsar.Reader, "seek", lambda self, place: None)  # the reader is never moved
    assert values(mq.read(topic, start=at_time(times[1]))) == [b"b", b"c"]
    assert values(mq.read(topic, start=at_time(times[2] + timedelta(seconds=1)))) == []


def test_a_search_for_a_time_survives_a_reload(mq, topic, monkeypatch):
    """A search is repeated if its reader continues at the end, as the client's does if its topic is then reloaded."""
    batch(mq, topic, b"a")
    batch(mq, topic, b"b")
    stored = list(mq.read(topic))
    wanted = next(each for each in stored if each.log_time >= stored[1].log_time)
    seek, seeks = pulsar.Reader.seek, []

    def seek_during_reload(reader, to):
        seeks.append(to)
        if len(seeks) == 1:
            to = pulsar.MessageId(-1, *batch(mq, topic, b"c")[0].coordinates[:2])
        seek(reader, to)

    with mq.consumer(topic, start=EARLIEST) as reader:
        monkeypatch.setattr(pulsar.Reader, "seek", seek_during_reload)
        reader.seek(at_time(wanted.log_time))
        assert reader.receive(DEADLINE).id == wanted.id
    assert len(seeks) == 2


def test_a_search_for_a_time_survives_a_wrong_answer(mq, topic, monkeypatch):
    """A search is repeated if its reader says at once that the topic is empty, as the client's does after a reload."""
    ids = batch(mq, topic, b"a")
    answer, wrong = pulsar.Reader.has_message_available, [False]
    with mq.consumer(topic, start=LATEST) as reader:
        monkeypatch.setattr(pulsar.Reader, "has_message_available", lambda each: wrong.pop() if wrong else answer(each))
        reader.seek(at_time(0))
        assert reader.receive(DEADLINE).id == ids[0]
    assert not wrong


def test_chunked_messages_of_others(mq, topic, native):
    """A message that another producer sent in chunks is read whole and can be found again by its id."""
    producer = native.create_producer(f"{topic}-partition-0", chunking_enabled=True)
    producer.send(b"small")
    producer.send(bytes(6_000_000))
    producer.send(b"end")
    messages = list(mq.read(topic))
    assert [len(message.value) for message in messages] == [5, 6_000_000, 3]
    again = list(mq.read(topic, start=before(messages[1].id)))
    assert [message.id for message in again] == [message.id for message in messages[1:]]
    assert values(mq.read(topic, start=after(messages[1].id))) == [b"end"]


def test_unbatched_messages_of_others(mq, topic, native):
    """A single message of another producer has the expected key, headers, timestamp and id."""
    producer = native.create_producer(f"{topic}-partition-0")
    producer.send(b"x", partition_key="k", properties={"b": "2", "a": "1"}, event_timestamp=1000)
    (message,) = mq.read(topic)
    assert (message.key, message.headers) == (b"k", (("a", b"1"), ("b", b"2")))
    assert message.timestamp.timestamp() == 1
    assert message.id.coordinates[2] == -1
    assert values(mq.read(topic, start=after(message.id))) == []


def test_epoch(mq, topic):
    """A timestamp of 0 is kept, although Pulsar treats 0 as no timestamp."""
    with mq.producer(topic) as out:
        out.send(b"", timestamp=0)
    assert next(iter(mq.read(topic))).timestamp.timestamp() == 0


def test_made_again(mq, topic):
    """A position in a topic that was deleted and created again is lost: ledger numbers are never reused."""
    old = batch(mq, topic, b"a", b"b")
    mq.delete_topic(topic)
    mq.create_topic(topic)
    new = batch(mq, topic, b"c")
    assert new[0] > old[1]
    with pytest.raises(PositionLost):
        mq.consumer(topic, start=before(old[1]))


def test_topic_by_its_full_name(mq, topic):
    """The full name of a topic leads to the same logs as its plain name."""
    ids = batch(mq, topic, b"a")
    (message,) = mq.read(f"persistent://public/default/{topic}")
    assert message.id == ids[0]
    assert message.topic == topic


def test_unpartitioned_topics(mq, rest, name):
    """A topic without partitions is read and listed, and cannot be created a second time."""
    rest.ask("PUT", rest.path(name))
    ids = batch(mq, name, b"a")
    assert [message.id for message in mq.read(name)] == ids
    assert name in mq.topics()
    with pytest.raises(mqplug.TopicExists):
        mq.create_topic(name)
    mq.delete_topic(name)
    assert name not in mq.topics()


def test_partitions_are_not_listed(mq, name):
    """A partitioned topic is one name in the list."""
    mq.create_topic(name, partitions=3)
    assert [each for each in mq.topics() if each.startswith(name)] == [name]


def test_retention_is_set(mq, rest, name):
    """A new topic retains acked and unacked messages for seven days unless ``retention=`` sets another time."""
    mq.create_topic(name)
    assert rest.ask("GET", f"{rest.path(name)}/retention")["retentionTimeInMinutes"] == 7 * 24 * 60
    assert rest.ask("GET", f"{rest.path(name)}/messageTTL") == 7 * 24 * 3600
    other = f"{name}-other"
    mq.create_topic(other, retention=90)
    assert rest.ask("GET", f"{rest.path(other)}/retention")["retentionTimeInMinutes"] == 2


def test_positions_beyond_the_end_wait(mq, topic):
    """A reader that starts at a position beyond the end skips messages until that position exists."""
    ids = batch(mq, topic, b"a")
    ledger, entry, _ = ids[0].coordinates
    with mq.consumer(topic, start=Position(ids[0].log, (ledger, entry + 2, -1))) as reader:
        batch(mq, topic, b"b")
        batch(mq, topic, b"c")
        assert reader.receive(DEADLINE).value == b"c"


@pytest.mark.parametrize("admin", [True, pytest.param(False, marks=pytest.mark.night)])
@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("way", ["entry", "ledger"])
def test_seek_beyond_the_end_waits(mq, plain, topic, pulsar_server, group, admin, way):
    """A seek beyond the end, in this ledger or a later one, delivers nothing that comes before the position."""
    ids = batch(mq, topic, b"a")
    ledger, entry, _ = ids[0].coordinates
    position = Position(ids[0].log, (ledger, entry + 3, -1) if way == "entry" else (ledger + 1, 0, -1))
    client = mq if admin else plain
    with client.consumer(topic, start=EARLIEST, group=group) as consumer:
        assert consumer.receive(DEADLINE).id == ids[0]
        consumer.seek(position)
        batch(mq, topic, b"before")
        batch(mq, topic, b"before")
        assert consumer.receive(0.5) is None
        assert consumer.position()[0] == position
        if way == "ledger":
            pulsar_server.unload(topic)
        first = batch(mq, topic, b"there")
        assert first[0].coordinates > position.coordinates
        assert consumer.receive(DEADLINE).id == first[0]


@pytest.mark.parametrize("group", [None, "g"])
def test_seek_behind_the_last_entry_of_a_closed_ledger(mq, topic, pulsar_server, group):
    """A position after the last entry of a closed ledger is the start of the next ledger."""
    ids = batch(mq, topic, b"a")
    pulsar_server.unload(topic)
    later = batch(mq, topic, b"b", b"c")
    with mq.consumer(topic, start=EARLIEST, group=group) as consumer:
        assert consumer.receive(DEADLINE).id == ids[0]
        consumer.seek(Position(ids[0].log, (ids[0].coordinates[0], 99, -1)))
        assert consumer.receive(DEADLINE).id == later[0]


def test_the_next_member_waits_beyond_the_end_too(mq, topic):
    """A group at a position beyond the end is reported there, and its next member gets nothing before it."""
    ids = batch(mq, topic, b"a")
    ledger, entry, _ = ids[0].coordinates
    position = Position(ids[0].log, (ledger, entry + 3, -1))
    with mq.consumer(topic, group="g") as member:
        member.seek(position)
        assert member.committed()[0] == position
    batch(mq, topic, b"before")
    with mq.consumer(topic, group="g") as member:
        assert member.receive(0) is None
        assert member.position()[0] == position
        batch(mq, topic, b"before")
        there = batch(mq, topic, b"there")
        assert member.receive(DEADLINE).id == there[0]
        member.seek(ids[0])
        assert member.receive(DEADLINE).id == ids[0]
        assert member.committed()[0].precedes(ids[0])


@pytest.mark.parametrize("how", ["start", "reset"])
def test_groups_begin_beyond_the_end(mq, topic, how):
    """A group that begins beyond the end, or is reset there, gets nothing before that position."""
    ids = batch(mq, topic, b"a")
    ledger, entry, _ = ids[0].coordinates
    position = Position(ids[0].log, (ledger, entry + 2, -1))
    if how == "reset":
        mq.reset_group("g", topic, position)
    with mq.consumer(topic, group="g", start=position) as member:
        batch(mq, topic, b"before")
        there = batch(mq, topic, b"there")
        assert member.receive(DEADLINE).id == there[0]


def test_a_group_moved_back_while_it_waits_beyond_the_end(mq, topic, pulsar_server):
    """A member that waits beyond the end follows another member's seek backward."""
    ids = batch(mq, topic, b"a", b"b")
    ledger, entry, _ = ids[0].coordinates
    with mq.consumer(topic, group="g") as member, mqplug.connect(pulsar_server.url) as other:
        member.seek(Position(ids[0].log, (ledger, entry + 99, -1)))
        second = other.consumer(topic, group="g")
        second.seek(EARLIEST)
        found, end = set(), time.monotonic() + DEADLINE
        while found != {*ids}:
            assert time.monotonic() < end
            found |= {message.id for each in (member, second) if (message := each.receive(0.1)) is not None}


def test_ids_across_reconnects_inside_batches(mq, topic, pulsar_server):
    """A reader whose topic is unloaded in the middle of batches delivers each message once, in order."""
    ids = batch(mq, topic, *[b"x"] * 3000)
    read = []
    with mq.consumer(topic, start=EARLIEST) as reader:
        while len(read) < len(ids) and (more := reader.receive_many(97, DEADLINE)):
            read += more.ids
            if len(read) // 97 in {3, 12, 20}:
                pulsar_server.unload(topic)
    assert read == ids
    assert [each.detail for each in read] == [each.detail for each in ids]
