"""Every call ends within its timeout plus a second, whatever the brokers do."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from kafka_driver import fill, new_name

import mqplug

TIMEOUT_S = 2.0
LIMIT_S = TIMEOUT_S + 1.0
SLACK_S = 0.5  # on a busy machine


def sends(client, topic, _):
    """Return calls of one producer."""
    out = client.producer(topic)
    return {
        "send": lambda: out.send(b"x", timeout=TIMEOUT_S),
        "send_many": lambda: out.send_many([b"x", b"y"], timeout=TIMEOUT_S),
        "flush": lambda: out.flush(TIMEOUT_S),
    }


def opened_producers(client, topic, _):
    """Return a call that opens a producer each time."""

    def send():
        with suppress(mqplug.CloseIncomplete, mqplug.OutcomeUnknown):
            out = client.producer(topic, timeout=TIMEOUT_S / 2)
            try:
                out.send(b"x", timeout=TIMEOUT_S / 2)
            finally:
                out.close(TIMEOUT_S / 2)

    return {"open a producer, send, close": send}


def reads(client, topic, _):
    """Return calls of one reader."""
    reader = client.consumer(topic, start=mqplug.EARLIEST)
    return {
        "receive": lambda: reader.receive(TIMEOUT_S),
        "receive_many": lambda: reader.receive_many(1000, TIMEOUT_S),
        "seek": lambda: reader.seek(mqplug.EARLIEST, timeout=TIMEOUT_S),
        "seek to a time": lambda: reader.seek(mqplug.ago(hours=1), timeout=TIMEOUT_S),
    }


def member_calls(client, topic, group):
    """Return calls of one group member."""
    member = client.consumer(topic, group=group)

    def ack():
        for message in member.receive_many(10, TIMEOUT_S):
            member.ack(message)

    return {
        "receive as a member": ack,
        "commit": lambda: member.commit(TIMEOUT_S),
        "seek as a member": lambda: member.seek(mqplug.EARLIEST, timeout=TIMEOUT_S),
    }


def opened_consumers(client, topic, _):
    """Return calls that each open a consumer."""

    def opened(**how):
        with suppress(mqplug.CloseIncomplete):
            client.consumer(topic, timeout=TIMEOUT_S / 2, **how).close(TIMEOUT_S / 2)

    return {
        "open a member": lambda: opened(group=new_name()),
        "open a member at its last": lambda: opened(group=new_name(), start=mqplug.last(2)),
        "open a reader": lambda: opened(start=mqplug.EARLIEST),
        "open a reader at its last": lambda: opened(start=mqplug.last(2)),
    }


def questions(client, topic, group):
    """Return queries about offsets."""
    return {
        "watermarks": lambda: client.watermarks(topic, timeout=TIMEOUT_S),
        "bounds": lambda: client.bounds(topic, timeout=TIMEOUT_S),
        "lag": lambda: client.lag(topic, group=group, timeout=TIMEOUT_S),
        "positions": lambda: client.positions(topic, group=group, timeout=TIMEOUT_S),
        "resolve": lambda: client.resolve(topic, mqplug.last(3), timeout=TIMEOUT_S),
    }


def listings(client, topic, group):
    """Return queries about topics, groups and the cluster."""
    return {
        "topics": lambda: client.topics(timeout=TIMEOUT_S),
        "partitions": lambda: client.partitions(topic, timeout=TIMEOUT_S),
        "describe": lambda: client.describe(topic, timeout=TIMEOUT_S),
        "groups": lambda: client.groups(timeout=TIMEOUT_S),
        "groups of a topic": lambda: client.groups(topic, timeout=TIMEOUT_S),
        "describe_group": lambda: client.describe_group(group, timeout=TIMEOUT_S),
        "health": lambda: client.health(timeout=TIMEOUT_S),
    }


def changes(client, topic, _):
    """Return calls that change topics and groups."""
    other = new_name()
    return {
        "create_topic": lambda: client.create_topic(other, exist_ok=True, timeout=TIMEOUT_S),
        "alter_topic": lambda: client.alter_topic(topic, retention=3600, timeout=TIMEOUT_S),
        "trim": lambda: client.trim(topic, {0: mqplug.EARLIEST}, timeout=TIMEOUT_S),
        "delete_topic": lambda: client.delete_topic(new_name(), timeout=TIMEOUT_S),
        "reset_group": lambda: client.reset_group(new_name(), topic, mqplug.EARLIEST, timeout=TIMEOUT_S),
        "delete_group": lambda: client.delete_group(new_name(), timeout=TIMEOUT_S),
    }


def transactions(client, topic, _):
    """Return a call that runs a transaction."""
    name = new_name()

    def step():
        with client.transaction(name, timeout=TIMEOUT_S) as out:
            out.send(b"x", topic=topic)

    return {"transaction": step}


ROLES = [sends, opened_producers, reads, member_calls, opened_consumers, questions, listings, changes, transactions]


class Role:
    """Makes its calls in turn with its own client, and notes those that take too long."""

    def __init__(self, make, url, topic, limit):
        self.late, self.calls = [], 0
        self._limit = limit
        self._enough = threading.Event()
        self._client = mqplug.connect(url, timeout=30)
        group = new_name()
        self._client.reset_group(group, topic, mqplug.EARLIEST)
        self._calls = make(self._client, topic, group)
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._enough.set()
        self._thread.join(30)
        with suppress(mqplug.CloseIncomplete, mqplug.OutcomeUnknown):
            self._client.close(TIMEOUT_S)

    @property
    def hangs(self):
        return self._thread.is_alive()

    def _work(self):
        while not self._enough.is_set():
            for name, call in self._calls.items():
                began = time.monotonic()
                how = "returned"
                try:
                    call()
                except Exception as error:  # only its time matters here
                    how = f"raised {error!r}"
                took = time.monotonic() - began
                self.calls += 1
                if took > self._limit:
                    self.late.append(f"{name} took {took:.1f} s and {how}")
                if self._enough.is_set():
                    return


def check(url, topic, disturb, seconds, made=ROLES):
    """Disturb the brokers repeatedly while all calls run, and fail if one of them hangs or ends late."""
    with ExitStack() as stack:
        roles = [stack.enter_context(Role(make, url, topic, LIMIT_S + SLACK_S)) for make in made]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            disturb()
    assert not [role for role in roles if role.hangs]
    assert [line for role in roles for line in role.late] == []
    assert all(role.calls for role in roles)


def new_topic(url):
    """Create a topic with messages in all partitions."""
    topic = new_name()
    with mqplug.connect(url, timeout=30) as mq:
        mq.create_topic(topic, partitions=3)
        fill(mq, topic, 30)
    return topic


def freeze(server, seconds):
    """Freeze the broker for some seconds, then let it run for two."""
    server.pause()
    time.sleep(seconds)
    server.unpause()
    time.sleep(2)


def kill(server, seconds):
    """Kill the broker, start it after some seconds, and let it run for two."""
    server.kill()
    time.sleep(seconds)
    server.start()
    time.sleep(2)


@pytest.mark.night
@pytest.mark.disturbs
def test_calls_end_in_time_while_a_broker_is_silent(kafka_server):
    """Sends, reads and commits end in time while the broker is silent."""
    roles = [sends, reads, member_calls]
    check(kafka_server.url, new_topic(kafka_server.url), lambda: freeze(kafka_server, 3.5), 1, roles)


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("disturb", [freeze, kill])
def test_all_calls_end_in_time_over_one_broker(kafka_server, disturb):
    """All calls end in time while the only broker is silent or killed."""
    lengths = itertools.cycle([1, 5, 2.5])
    check(kafka_server.url, new_topic(kafka_server.url), lambda: disturb(kafka_server, next(lengths)), 60)


@pytest.mark.night
@pytest.mark.timeout(400)
@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_all_calls_end_in_time_over_a_cluster(kafka_cluster, how):
    """All calls end in time while one or two of three nodes are silent or killed."""
    chosen = itertools.cycle([(1,), (2, 3), (2,), (1, 3), (3,), (1, 2)])
    lengths = itertools.cycle([2, 7, 4, 5, 3])

    def disturb():
        numbers = next(chosen)
        for number in numbers:
            (kafka_cluster.pause if how == "frozen" else kafka_cluster.kill)(number)
        time.sleep(next(lengths))
        if how == "frozen":
            kafka_cluster.unpause()
        else:
            kafka_cluster.start()
        time.sleep(2)

    check(kafka_cluster.url, new_topic(kafka_cluster.url), disturb, 90)
