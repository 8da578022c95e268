"""Messages that pulsar-client has received: runs of one entry, and leases until they are acked or returned."""

from __future__ import annotations

import random
import uuid

import pulsar
import pytest
from _pulsar import MessageId

import mqplug
from mqplug_pulsar._consume.leased_messages import NATIVE_RETURN_S, Lease, LeasedMessages
from mqplug_pulsar._consume.received_messages import ReceivedMessages, entry_runs
from mqplug_pulsar._format import message_ids

DEADLINE_MS = 20_000
BATCHES = (300, 1, 5, 128, 127)
SINGLES = (0, 0, 6_000_000, 0)  # bytes; the large one is sent in chunks
MESSAGES = sum(BATCHES) + len(SINGLES)


@pytest.fixture(scope="module")
def received(shared_pulsar):
    """Messages from pulsar-client: batches of several sizes, single messages, and one message in chunks."""
    name = f"entry-runs-{uuid.uuid4().hex}"  # each worker may run some of these tests
    with mqplug.connect(shared_pulsar.url) as mq:
        mq.create_topic(name)
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    client = pulsar.Client(shared_pulsar.service_url, operation_timeout_seconds=30, logger=logger)
    topic = f"{name}-partition-0"
    batched = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=10_000)
    for size in BATCHES:
        for _ in range(size):
            batched.send_async(b"x", None)
        batched.flush()
    single = client.create_producer(topic, chunking_enabled=True)
    for size in SINGLES:
        single.send(bytes(size))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    messages = [reader.read_next(DEADLINE_MS)._message for _ in range(MESSAGES)]
    yield messages
    client.close()


class Counted:
    """A message that records each request for its id."""

    def __init__(self, message, asked):
        self._message = message
        self._asked = asked

    def message_id(self):
        self._asked.append(self)
        return self._message.message_id()


def agree(messages):
    """Check that the coordinates and details found by entry are those of each id. Return the runs."""
    ids = [message.message_id() for message in messages]
    runs = entry_runs(messages)
    by_entry = ReceivedMessages(messages, by_entry=True)
    assert by_entry.coordinates() == list(map(message_ids.coordinates, ids))
    assert by_entry.details() == list(map(message_ids.detail, ids))
    assert by_entry.next_position == message_ids.position_after(by_entry.coordinates()[-1], by_entry.details()[-1])
    return runs


def test_each_entry_is_a_run(received):
    """A whole batch is one run of its size, and a message without a batch is a run of one."""
    assert [run.size for run in agree(received)] == [*BATCHES, *[1] * len(SINGLES)]


def test_two_ids_an_entry(received):
    """Two ids of an entry are read, however many messages it has."""
    asked: list[object] = []
    entry_runs([Counted(message, asked) for message in received[:300]])
    assert len(asked) == 2


def test_parts_of_batches(received):
    """Runs that begin or end inside a batch have the right coordinates."""
    chance = random.Random(1)
    for _ in range(200):
        first, last = sorted(chance.sample(range(MESSAGES + 1), 2))
        agree(received[first:last])


def test_repeated_messages(received):
    """Messages that a reader receives again after a reconnect inside a batch have the right coordinates."""
    chance = random.Random(2)
    for _ in range(200):
        back, end = sorted(chance.choices(range(MESSAGES + 1), k=2))
        again = chance.randint(0, back)
        agree([*received[again:end], *received[back:]] or received)


def test_group_members_look_at_each_id(received):
    """Read without runs, as for group members, messages keep their coordinates although the batch has holes."""
    messages = [message for row, message in enumerate(received[:300]) if row % 3]
    member = ReceivedMessages(messages)
    assert member.coordinates() == [message_ids.coordinates(message.message_id()) for message in messages]
    assert member.details() == [(300,)] * len(messages)


class Received:
    """A message of pulsar-client."""

    def __init__(self, entry, key="", index=-1, count=0):
        self._id = MessageId(0, 1, entry, index)
        self._key, self._count = key, count

    def message_id(self):
        return self._id

    def partition_key(self):
        return self._key

    def redelivery_count(self):
        return self._count


def lease(entry, key="", index=-1, size=1):
    """Return the lease of a message that has just arrived."""
    made = Lease(Received(entry, key, index), 0.0)
    made.size = size
    return made


def entries(leases):
    """Return the entry numbers of these leases."""
    return [each.place[1] for each in leases]


@pytest.fixture
def table():
    """A table without keys."""
    return LeasedMessages(by_key=False)


def test_a_single_message_goes_back_to_the_broker_in_time(table):
    """A nacked single message goes back to the broker ``NATIVE_RETURN_S`` before its delay ends."""
    table.add(lease(1))
    [taken] = table.take(10, 0.0)
    table.give_back(taken.place, 5.0, 100.0)
    assert table.due_returns(104.0) == []
    assert table.next_return() == 105.0 - NATIVE_RETURN_S
    assert table.due_returns(105.0) == [taken.id]
    assert table.is_empty


def test_a_message_of_a_batch_stays(table):
    """A nacked message of a batch stays in the table and is handed out after its delay as the next attempt."""
    for index in range(2):
        table.add(lease(1, index=index, size=2))
    first, _ = table.take(10, 0.0)
    table.give_back(first.place, 5.0, 100.0)
    assert table.take(10, 104.0) == []
    assert [each.attempt for each in table.take(10, 105.0)] == [2]
    assert table.due_returns(200.0) == []


