"""ERR: disks that are full, and what was damaged on them."""

from __future__ import annotations

from mqplug import EARLIEST, Corrupt, Error, MessageId, Position, Start, StorageFull, before
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

PIECE = 64 * 1024  # bytes
MOST = 1_000  # pieces that a disk may take that is called full: there are buffers


@case("ERR-11", needs=("persistent",), hooks=("fill_disk",), timeout=180)
def test_full_disk(bench: Bench) -> None:
    """A send that finds no room is ``StorageFull``; what was stored stays, and with room again sending goes on."""
    topic, ids = bench.dripped(3)
    assert bench.harness.fill_disk is not None
    make_room = bench.harness.fill_disk()
    try:
        stored, error = _until_refused(bench, topic)
    finally:
        make_room()
    bench.equal(type(error), StorageFull)
    bench.that(error.message and error.fix, f"{error!r} says what is wrong and how to mend it")
    with bench.away():  # a store may have to be opened again
        pass
    found = [message.id for message in bench.read(topic)]
    bench.equal(found[: len(ids) + len(stored)], ids + stored, "what was called stored is there")
    bench.that(len(found) <= len(ids) + len(stored) + 1, "besides at most the one that was refused")
    later = bench.fill(topic, 3)
    bench.equal([message.id for message in bench.read(topic)], found + later)


def _until_refused(bench: Bench, topic: str) -> tuple[list[MessageId], Error]:
    """Send until there is an error; the ids of what was stored before, and the error."""
    stored = list[MessageId]()
    producer = bench.producer(topic)
    while len(stored) < MOST:
        try:
            stored.append(producer.send(bytes(PIECE), partition=0, timeout=bench.patience))
        except Error as error:
            return stored, error
    raise AssertionError(f"{MOST * PIECE} bytes were stored on a full disk")


@case("ERR-14", needs=("persistent", "durable_groups"), hooks=("fill_disk", "trim_before"), timeout=180)
def test_full_disk_goes_on(bench: Bench) -> None:
    """On a full disk all but sending works, and after it was opened there too: reading, committing, trim, delete."""
    topic, ids = bench.dripped(6)
    other, group = bench.topic(), bench.name()
    assert bench.harness.fill_disk is not None
    make_room = bench.harness.fill_disk()
    try:
        _until_refused(bench, other)
        bench.equal([message.id for message in bench.read(topic)], ids)
        with bench.member(topic, group) as member:
            for message in bench.take(member, 2):
                member.ack(message)
            member.commit(timeout=bench.patience)
        bench.trim(topic, Position(ids[3].log, ids[3].coordinates))
        with bench.away():
            pass
        bench.equal([message.id for message in bench.read(topic)], ids[3:], "after it was opened without room")
        bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 2)
        bench.client.reset_group(group, topic, ids[4])
        bench.make_gone(other)
        bench.that(other not in bench.client.topics(), "a topic was deleted")
    finally:
        make_room()
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, 4)
    later = bench.fill(topic, 3)
    bench.equal([message.id for message in bench.read(topic)], ids[3:] + later)


@case("ERR-12", needs=("persistent",), hooks=("corrupt_tail",), timeout=180)
def test_damaged(bench: Bench) -> None:
    """What was damaged is ``Corrupt``, each time and for each way to read: it is neither served nor passed over."""
    topic, ids = bench.dripped(5)
    assert bench.harness.corrupt_tail is not None
    with bench.away():
        mend = bench.harness.corrupt_tail(topic)
        try:
            for start in (EARLIEST, EARLIEST, before(ids[-1])):
                found = _read_until_refused(bench, topic, start)
                bench.equal(found, ids[: len(found)])
                bench.that(len(found) < len(ids), "the damaged one was not served")
        finally:
            mend()
    bench.equal([message.id for message in bench.read(topic)], ids, "once it was mended")


def _read_until_refused(bench: Bench, topic: str, start: Start) -> list[MessageId]:
    """What comes before it is ``Corrupt``; a store may be so as a whole."""
    found: list[MessageId] = []
    with bench.raises(Corrupt), bench.harness.connect() as client, client.consumer(topic, start=start) as reader:
        while message := reader.receive(bench.patience):
            found.append(message.id)
    return found
