"""TOP: topics that are deleted or recreated, also by another client, while they are open."""

from __future__ import annotations

from collections.abc import Callable

from mqplug import LATEST, Client, Consumer, Error, Message, MessageId, Producer, TopicExists, TopicNotFound
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("TOP-16", needs=("delete_topic", "durable_groups"), timeout=180)
def test_groups_of_a_new_topic(bench: Bench) -> None:
    """A group that read a topic that was deleted and recreated begins at its ``start=`` in the new one."""
    topic, ids = bench.filled(6)
    early, late = bench.name(), bench.name()
    for group in (early, late):
        member = bench.member(topic, group)
        member.ack_through(bench.delivers(member, ids)[3])
        member.close()
    bench.make_again(topic)
    new = bench.fill(topic, 8)
    bench.delivers(bench.member(topic, early), new)
    bench.only_new(bench.member(topic, late, start=LATEST), topic)


@case("TOP-17", needs=("delete_topic",), timeout=180)
def test_deleted_under_all(bench: Bench) -> None:
    """When any client deletes a topic, its open consumers and producers get ``TopicNotFound``; none recreates it."""
    topic, ids = bench.filled(2)
    able, producer, reader = bench.client.capabilities, bench.client.producer(topic), bench.reader(topic)
    bench.delivers(reader, ids)
    uses: dict[str, Callable[[], object]] = {
        "a consumer": lambda: reader.receive(bench.waiting.nothing),
        "a producer": lambda: producer.send(b"x", partition=0),
    }
    if able.groups:
        member = bench.member(topic, bench.name())
        bench.delivers(member, ids)
        uses["a member"] = lambda: member.receive(bench.waiting.nothing)
    bench.forget(topic)
    bench.connect().delete_topic(topic)
    for who, use in uses.items():
        said = list[str]()
        bench.wait(lambda use=use, said=said: _not_found(use, said), f"{who} gets TopicNotFound")  # type: ignore[misc]
        bench.equal([each for each in said if topic not in each], [], f"other errors that {who} got")
    if able.list_topics:
        bench.that(topic not in bench.client.topics(), "none of them recreated it")


def _not_found(use: Callable[[], object], said: list[str]) -> bool:
    """Return whether the topic is not found; any other error is noted."""
    try:
        use()
    except TopicNotFound:
        return True
    except Error as error:
        said.append(f"{error!r} of the topic {error.topic}")
    return False


StoredValues = dict[MessageId, bytes | None]

SENDS = 10
SEND_S = 2.0  # for a send to a topic that may be gone


@case("TOP-19", needs=("delete_topic", "multi_client"), timeout=180)
def test_deleted_by_another(bench: Bench) -> None:
    """After another client has deleted a topic, no send to it is reported as stored, and ``receive`` raises."""
    topic = bench.topic()
    producer, consumers = bench.producer(topic), _consumers(bench, topic)
    sent = producer.send(b"before", partition=0)
    for consumer in consumers:
        bench.delivers(consumer, [sent])
    bench.forget(topic)
    bench.connect().delete_topic(topic)
    for _ in range(3):
        with bench.raises(Error):
            producer.send(b"lost", partition=0, timeout=SEND_S)
    for consumer in consumers:
        bench.wait(_receive_fails(bench, consumer), "receive raises an error")


@case("TOP-20", needs=("delete_topic", "multi_client"), timeout=180)
def test_made_again_by_another(bench: Bench) -> None:
    """When another client recreates a topic, messages reported as stored are there, and open consumers notice it."""
    reported, found = _recreated(bench)
    bench.equal(set(reported.values()) - set(found.values()), set(), "messages reported as stored are there")


@case("TOP-21", needs=("delete_topic", "multi_client"), timeout=180)
def test_ids_of_what_was_made_again(bench: Bench) -> None:
    """An open producer soon returns ids of the topic that another client recreated, or raises ``TopicNotFound``."""
    topic = bench.topic()
    producer = bench.producer(topic)
    producer.send(b"old", partition=0)
    other = bench.connect()
    other.delete_topic(topic)
    bench.wait(lambda: _is_created(other, topic), "the name of a deleted topic is free again")
    [log] = other.partitions(topic)

    def has_noticed() -> bool:
        try:
            sent = producer.send(b"new", partition=0, timeout=SEND_S)
        except Error as error:
            return isinstance(error, TopicNotFound)
        return sent.log == log

    bench.wait(has_noticed, "the producer notices that its topic was recreated")
    reported = _sends(producer)
    found = {message.id: message.value for message in other.read(topic)}
    bench.equal({each: found.get(each) for each in reported}, reported, "messages reported as stored have their ids")


def _recreated(bench: Bench) -> tuple[StoredValues, StoredValues]:
    """Let another client recreate a topic. Return what an open producer reports as stored then, and what is there."""
    topic = bench.topic()
    producer, consumers = bench.producer(topic), _consumers(bench, topic)
    old = [producer.send(b"%d" % number, partition=0) for number in range(SENDS)]
    for consumer in consumers:
        bench.delivers(consumer, old)
    other = bench.connect()
    other.delete_topic(topic)
    bench.wait(lambda: _is_created(other, topic), "the name of a deleted topic is free again")
    reported = _sends(producer)
    with other.producer(topic) as fresh:
        reported[fresh.send(b"new", partition=0)] = b"new"
    found = {message.id: message.value for message in other.read(topic)}
    bench.equal(found.keys() & set(old), set(), "nothing of the old topic is in the new one")
    bench.equal({message.id for message in bench.connect().read(topic)}, found.keys())
    for consumer in consumers:
        _notices(bench, consumer, set(found))
    return reported, found


def _consumers(bench: Bench, topic: str) -> list[Consumer]:
    able = bench.client.capabilities
    found = [bench.reader(topic)]
    if able.durable_groups and able.ordered:
        found.append(bench.member(topic, bench.name()))
    return found


def _is_created(client: Client, topic: str) -> bool:
    """Create the topic if its name is free, and return whether it was."""
    try:
        client.create_topic(topic)
    except TopicExists:
        return False
    return True


def _receive_fails(bench: Bench, consumer: Consumer) -> Callable[[], bool]:
    return lambda: isinstance(_received(bench, consumer), Error)


def _sends(producer: Producer) -> StoredValues:
    """Send some messages, and return those that are reported as stored."""
    reported: StoredValues = {}
    for number in range(SENDS):
        value = b"again %d" % number
        try:
            reported[producer.send(value, partition=0, timeout=SEND_S)] = value
        except Error:
            continue
    return reported


def _received(bench: Bench, consumer: Consumer) -> Message | Error | None:
    """Return the message or the error of a receive."""
    try:
        return consumer.receive(bench.waiting.nothing)
    except Error as error:
        return error


def _notices(bench: Bench, consumer: Consumer, new: set[MessageId]) -> None:
    """Check that a consumer of the old topic gets an error or a message of the new one."""
    came: list[Message | Error] = []

    def noticed() -> bool:
        came.extend(each for each in [_received(bench, consumer)] if each is not None)
        return bool(came)

    bench.wait(noticed, "receive does not wait forever on a deleted topic")
    bench.that(isinstance(came[0], Error) or came[0].id in new, f"{came[0]!r}")
