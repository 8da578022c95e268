"""Coordinates of messages, computed by runs of one entry, equal those of each message's own id."""

from __future__ import annotations

import random
import uuid

import pulsar
import pytest

import mqplug
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