def test_a_message_that_comes_again_is_dropped_or_acked_again(table):
    """A message in hand is not handed out twice; an acked one whose ack is not stored must be acked again."""
    table.add(lease(1))
    [taken] = table.take(10, 0.0)
    assert table.add(lease(1)) is None
    assert table.take(10, 0.0) == []
    table.ack([taken.place])
    assert table.add(lease(1)) is taken.id
    table.stored([taken])
    assert table.is_empty


def test_a_message_that_waits_for_a_check_is_asked_for_since_the_first_time(table):
    """A message that is put back keeps the time of its first take as ``asked_at``; a nack starts the time anew."""
    table.add(lease(1, index=0, size=2))
    for now in (5.0, 6.0):
        [taken] = table.take(1, now)
        table.put_back([taken], now)
    assert taken.asked_at == 5.0
    [taken] = table.take(1, 7.0)
    table.give_back(taken.place, 0.0, 8.0)
    [taken] = table.take(1, 9.0)
    table.put_back([taken], 9.0)
    assert taken.asked_at == 9.0


def test_acks_that_are_not_stored_keep_the_member_busy(table):
    """A member is idle only without messages in hand, acks to store and nacked messages that wait for their delay."""
    table.add(lease(1))
    table.add(lease(2, index=0, size=2))
    assert table.is_idle(0.0)
    first, second = table.take(2, 0.0)
    assert not table.is_idle(0.0)
    table.give_back(second.place, 5.0, 100.0)
    acked = table.ack([first.place])
    assert not table.is_idle(105.0)
    table.stored(acked)
    assert not table.is_idle(104.0)
    assert table.is_idle(105.0)


def test_an_expired_entry_goes_back_when_nothing_of_it_is_in_hand(table):
    """A batch with an expired message hands out no more messages, and goes back when its other messages are done."""
    for index in range(3):
        table.add(lease(1, index=index, size=3))
    early = table.take(1, 0.0, ends=10.0)
    late = table.take(1, 0.0, ends=20.0)
    assert table.due_returns(10.0) == []
    assert table.take(10, 10.0) == []
    table.stored(table.ack([late[0].place]))
    assert table.due_returns(11.0) == [early[0].id]
    assert table.ack([early[0].place]) == []
    assert table.is_empty


def test_acked_parts_of_batches(table):
    """A partly acked batch is reported as a mask of its new and noted acks; a wholly acked one is not."""
    for index in range(1, 4):
        table.add(lease(1, index=index, size=4))
    places = [each.place for each in table.take(3, 0.0)]
    table.ack(places[1:])
    assert table.acked_parts({(1, 1)}, {}) == {(1, 1): 0b1100}
    assert table.acked_parts({(1, 1)}, {(1, 1): 0b1}) == {(1, 1): 0b1101}
    table.ack(places[:1])
    assert table.acked_parts({(1, 1)}, {(1, 1): 0b1}) == {}


def test_keys_keep_their_order():
    """By key, a nacked message holds back later ones of its key; messages of other keys, or without one, continue."""
    table = LeasedMessages(by_key=True)
    for number, key in enumerate(["a", "a", "b", "", "a"]):
        table.add(lease(number, key))
    [first] = table.take(1, 0.0)
    table.give_back(first.place, 5.0, 100.0)
    assert entries(table.take(10, 101.0)) == [2, 3]
    assert entries(table.take(1, 105.0)) == [0]
    assert entries(table.take(10, 105.0)) == [1, 4]


def test_keys_go_back_together():
    """By key, no message is handed out after one has expired, so that all go back in order."""
    table = LeasedMessages(by_key=True)
    for number in range(2):
        table.add(lease(number, "a"))
    [first] = table.take(1, 0.0, ends=10.0)
    assert table.due_returns(10.0) == []
    assert table.has_expired
    assert table.take(10, 10.0) == []
    assert table.nacked() == [first.id]


def test_the_clock_of_a_message_stops(table):
    """A message whose clock was stopped does not expire; other messages still do."""
    for entry in (1, 2):
        table.add(lease(entry))
    acked, kept = table.take(2, 0.0, ends=10.0)
    table.stop_clock(acked.place)
    assert table.due_returns(20.0) == [kept.id]
    assert table.ack([acked.place]) == [acked]


def test_what_came_back_and_went_again_is_still_known(table):
    """A late ack is recognised even if the member got its message back and gave it away again."""
    table.add(lease(1))
    [late] = table.take(1, 0.0, ends=1.0)
    assert table.due_returns(2.0) == [late.id]
    assert table.add(lease(1)) is None
    table.clear()
    assert table.take_given_away([late.place]) == [late]


def test_an_acked_message_comes_again_after_a_move(table):
    """A message with a late ack that counted is handed out again after the group was moved back."""
    table.add(lease(1))
    [late] = table.take(1, 0.0, ends=1.0)
    table.due_returns(2.0)
    [acked] = table.take_back(table.take_given_away([late.place]))
    table.stored([acked])
    assert table.add(lease(1)) == late.id  # a copy that was under way is acked again
    table.clear(moved=True)
    assert table.add(lease(1)) is None
    assert entries(table.take(1, 3.0)) == [1]
