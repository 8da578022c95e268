"""TX: transactions that store the acks of a consumer together with the results of its messages."""

from __future__ import annotations

from mqplug import (
    EARLIEST,
    Client,
    Closed,
    ConcurrentUse,
    Consumer,
    ConsumerBusy,
    Message,
    MessageId,
    NotAssigned,
    Record,
    Transaction,
    Unsupported,
)
from mqplug.aio import AsyncConsumer
from mqplug_testing._case_tools.asyncio_cases import run_in_loop
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import RECOVERY
from mqplug_testing.contract.test_transactions import GivenUp, give_up, values

case = Registry()

NEEDS = ("transactions", "groups", "ordered")


def member(bench: Bench, topic: str, group: str) -> tuple[Client, Consumer]:
    """Return a new client, and its member of a group."""
    client = bench.connect()
    return client, client.consumer(topic, group=group)


def transform(step: Transaction, consumer: Consumer, messages: list[Message]) -> None:
    """Send the results of these messages, and ack them."""
    for message in messages:
        step.send(message.value)
        consumer.ack(message)


def next_of(bench: Bench, topic: str, group: str, ids: list[MessageId]) -> None:
    """Check which messages a new member of the group gets first."""
    client, consumer = member(bench, topic, group)
    bench.delivers(consumer, ids)
    client.close()


@case("TX-17", needs=NEEDS)
def test_positions(bench: Bench) -> None:
    """A commit moves the group's positions, gaps included, and the consumer continues after them."""
    (topic, ids), target, group, name = bench.dripped(8), bench.topic(), bench.name(), bench.name()
    client, consumer = member(bench, topic, group)
    first = bench.take(consumer, 3)
    with client.transaction(name, target, consumer=consumer) as step:
        transform(step, consumer, [first[0], first[1]])
        transform(step, consumer, bench.take(consumer, 1))
    stored = bench.client.positions(topic, group=group)[0]
    bench.stands(stored.position, ids, 2)
    behind = [first <= ids[3].coordinates <= last for first, last in stored.acked]
    bench.equal(any(behind), client.capabilities.individual_ack, "the ack after a gap is stored")
    with client.transaction(name, target, consumer=consumer) as step:
        step.send(b"without acks")
    bench.equal(bench.client.positions(topic, group=group)[0], stored)
    with client.transaction(name, target, consumer=consumer) as step:
        consumer.ack_through(bench.take(consumer, 1)[0])
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 5)
    bench.delivers(consumer, ids[5:6], "it continues after the commits")
    bench.equal(consumer.late_acks, 0)
    client.close()
    next_of(bench, topic, group, ids[5:])
    bench.equal(values(bench, target), [b"0", b"1", b"3", b"without acks"])


@case("TX-18", needs=NEEDS)
def test_given_back(bench: Bench) -> None:
    """After an abort the unacked messages that the consumer received come again, first of all, as another attempt."""
    (topic, ids), target, group, name = bench.dripped(6), bench.topic(), bench.name(), bench.name()
    client, consumer = member(bench, topic, group)
    consumer.ack(bench.take(consumer, 1)[0])
    consumer.commit()
    with bench.raises(GivenUp), client.transaction(name, target, consumer=consumer) as step:
        held = bench.take(consumer, 3)
        transform(step, consumer, held[:2])
        give_up()
    bench.stands(consumer.position()[0], ids, 1, "the first of them comes next")
    with bench.raises(GivenUp), client.transaction(name, target, consumer=consumer):
        again = bench.delivers(consumer, ids[1:2])
        bench.equal([message.attempt for message in again], [2])
        give_up()
    late = consumer.late_acks
    consumer.ack(held[0])
    bench.equal(consumer.late_acks, late + 1, "an ack of an earlier delivery is late")
    with client.transaction(name, target, consumer=consumer) as step:
        once_more = bench.delivers(consumer, ids[1:])
        bench.equal([message.attempt for message in once_more], [3, 2, 2, 1, 1])
        transform(step, consumer, once_more)
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 6)
    bench.equal(values(bench, target), [b"1", b"2", b"3", b"4", b"5"])
    bench.only_new(consumer, topic)


@case("TX-19", needs=NEEDS)
def test_nothing_outside(bench: Bench) -> None:
    """Acks made in a step are stored only by its commit: no other commit and no close stores them."""
    (topic, ids), target, group = bench.dripped(4), bench.topic(), bench.name()
    client, consumer = member(bench, topic, group)
    consumer.ack(bench.take(consumer, 1)[0])
    step = client.transaction(bench.name(), target, consumer=consumer)
    transform(step, consumer, bench.take(consumer, 2))
    consumer.commit()
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 1, "the acks from before the step")
    consumer.close()
    with bench.raises(Closed):
        step.commit()
    next_of(bench, topic, group, ids[1:])
    bench.equal(values(bench, target), [])


