"""Members in one group with confluent-kafka's, with its assignors, and static members."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer
from kafka_driver import new_name, take

import mqplug

pytestmark = pytest.mark.python

PARTITIONS = 4


class Native:
    """A typical member with confluent-kafka: default assignors, and each message committed once handled."""

    def __init__(self, server, topic, group, handled):
        options = {"bootstrap.servers": server.bootstrap, "group.id": group, "session.timeout.ms": 10_000}
        self._consumer = Consumer(
            {**options, "heartbeat.interval.ms": 300, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([topic])
        self._handled = handled

    def turn(self):
        """Handle a message, if there is one."""
        message = self._consumer.poll(0.02)
        if message is not None and message.error() is None:
            self._handled[message.value()] += 1
            self._consumer.commit(message, asynchronous=False)

    def held(self):
        """Return the partitions that it has."""
        return {each.partition for each in self._consumer.assignment()}

    def close(self):
        """Leave the group."""
        self._consumer.close()


class Ours:
    """An mqplug member that replaces one of confluent-kafka."""

    def __init__(self, server, topic, group, handled):
        self._mq = mqplug.connect("kafka", servers=[server.bootstrap], assignor="range")
        self._consumer = self._mq.consumer(topic, group=group)
        self._handled = handled

    def turn(self):
        """Handle a message, if there is one."""
        with suppress(mqplug.Timeout):
            if (message := self._consumer.receive(timeout=0.02)) is not None:
                self._handled[message.value] += 1
                self._consumer.ack(message)

    def held(self):
        """Return the partitions that it has."""
        return {log.partition for log in self._consumer.assignment()}

    def close(self):
        """Leave the group."""
        self._mq.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "way",
    [(Native, Ours), pytest.param((Ours, Native), marks=pytest.mark.night)],
    ids=["to mqplug", "and back"],
)
def test_a_service_is_replaced_member_by_member(kafka_server, mq, way):
    """While messages arrive, members are replaced by the other kind one by one: each message is handled once."""
    before, after = way
    topic, group, handled = new_name(), new_name(), Counter()
    mq.create_topic(topic, partitions=PARTITIONS)
    members = [before(kafka_server, topic, group, handled) for _ in range(2)]
    sent = 0
    with mq.producer(topic, partitioner="crc32") as out:

        def until(done):
            nonlocal sent
            end = time.monotonic() + 60
            while not done() and time.monotonic() < end:
                out.submit(b"%d" % sent, key=b"%d" % (sent % 50))
                sent += 1
                for member in members:
                    member.turn()
            assert done()

        def shared():
            held = [member.held() for member in members]
            return all(held) and sorted(p for each in held for p in each) == list(range(PARTITIONS))

        until(shared)
        for number in range(2):
            members.append(after(kafka_server, topic, group, handled))
            until(shared)
            members.pop(0).close()
            until(shared)
            until(lambda much=sent + 20 * (number + 1): sent >= much)
        out.flush()
    end = time.monotonic() + 60
    while len(handled) < sent and time.monotonic() < end:
        for member in members:
            member.turn()
    for member in members:
        member.close()
    assert len(handled) == sent
    assert max(handled.values()) == 1
    assert mq.lag(topic, group=group) == dict.fromkeys(range(PARTITIONS), 0)


def test_crc32_agrees_with_the_native_default(kafka_server, mq):
    """The crc32 partitioner places keys like a confluent-kafka producer without a partitioner setting."""
    topic = new_name()
    mq.create_topic(topic, partitions=7)
    keys = [b"k%d" % number for number in range(50)] + ["schlüssel".encode(), b"\0\xff", b"x" * 300]
    native = Producer({"bootstrap.servers": kafka_server.bootstrap})
    theirs = {}
    for key in keys:
        native.produce(topic, b"1", key, on_delivery=lambda error, m: theirs.update({m.key(): m.partition()}))
    assert native.flush(30) == 0
    with mq.producer(topic, partitioner="crc32") as out:
        ours = {key: out.send(b"2", key=key).log.partition for key in keys}
    assert ours == theirs


def test_members_that_cannot_agree_are_refused(mq, topic):
    """A cooperative member that joins an eager group gets a ConfigError that names the setting."""
    with mqplug.connect("kafka", servers=mq_servers(mq), assignor="roundrobin") as eager:
        group = new_name()
        with eager.consumer(topic, group=group) as first:
            wait_for(first, 1)
            with mq.consumer(topic, group=group) as second, pytest.raises(mqplug.ConfigError, match="assignor="):
                second.receive(timeout=30)


def mq_servers(mq):
    """Return the addresses of a client's brokers."""
    return mq._connection.settings.servers


