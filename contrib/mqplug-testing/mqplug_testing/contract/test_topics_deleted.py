"""TOP: topics that are deleted or made again, also by another client under whoever has them open."""

from __future__ import annotations

from collections.abc import Callable

from mqplug import LATEST, Client, Consumer, Error, Message, MessageId, Producer, TopicExists, TopicNotFound
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("TOP-16", needs=("delete_topic", "durable_groups"), timeout=180)
def test_groups_of_a_new_topic(bench: Bench) -> None:
    """A group that read a topic which was deleted and made again begins at its ``start=`` in the new one."""
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
    """When a topic is deleted, by whomever, live consumers and producers get ``TopicNotFound``, and none makes it."""
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
        bench.equal([each for each in said if topic not in each], [], f"what {who} got besides")
    if able.list_topics:
        bench.that(topic not in bench.client.topics(), "nobody made it again")


def _not_found(use: Callable[[], object], said: list[str]) -> bool:
    """Whether the topic is not found; another error on the way there is noted."""
    try:
        use()
    except TopicNotFound:
        return True
    except Error as error:
        said.append(f"{error!r} of the topic {error.topic}")
    return False


Told = dict[MessageId, bytes | None]

SENDS = 10
SEND_S = 2.0  # for a send to a topic that may be gone


@case("TOP-19", needs=("delete_topic", "multi_client"), timeout=180)
def test_deleted_by_another(bench: Bench) -> None:
    """When another client deletes a topic no send to it is called stored any more, and receive says so."""
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
        bench.wait(_tells(bench, consumer), "receive tells of it")


@case("TOP-20", needs=("delete_topic", "multi_client"), timeout=180)
def test_made_again_by_another(bench: Bench) -> None:
    """When another client makes a topic again, what is called stored is there, and whoever reads hears of it."""
    told, found = _made_again(bench)
    bench.equal(set(told.values()) - set(found.values()), set(), "what was called stored is there")


@case("TOP-21", needs=("delete_topic", "multi_client"), timeout=180)
def test_ids_of_what_was_made_again(bench: Bench) -> None:
    """Before long an open producer gives ids of the topic that another client made, or says that its own is gone."""
    topic = bench.topic()
    producer = bench.producer(topic)
    producer.send(b"old", partition=0)
    other = bench.connect()
    other.delete_topic(topic)
    bench.wait(lambda: _is_made(other, topic), "the name of a deleted topic is free again")
    [log] = other.partitions(topic)

    def has_noticed() -> bool:
        try:
            sent = producer.send(b"new", partition=0, timeout=SEND_S)
        except Error as error:
            return isinstance(error, TopicNotFound)
        return sent.log == log

    bench.wait(has_noticed, "the producer notices that its topic is another one")
    told = _sends(producer)
    found = {message.id: message.value for message in other.read(topic)}
    bench.equal({each: found.get(each) for each in told}, told, "what was called stored is there, under its id")


def _made_again(bench: Bench) -> tuple[Told, Told]:
    """Have another client make a topic again; what an open producer then called stored, and what is there."""
    topic = bench.topic()
    producer, consumers = bench.producer(topic), _consumers(bench, topic)
    old = [producer.send(b"%d" % number, partition=0) for number in range(SENDS)]
    for consumer in consumers:
        bench.delivers(consumer, old)
    other = bench.connect()
    other.delete_topic(topic)
    bench.wait(lambda: _is_made(other, topic), "the name of a deleted topic is free again")
    told = _sends(producer)
    with other.producer(topic) as fresh:
        told[fresh.send(b"new", partition=0)] = b"new"
    found = {message.id: message.value for message in other.read(topic)}
    bench.equal(found.keys() & set(old), set(), "nothing of the old topic is in the new one")
    bench.equal({message.id for message in bench.connect().read(topic)}, found.keys())
    for consumer in consumers:
        _hears_of_it(bench, consumer, set(found))
    return told, found


def _consumers(bench: Bench, topic: str) -> list[Consumer]:
    able = bench.client.capabilities
    found = [bench.reader(topic)]
    if able.durable_groups and able.ordered:
        found.append(bench.member(topic, bench.name()))
    return found


def _is_made(client: Client, topic: str) -> bool:
    """Make the topic, if its name is free."""
    try:
        client.create_topic(topic)
    except TopicExists:
        return False
    return True


def _tells(bench: Bench, consumer: Consumer) -> Callable[[], bool]:
    return lambda: isinstance(_heard(bench, consumer), Error)


def _sends(producer: Producer) -> Told:
    """Send some; those that were called stored."""
    told: Told = {}
    for number in range(SENDS):
        value = b"again %d" % number
        try:
            told[producer.send(value, partition=0, timeout=SEND_S)] = value
        except Error:
            continue
    return told


def _heard(bench: Bench, consumer: Consumer) -> Message | Error | None:
    """What receive returns or raises."""
    try:
        return consumer.receive(bench.waiting.nothing)
    except Error as error:
        return error


def _hears_of_it(bench: Bench, consumer: Consumer, new: set[MessageId]) -> None:
    """A consumer of the old topic gets an error or the messages of the new one, and none that is not there."""
    heard: list[Message | Error] = []

    def told() -> bool:
        heard.extend(each for each in [_heard(bench, consumer)] if each is not None)
        return bool(heard)

    bench.wait(told, "receive does not wait for ever on a topic that is gone")
    bench.that(isinstance(heard[0], Error) or heard[0].id in new, f"{heard[0]!r}")