@case("TX-20", needs=(*NEEDS, "partitions"), timeout=180)
def test_handed_over(bench: Bench) -> None:
    """If a partition went to another member before the commit, the commit raises ``NotAssigned`` and stores nothing."""
    topic, target, group, name = bench.topic(2), bench.topic(), bench.name(), bench.name()
    for partition in (0, 1):
        bench.fill(topic, 1, partition=partition)
    client, consumer = member(bench, topic, group)
    step = client.transaction(name, target, consumer=consumer)
    mine = bench.take(consumer, 2)
    transform(step, consumer, mine)
    _, other = member(bench, topic, group)
    theirs: list[Message] = []

    def moved() -> bool:
        consumer.receive(bench.waiting.poll)
        theirs.extend(other.receive_many(10, bench.waiting.poll))
        return len(theirs) > 0 and len(consumer.assignment()) == 1

    bench.wait(moved, "the other member has a partition, and its message", within=RECOVERY)
    with bench.raises(NotAssigned):
        step.commit()
    bench.equal([message.id in {each.id for each in mine} for message in theirs], [True])
    left = next(each for each in mine if each.partition != theirs[0].partition)
    with client.transaction(name, target, consumer=consumer) as step:
        transform(step, consumer, bench.delivers(consumer, [left.id]))
    bench.equal(values(bench, target), [left.value])


@case("TX-21", needs=NEEDS)
def test_bound_once(bench: Bench) -> None:
    """A consumer is in one step at a time, and cannot seek during it; one that cannot take part is refused."""
    (topic, ids), target = bench.dripped(3), bench.topic()
    client, consumer = member(bench, topic, bench.name())
    with client.transaction(bench.name(), target, consumer=consumer) as step:
        with bench.raises(ConcurrentUse):
            client.transaction(bench.name(), target, consumer=consumer)
        transform(step, consumer, bench.take(consumer, 1))
        with bench.raises(ConsumerBusy):
            consumer.seek(ids[0])
    with bench.raises(Unsupported):
        client.transaction(bench.name(), consumer=client.consumer(topic, start=EARLIEST))
    with bench.raises(TypeError):
        client.transaction(bench.name(), consumer=client.consumer(topic, group=bench.name(), auto_ack=True))
    with bench.raises(ValueError):
        client.transaction(bench.name(), consumer=member(bench, topic, bench.name())[1])
    consumer.seek(ids[0])
    bench.delivers(consumer, ids)
    bench.equal(values(bench, target), [b"0"])


@case("TX-22", needs=NEEDS)
def test_repeated(bench: Bench) -> None:
    """A repeated step sends nothing, but its acks count: a step can be repeated with the messages of the first."""
    (topic, ids), target, group, name = bench.dripped(4), bench.topic(), bench.name(), bench.name()
    client, consumer = member(bench, topic, group)
    for number in (1, 1, 2):
        with client.transaction(name, target, consumer=consumer, number=number) as step:
            transform(step, consumer, bench.take(consumer, 1))
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 3)
    bench.equal(values(bench, target), [b"0", b"2"])


@case("TX-23", needs=NEEDS)
def test_asyncio(bench: Bench) -> None:
    """In asyncio the positions move with the commit, and an abort returns the messages, too."""
    (topic, ids), target, group, name = bench.dripped(4), bench.topic(), bench.name(), bench.name()

    async def take(consumer: AsyncConsumer) -> Message:
        message = await consumer.receive(bench.patience)
        assert message is not None
        return message

    async def story() -> None:
        async with bench.aio() as mq, mq.consumer(topic, group=group) as consumer:
            with bench.raises(GivenUp):
                async with mq.transaction(name, target, consumer=consumer) as step:
                    for _ in range(2):
                        message = await take(consumer)
                        await step.send(message.value)
                        await consumer.ack(message)
                    give_up()
            async with mq.transaction(name, target, consumer=consumer) as step:
                for index in range(3):
                    message = await take(consumer)
                    bench.equal(message.id, ids[index])
                    await step.send(message.value)
                    await consumer.ack(message)

    run_in_loop(bench, story())
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 3)
    bench.equal(values(bench, target), [b"0", b"1", b"2"])


POINTS = ("begun", "sent", "acked", "commit", "committed")


@case("TX-15", needs=(*NEEDS, "persistent"), hooks=("second_process",), timeout=600)
def test_killed(bench: Bench) -> None:
    """A process that transforms a topic is killed between any two of its steps: each result is stored exactly once."""
    count = bench.sized(60, 300)
    topic, target, group, name = bench.topic(), bench.topic(), bench.name(), bench.name()
    bench.filler(topic).send_many([Record(b"%d" % number, partition=0) for number in range(count)])
    arguments = (str(bench.harness.second_process), topic, target, group, name)
    for point in POINTS:
        with bench.away(), ChildProcess(TRANSFORMS, *arguments, point) as child:
            child.wait_for(1, 2 * RECOVERY * bench.scale)
            child.kill()
    client, consumer = member(bench, topic, group)

    def rest() -> bool:
        with client.transaction(name, target, consumer=consumer) as step:
            transform(step, consumer, list(consumer.receive_many(100, bench.waiting.nothing)))
        return client.lag(topic, group=group) == {0: 0}

    bench.wait(rest, "all messages are transformed", within=2 * RECOVERY)
    bench.equal(values(bench, target), [b"%d" % number for number in range(count)])


TRANSFORMS = """
import sys, time, mqplug
url, topic, target, group, name, point = sys.argv[1:]
client = mqplug.connect(url)
consumer = client.consumer(topic, group=group)
steps = 0

def reach(here):
    if here == point and steps:  # the first step is whole
        print(here)
        if here != "commit":
            time.sleep(600)

while True:
    batch = consumer.receive_many(2, timeout=120)
    step = client.transaction(name, target, consumer=consumer)
    reach("begun")
    for message in batch:
        step.send(message.value, partition=0)
    reach("sent")
    for message in batch:
        consumer.ack(message)
    reach("acked")
    reach("commit")
    step.commit()
    reach("committed")
    steps += 1
"""
