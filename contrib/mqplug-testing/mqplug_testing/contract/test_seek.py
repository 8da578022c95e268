"""SEEK: where reading continues, what a seek changes, and what it does not change."""

from __future__ import annotations

import pickle
import random
import time
from threading import Event, Thread

from mqplug import (
    EARLIEST,
    LATEST,
    Closed,
    Consumer,
    InvalidMessageId,
    Log,
    Message,
    MessageId,
    NotAssigned,
    Position,
    Start,
    after,
    before,
    last,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("SEEK-01")
def test_earliest(bench: Bench) -> None:
    """A seek to EARLIEST delivers the first retained message and all later ones."""
    topic, ids = bench.filled(6)
    reader = bench.reader(topic, LATEST)
    reader.seek(EARLIEST)
    bench.delivers(reader, ids)


@case("SEEK-02")
def test_earliest_is_no_message(bench: Bench) -> None:
    """EARLIEST is a point, not a message: an exclusive seek to it skips nothing."""
    topic, ids = bench.filled(4)
    reader = bench.reader(topic, LATEST)
    for inclusive in (False, True):
        reader.seek(EARLIEST, inclusive=inclusive)
        bench.delivers(reader, ids, f"inclusive={inclusive}")


@case("SEEK-03")
def test_latest(bench: Bench) -> None:
    """A seek to LATEST delivers only messages sent afterwards."""
    topic, ids = bench.filled(6)
    reader = bench.reader(topic)
    bench.delivers(reader, ids[:2])
    reader.seek(LATEST)
    bench.only_new(reader, topic)


@case("SEEK-04")
def test_latest_is_no_message(bench: Bench) -> None:
    """LATEST is a point, not a message: an inclusive seek to it does not deliver the last message again."""
    topic, _ = bench.filled(4)
    reader = bench.reader(topic)
    for inclusive in (True, False):
        reader.seek(LATEST, inclusive=inclusive)
        bench.only_new(reader, topic, f"inclusive={inclusive}")


@case("SEEK-05")
def test_inclusive(bench: Bench) -> None:
    """An inclusive seek to an id delivers that message first."""
    topic, ids = bench.filled(8)
    reader = bench.reader(topic)
    for index in (5, 2, 7):
        reader.seek(ids[index])
        bench.delivers(reader, ids[index:], f"message {index}")


@case("SEEK-06")
def test_exclusive(bench: Bench) -> None:
    """An exclusive seek to an id delivers the next message first."""
    topic, ids = bench.filled(8)
    reader = bench.reader(topic)
    for index in (5, 2, 6):
        reader.seek(ids[index], inclusive=False)
        bench.delivers(reader, ids[index + 1 :], f"after message {index}")


@case("SEEK-09")
def test_exclusive_does_not_stick(bench: Bench) -> None:
    """An exclusive seek leaves no state that makes a later inclusive one skip a message."""
    topic, ids = bench.filled(8)
    reader = bench.reader(topic)
    reader.seek(ids[2], inclusive=False)
    bench.delivers(reader, ids[3:5])
    reader.seek(ids[5])
    bench.delivers(reader, ids[5:])
    reader.seek(ids[1], inclusive=False)
    reader.seek(ids[6])
    bench.delivers(reader, ids[6:])


@case("SEEK-10")
def test_beyond_the_end(bench: Bench) -> None:
    """A seek past the last message returns at once, and new messages are delivered when they come."""
    topic, ids = bench.filled(4)
    reader = bench.reader(topic)
    sent = ids[-1]
    for target in ("after the last id", "high"):
        reader.seek(after(sent) if target != "high" else bench.marks(topic).high)
        bench.equal(reader.receive(0), None, target)
        sent = bench.only_new(reader, topic, target)


@case("SEEK-11")
def test_first_middle_last(bench: Bench) -> None:
    """Seeks to the first, a middle and the last message are exact, inclusive and exclusive."""
    topic, ids = bench.filled(9)
    reader = bench.reader(topic)
    for index in (0, 4, 8):
        for skip in (0, 1):
            reader.seek(ids[index], inclusive=not skip)
            bench.stands(reader.position()[0], ids, index + skip)
            bench.delivers(reader, ids[index + skip :], f"message {index}, inclusive={not skip}")


@case("SEEK-12")
def test_backward(bench: Bench) -> None:
    """A seek backward delivers the same messages under the same ids again."""
    topic, ids = bench.filled(8)
    reader = bench.reader(topic)
    once = bench.delivers(reader, ids)
    reader.seek(ids[0])
    bench.equal(bench.take(reader, len(ids)), once)


@case("SEEK-15")
def test_before_the_first_receive(bench: Bench) -> None:
    """A seek before the first receive takes effect, with and without a group."""
    topic, ids = bench.filled(6)
    reader = bench.reader(topic)
    reader.seek(ids[4])
    bench.delivers(reader, ids[4:])
    if bench.client.capabilities.groups:
        member = bench.member(topic, bench.name())
        member.seek(ids[3])
        bench.delivers(member, ids[3:])


@case("SEEK-17")
def test_empty_topic(bench: Bench) -> None:
    """Seeks on an empty topic work, and the first message sent afterwards is delivered."""
    for start in (EARLIEST, LATEST):
        topic = bench.topic()
        reader = bench.reader(topic)
        reader.seek(start)
        bench.only_new(reader, topic, repr(start))


@case("SEEK-31", needs=("batch_index",))
def test_inside_a_batch(bench: Bench) -> None:
    """A seek into the middle of messages that were sent together is exact, inclusive and exclusive."""
    topic, ids = bench.filled(10)
    ids += bench.fill(topic, 10, begin=10)
    reader = bench.reader(topic)
    for index in (1, 5, 8, 9, 10, 14, 18):
        reader.seek(ids[index])
        bench.delivers(reader, ids[index : index + 3] if index < 18 else ids[18:], f"before message {index}")
        reader.seek(ids[index], inclusive=False)
        bench.delivers(reader, ids[index + 1 : index + 3], f"after message {index}")


@case("SEEK-32")
def test_id_read_back(bench: Bench) -> None:
    """A seek to an id that was read back from its text, or unpickled, is a seek to that id."""
    topic, ids = bench.filled(8)
    reader = bench.reader(topic)
    for index in (5, 2):
        reader.seek(MessageId.parse(str(ids[index])))
        bench.delivers(reader, ids[index:], "from its text")
        reader.seek(pickle.loads(pickle.dumps(ids[index])), inclusive=False)
        bench.delivers(reader, ids[index + 1 :], "unpickled")


@case("SEEK-33")
def test_to_its_own_position(bench: Bench) -> None:
    """A seek to the consumer's own position changes nothing."""
    topic, ids = bench.filled(8)
    reader = bench.reader(topic)
    for index in range(0, 8, 2):
        bench.stands(reader.position()[0], ids, index)
        reader.seek(reader.position()[0])
        bench.delivers(reader, ids[index : index + 1])
        reader.seek(Position.parse(str(reader.position()[0])))
        bench.delivers(reader, ids[index + 1 : index + 2])
    reader.seek(reader.position()[0])
    bench.only_new(reader, topic)


@case("SEEK-34", timeout=300)
def test_against_a_model(bench: Bench) -> None:
    """Any mix of seeks, sends and receives delivers what a list with an index would."""
    chance = bench.chance
    topic, ids = bench.filled(20)
    reader, index = bench.reader(topic), 0
    for step in range(bench.sized(quick=30, full=100, soak=1000)):
        if chance.random() < 0.2:
            ids += bench.fill(topic, chance.randint(1, 4), begin=len(ids))
        start, index = _any_start(chance, ids)
        reader.seek(start)
        wanted = ids[index : index + chance.randint(0, 5)]
        bench.delivers(reader, wanted, f"{bench.lot}, step {step}: {start!r}")
        bench.stands(reader.position()[0], ids, index + len(wanted), f"{bench.lot}, step {step}: {start!r}")
    if bench.client.capabilities.partitions:
        _last_of_each(bench)


def _last_of_each(bench: Bench) -> None:
    topic = bench.topic(partitions=2)
    ids = [bench.fill(topic, 5, partition=partition) for partition in range(2)]
    taken = bench.take(bench.reader(topic, last(2)), 4)
    for partition, wanted in enumerate(ids):
        bench.equal([each.id for each in taken if each.partition == partition], wanted[-2:], "the last 2 of each")


def _any_start(chance: random.Random, ids: list[MessageId]) -> tuple[Start | MessageId, int]:
    """Return some start, and the index of the message that it means."""
    index, count = chance.randrange(len(ids)), chance.randint(0, len(ids))
    choices: list[tuple[Start | MessageId, int]] = [
        (before(ids[index]), index),
        (after(ids[index]), index + 1),
        (Position(ids[index].log, ids[index].coordinates), index),
        (ids[index], index),
        (EARLIEST, 0),
        (LATEST, len(ids)),
        (last(count), len(ids) - count),
    ]
    return chance.choice(choices)


@case("SEEK-13")
def test_nothing_fetched_before(bench: Bench) -> None:
    """No message that was fetched before a seek is delivered after it."""
    topic, ids = bench.filled(200)
    reader = bench.reader(topic)
    bench.delivers(reader, ids[:3])
    reader.seek(ids[150])
    bench.delivers(reader, ids[150:155])
    reader.seek(ids[20])
    bench.delivers(reader, ids[20:40])
    bench.that(len(reader.receive_many(5, bench.patience)), "a batch of stored messages")
    reader.seek(ids[190], inclusive=False)
    bench.delivers(reader, ids[191:])


@case("SEEK-14")
def test_twice(bench: Bench) -> None:
    """Of two seeks the last one wins."""
    topic, ids = bench.filled(8)
    reader = bench.reader(topic)
    reader.seek(ids[1])
    reader.seek(ids[6])
    bench.delivers(reader, ids[6:])
    reader.seek(LATEST)
    reader.seek(EARLIEST)
    bench.delivers(reader, ids)


@case("SEEK-16")
def test_while_another_thread_receives(bench: Bench) -> None:
    """A receive that waits in another thread continues at the new position."""
    topic, ids = bench.filled(6)
    reader = bench.reader(topic, LATEST)
    begun, got = Event(), list[Message | None]()

    def receive() -> None:
        begun.set()
        got.append(reader.receive(bench.patience))

    thread = Thread(target=receive, daemon=True)
    thread.start()
    begun.wait()
    time.sleep(bench.waiting.nothing)  # until it waits, which is the case meant here; any other is right too
    reader.seek(ids[2])
    thread.join(bench.patience)
    bench.equal([message.id for message in got if message], [ids[2]])
    bench.delivers(reader, ids[3:])


@case("SEEK-25", needs=("partitions",))
def test_one_partition(bench: Bench) -> None:
    """A seek of one partition does not move the others, also if many of their messages were fetched, not received."""
    topic = bench.topic(partitions=2)
    ids = [bench.fill(topic, 500, partition=number) for number in (0, 1)]
    reader = bench.reader(topic)
    taken = bench.take(reader, 500)
    behind = [sum(message.partition == number for message in taken) for number in (0, 1)]
    reader.seek(ids[0][3])
    _both(bench, reader, topic, [ids[0][3:], ids[1][behind[1] :]])
    reader.seek(ids[0][498])
    reader.seek(EARLIEST, partition=1)
    found = [message.id for message in bench.take(reader, 504)]
    bench.equal([each for each in found if each.log is ids[1][0].log][:500], ids[1])


def _both(bench: Bench, reader: Consumer, topic: str, wanted: list[list[MessageId]]) -> None:
    """Check which messages of each of two partitions come, up to a new one in each."""
    wanted = [ids + bench.fill(topic, 1, partition=number) for number, ids in enumerate(wanted)]
    taken = bench.take(reader, sum(map(len, wanted)))
    found = [[message.id for message in taken if message.partition == number] for number in (0, 1)]
    bench.equal(found, wanted)


@case("SEEK-26")
def test_refused(bench: Bench) -> None:
    """A refused seek raises and changes nothing."""
    topic, ids = bench.filled(6)
    _, foreign = bench.filled(1)
    reader = bench.reader(topic)
    bench.delivers(reader, ids[:2])
    position = reader.position()
    with bench.raises(InvalidMessageId):
        reader.seek(foreign[0])
    with bench.raises(NotAssigned):
        reader.seek(EARLIEST, partition=7)
    with bench.raises(ValueError):
        reader.seek(ids[0], timeout=-1)
    bench.equal(reader.position(), position)
    bench.delivers(reader, ids[2:])


@case("SEEK-27")
def test_not_held(bench: Bench) -> None:
    """A seek of a partition that is not held raises ``NotAssigned``, a seek after close ``Closed``."""
    topic, ids = bench.filled(4)
    reader = bench.reader(topic)
    elsewhere = Log(ids[0].log.backend, ids[0].log.cluster, ids[0].log.topic, 1, ids[0].log.incarnation)
    with bench.raises(NotAssigned, InvalidMessageId):
        reader.seek(MessageId(elsewhere, ids[0].coordinates))
    if bench.client.capabilities.partitions:
        wide = bench.topic(partitions=2)
        there = bench.fill(wide, 1, partition=1)
        narrow = bench.reader(wide, partitions=[0])
        with bench.raises(NotAssigned):
            narrow.seek(there[0])
    reader.close()
    with bench.raises(Closed):
        reader.seek(ids[0])


@case("SEEK-28")
def test_foreign(bench: Bench) -> None:
    """An id or position of another topic or backend raises ``InvalidMessageId``, in a seek and as a start."""
    topic, ids = bench.filled(3)
    _, others = bench.filled(3)
    reader = bench.reader(topic)
    abroad = Log("elsewhere", ids[0].log.cluster, topic, 0, ids[0].log.incarnation)
    for bad in (others[1], MessageId(abroad, ids[1].coordinates)):
        with bench.raises(InvalidMessageId):
            reader.seek(bad)
        with bench.raises(InvalidMessageId):
            reader.seek(Position(bad.log, bad.coordinates))
        with bench.raises(InvalidMessageId):
            bench.reader(topic, after(bad))
    bench.delivers(reader, ids)


@case("SEEK-29")
def test_others_stay(bench: Bench) -> None:
    """A seek moves this consumer, or this group, and no other."""
    topic, ids = bench.filled(8)
    mover, stayer = bench.reader(topic), bench.reader(topic)
    bench.delivers(mover, ids[:4])
    bench.delivers(stayer, ids[:4])
    mover.seek(ids[1])
    bench.delivers(stayer, ids[4:])
    if bench.client.capabilities.groups:
        groups = [bench.member(topic, bench.name()) for _ in range(2)]
        for member in groups:
            bench.delivers(member, ids[:4])
        groups[0].seek(ids[6])
        bench.delivers(groups[1], ids[4:])
    bench.delivers(mover, ids[1:])


@case("SEEK-30", needs=("durable_groups",))
def test_moves_the_group(bench: Bench) -> None:
    """A seek has moved the group's stored position when it returns: a member opened later continues there."""
    topic, ids = bench.filled(10)
    group = bench.name()
    member = bench.member(topic, group)
    for message in bench.delivers(member, ids[:8]):
        member.ack(message)
    member.commit()
    member.seek(ids[3])
    bench.stands(member.committed()[0], ids, 3)
    member.close()
    again = bench.member(topic, group)
    bench.delivers(again, ids[3:], "the later acks are forgotten")
    again.seek(ids[8])
    again.close()
    bench.delivers(bench.member(topic, group), ids[8:], "earlier messages count as acked")


@case("SEEK-38", needs=("shared", "durable_groups"))
def test_moves_sharers(bench: Bench) -> None:
    """If members share a log, a seek of one moves them all, and everything from there on comes again."""
    topic, ids = bench.dripped(8)
    group = bench.name()
    one, other = (bench.member(topic, group, mode="shared") for _ in range(2))
    had = [*bench.take(one, 2), *bench.take(other, 2)]
    other.ack(had[2])
    other.commit()
    one.seek(ids[1])
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 1)
    other.ack(had[3])
    one.close()
    came = bench.take(other, 7)
    bench.equal(sorted(message.id for message in came), ids[1:])
    for message in came:
        other.ack(message)
    bench.only_new(other, topic)