def wait_for(consumer, count, seconds=30):
    """Take part in rebalances until the consumer has this number of partitions."""
    end = time.monotonic() + seconds
    while len(consumer.assignment()) != count and time.monotonic() < end:
        assert consumer.receive(timeout=0.1) is None
    assert len(consumer.assignment()) == count


@pytest.mark.parametrize("assignor", ["range", pytest.param("roundrobin", marks=pytest.mark.night)])
def test_an_eager_member_seeks_and_pauses(kafka_server, assignor):
    """A seek or pause affects only its partition: the others continue in order, without repeats."""
    with mqplug.connect("kafka", servers=[kafka_server.bootstrap], assignor=assignor) as mq:
        name = new_name()
        mq.create_topic(name, partitions=3)
        with mq.producer(name) as out:
            sent = out.send_many([mqplug.Record(b"%d" % number, partition=number % 3) for number in range(300)])
        of = [[each for each in sent if each.log.partition == number] for number in range(3)]
        with mq.consumer(name, group=new_name()) as consumer:
            first = [message.id for message in take(consumer, 60)]
            consumer.pause(1)
            consumer.seek(of[0][50])
            rest = [message.id for message in take(consumer, 150 - sum(each in of[2] for each in first))]
            assert [each for each in rest if each in of[0]] == of[0][50:]
            assert [each for each in first + rest if each in of[2]] == of[2]
            assert not [each for each in rest if each in of[1]]
            consumer.resume(1)
            tail = [message.id for message in take(consumer, 100 - sum(each in of[1] for each in first))]
            assert [each for each in first + tail if each in of[1]] == of[1]


def static(server, instance="pod-1", session=30.0):
    """Connect as a named instance, whose group members are static."""
    return mqplug.connect("kafka", servers=[server.bootstrap], instance_id=instance, session_timeout=session)


def test_a_static_member_keeps_its_partitions_over_a_restart(kafka_server, mq):
    """A named member keeps its partitions when it closes and comes back; the other member sees no rebalance."""
    name, group, revoked = new_name(), new_name(), []
    mq.create_topic(name, partitions=2)
    with static(kafka_server, "other") as other, other.consumer(name, group=group, on_revoked=revoked.append) as stays:
        with static(kafka_server) as restarting:
            consumer = restarting.consumer(name, group=group)
            end = time.monotonic() + 30
            while (len(consumer.assignment()), len(stays.assignment())) != (1, 1) and time.monotonic() < end:
                consumer.receive(timeout=0.05)
                stays.receive(timeout=0.05)
            held, kept = consumer.assignment(), stays.assignment()
            revoked.clear()
            consumer.close()
        with mq.producer(name) as out:
            sent = out.send_many([mqplug.Record(b"%d" % number, partition=number % 2) for number in range(20)])
        assert [member.members for member in mq.groups(name)] == [2]
        with static(kafka_server) as restarting, restarting.consumer(name, group=group) as consumer:
            assert [message.id for message in take(consumer, 10)] == [each for each in sent if each.log in held]
            assert consumer.assignment() == held
        assert stays.assignment() == kept
        assert revoked == []


def test_an_instance_that_is_there_twice_is_fenced(kafka_server, mq, topic):
    """If a second process uses the same instance name, the first one gets Fenced."""
    group = new_name()
    with static(kafka_server) as one, one.consumer(topic, group=group) as first:
        wait_for(first, 1)
        with static(kafka_server) as two, two.consumer(topic, group=group) as second:
            wait_for(second, 1)
            with pytest.raises(mqplug.Fenced):
                first.receive(timeout=30)


def test_consumers_of_one_client_are_instances_of_their_own(kafka_server, mq):
    """Two consumers of a named client in one group share its partitions, and neither fences the other."""
    name, group = new_name(), new_name()
    mq.create_topic(name, partitions=2)
    with static(kafka_server) as client:
        with client.consumer(name, group=group) as first, client.consumer(name, group=group) as second:
            end = time.monotonic() + 30
            while (len(first.assignment()), len(second.assignment())) != (1, 1) and time.monotonic() < end:
                first.receive(timeout=0.05)
                second.receive(timeout=0.05)
            assert (len(first.assignment()), len(second.assignment())) == (1, 1)
        assert client._connection.instances.take(group) == "pod-1"
