"""STG: stages, on which messages are written unseen by readers, until one step ingests them, once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from functools import partial
from threading import Event, Thread
from typing import Any

import attrs

from mqplug import (
    EARLIEST,
    LATEST,
    Client,
    Closed,
    ConfigError,
    Corrupt,
    InvalidName,
    Log,
    Message,
    MessageId,
    MessageTooLarge,
    Record,
    Staged,
    TopicNotFound,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import RECOVERY

case = Registry()

NEEDS = ("staged_ingest",)
HUGE = 64 * 1024 * 1024  # a largest message beyond this is not tried


def records(numbers: Iterable[int], *, partition: int = 0) -> list[Record]:
    """Return messages for one partition, whose values are these numbers."""
    return [Record(b"%d" % number, partition=partition) for number in numbers]


def staged(client: Client, topic: str, *batches: Iterable[Record]) -> Staged:
    """Write these batches on a stage, and finish it. The result may be sent to other processes, so it is pickled."""
    with client.stage(topic) as stage:
        for batch in batches:
            stage.write(batch)
        found: Staged = pickle.loads(pickle.dumps(stage.finish()))
    return found


def numbers(bench: Bench, topic: str) -> dict[int, list[int]]:
    """Return the stored numbers by partition."""
    found: dict[int, list[int]] = {}
    for message in bench.read(topic):
        found.setdefault(message.partition, []).append(int(message.value or b""))
    return found


def partitions(bench: Bench) -> int:
    """Return the number of partitions for a topic: two, if the backend has partitions."""
    return 2 if bench.client.capabilities.partitions else 1


@case("STG-01", needs=NEEDS)
def test_unseen(bench: Bench) -> None:
    """No reader sees staged messages and no bound counts them until they are ingested; then all readers get them."""
    topic, ids = bench.filled(3)
    reader, bounds = bench.reader(topic, LATEST), bench.bounds(topic)
    found = staged(bench.client, topic, records(range(3, 6)))
    bench.equal((found.topic, found.messages), (topic, 3))
    bench.rests(reader)
    bench.equal([message.id for message in bench.read(topic)], ids)
    bench.equal(bench.bounds(topic), bounds)
    bench.client.ingest(found, writer=bench.name(), number=0)
    bench.equal([message.value for message in bench.take(reader, 3)], [b"3", b"4", b"5"])


@case("STG-02", needs=NEEDS)
def test_in_order(bench: Bench) -> None:
    """Ingested messages follow the existing ones in each partition, in the order of the stages and of their writes."""
    count = partitions(bench)
    topic = bench.topic(count)
    for partition in range(count):
        bench.fill(topic, 2, partition=partition)
    first, second, third = (_on_all(bench, topic, count, begin) for begin in (2, 8, 14))
    bench.client.ingest([third, first, second], writer=bench.name(), number=0)
    wanted = [0, 1, *range(14, 20), *range(2, 14)]
    bench.equal(numbers(bench, topic), dict.fromkeys(range(count), wanted))
    for partition in range(count):
        bench.fill(topic, 1, partition=partition, begin=20)
    bench.equal(numbers(bench, topic), {each: [*wanted, 20] for each in range(count)}, "messages sent later follow")


def _on_all(bench: Bench, topic: str, count: int, begin: int) -> Staged:
    """Stage six numbers for each partition, in two batches."""
    halves = (range(begin, begin + 3), range(begin + 3, begin + 6))
    return staged(bench.client, topic, *([*_mixed(half, count)] for half in halves))


def _mixed(these: Iterable[int], count: int) -> Iterable[Record]:
    return (Record(b"%d" % number, partition=partition) for number in these for partition in range(count))


@case("STG-03", needs=NEEDS)
def test_as_sent(bench: Bench) -> None:
    """Ingested messages are as if they had been sent: partitions of their keys, headers, timestamps, tombstones."""
    able, count = bench.client.capabilities, partitions(bench)
    sent, taken = bench.topic(count), bench.topic(count)
    batch = [Record(b"%d" % number, **_fields(able, number)) for number in range(60)]
    if able.null_payload:
        batch += [Record(None, partition=0), Record(b"", partition=0)]
    bench.filler(sent).send_many(batch)
    bench.client.ingest(staged(bench.client, taken, batch[:25], batch[25:]), writer=bench.name(), number=0)
    found = bench.read(taken)
    bench.equal(sorted(map(_fate, found), key=repr), sorted(map(_fate, bench.read(sent)), key=repr))
    if able.timestamps_producer:
        stamps = {message.value: message.timestamp.timestamp() * 1000 for message in found}
        bench.equal([stamps[b"%d" % number] for number in range(60)], [1_700_000_000_000 + n for n in range(60)])


def _fields(able: Any, number: int) -> dict[str, Any]:
    """Return the fields that a record may have besides its value on this backend."""
    return {
        **({"key": b"%d" % (number % 7)} if able.keys else {"partition": 0}),
        **({"headers": [("a", b"%d" % number), ("b", b"")]} if able.headers else {}),
        **({"timestamp": 1_700_000_000_000 + number} if able.timestamps_producer else {}),
    }


def _fate(message: Message) -> tuple[Any, ...]:
    return message.partition, message.value, message.key, tuple(message.headers), message.attempt


@case("STG-04", needs=NEEDS)
def test_where_it_lies(bench: Bench) -> None:
    """An ingest returns the first and the last id in each log; readers see these ids, and can seek to them."""
    count = partitions(bench)
    topic = bench.topic(count)
    old = {partition: bench.fill(topic, 2, partition=partition) for partition in range(count)}
    done = bench.client.ingest(_on_all(bench, topic, count, 2), writer=bench.name(), number=0)
    bench.equal((done.messages, done.repeated), (6 * count, False))
    found: dict[Log, list[MessageId]] = {}
    for message in bench.read(topic):
        if message.id not in old[message.partition]:
            found.setdefault(message.id.log, []).append(message.id)
    bench.equal({log: (at.first_id, at.last_id) for log, at in done.placed.items()}, _ends(found))
    for partition, bounds in bench.client.bounds(topic).items():
        log = next(log for log in found if log.partition == partition)
        bench.equal((bounds.first_id, bounds.last_id), (old[partition][0], found[log][-1]))
        bench.stands(bench.marks(topic, partition).high, found[log], 6)
        reader = bench.reader(topic, EARLIEST, partitions=[partition])
        reader.seek(found[log][2])
        bench.delivers(reader, found[log][2:])


def _ends(found: dict[Log, list[MessageId]]) -> dict[Log, tuple[MessageId, MessageId]]:
    return {log: (ids[0], ids[-1]) for log, ids in found.items()}


@case("STG-05", needs=NEEDS)
def test_stages_do_not_mix(bench: Bench) -> None:
    """Stages that are written by turns, by one client or by two, each have their own messages."""
    topic = bench.topic()
    with bench.client.stage(topic) as one, bench.connect().stage(topic) as other, bench.client.stage(topic) as third:
        for number in range(0, 30, 3):
            for stage, offset in ((one, 0), (other, 1), (third, 2)):
                stage.write(records([number + offset]))
        found = [stage.finish() for stage in (one, other, third)]
    bench.equal([each.messages for each in found], [10, 10, 10])
    writer = bench.name()
    for number, which in enumerate((1, 2, 0)):
        bench.client.ingest(found[which], writer=writer, number=number)
    bench.equal(numbers(bench, topic), {0: [*range(1, 30, 3), *range(2, 30, 3), *range(0, 30, 3)]})


@case("STG-06", needs=NEEDS)
def test_left(bench: Bench) -> None:
    """A stage that is left without ``finish``, by an error or not, or is discarded, leaves nothing, and is over."""
    topic = bench.topic()
    with bench.client.stage(topic) as forgotten:
        forgotten.write(records(range(5)))
    broken = bench.client.stage(topic)
    with bench.raises(TypeError), broken:
        broken.write(records(range(5, 10)))
        broken.write(["no bytes"])  # type: ignore[list-item]
    discarded = bench.client.stage(topic)
    discarded.write(records(range(10, 15)))
    discarded.discard()
    discarded.discard()
    for stage in (forgotten, broken, discarded):
        _refuse(bench, Closed, partial(stage.write, [b"x"]), stage.finish)
    bench.client.ingest(staged(bench.client, topic, records([15])), writer=bench.name(), number=0)
    bench.equal(numbers(bench, topic), {0: [15]})


@case("STG-07", needs=NEEDS)
def test_discarded(bench: Bench) -> None:
    """Discarded messages cannot be ingested; discarding a stage that is gone, or was ingested, does nothing."""
    topic, writer = bench.topic(), bench.name()
    unwanted, wanted = (staged(bench.client, topic, records([number])) for number in (0, 1))
    bench.client.discard(unwanted)
    bench.client.discard([unwanted])
    _refuse(bench, Corrupt, lambda: bench.client.ingest(unwanted, writer=writer, number=0))
    bench.equal(bench.client.ingest(wanted, writer=writer, number=0).repeated, False, "the number is free")
    bench.client.discard(wanted)
    bench.equal(numbers(bench, topic), {0: [1]})


@case("STG-08", needs=NEEDS)
def test_refused_records(bench: Bench) -> None:
    """An error in a record is raised before any of its batch is written, and the stage continues."""
    topic, most = bench.topic(), bench.client.capabilities.message_max_bytes
    wrong: list[tuple[type[Exception], Any]] = [(TypeError, "text"), (ValueError, Record(b"x", topic=bench.name()))]
    if bench.client.capabilities.partitions:
        wrong.append((ValueError, Record(b"x", partition=1)))
    if most <= HUGE:
        wrong.append((MessageTooLarge, bytes(most + 1)))
    with bench.client.stage(topic) as stage:
        for error, record in wrong:
            _refuse(bench, error, partial(stage.write, [b"-1", record]))
        stage.write(records([1]))
        found = stage.finish()
    bench.client.ingest(found, writer=bench.name(), number=0)
    bench.equal(numbers(bench, topic), {0: [1]})


@case("STG-09", needs=NEEDS)
def test_no_such_topic(bench: Bench) -> None:
    """A stage for a missing topic raises ``TopicNotFound``, and creates none; one of a closed client, ``Closed``."""
    _refuse(bench, TopicNotFound, lambda: bench.client.stage(bench.name()))
    topic, client = bench.topic(), bench.connect()
    stage = client.stage(topic)
    client.close()
    _refuse(bench, Closed, lambda: stage.write([b"x"]), stage.finish, lambda: client.stage(topic))


def _refuse(bench: Bench, error: type[Exception], *calls: Callable[[], object]) -> None:
    for call in calls:
        with bench.raises(error):
            call()


def stage_some(bench: Bench, topic: str, *wanted: int) -> Staged:
    """Stage these numbers for the first partition."""
    return staged(bench.client, topic, records(wanted))


@case("STG-10", needs=NEEDS)
def test_once(bench: Bench) -> None:
    """A batch that is staged and ingested again, under its number or a smaller one, is stored once."""
    client, topic, writer = bench.client, bench.topic(), bench.name()
    first = client.ingest(stage_some(bench, topic, 1, 2), writer=writer, number=7)
    bench.equal(first.repeated, False)
    spare = stage_some(bench, topic, 1, 2)
    again = client.ingest(spare, writer=writer, number=7)
    bench.equal(again.repeated, True)
    bench.that(again.placed in ({}, first.placed), f"its ids are those of the first ingest: {again}")
    bench.equal(client.ingest(stage_some(bench, topic, 0), writer=writer, number=3).repeated, True)
    with bench.raises(Corrupt):
        client.ingest(spare, writer=writer, number=8)  # the repeat discarded it
    bench.equal(client.ingest(stage_some(bench, topic, 3), writer=writer, number=8).repeated, False)
    bench.equal(client.ingest(stage_some(bench, topic, 4), writer=bench.name(), number=0).repeated, False)
    bench.equal(numbers(bench, topic), {0: [1, 2, 3, 4]})


@case("STG-11", needs=NEEDS)
def test_nothing_staged(bench: Bench) -> None:
    """A batch without messages is ingested too, and uses up its number."""
    topic, writer = bench.topic(), bench.name()
    done = bench.client.ingest(stage_some(bench, topic), writer=writer, number=0)
    bench.equal((done.messages, dict(done.placed), done.repeated), (0, {}, False))
    bench.equal(bench.client.ingest(stage_some(bench, topic, 1), writer=writer, number=0).repeated, True)
    bench.equal(numbers(bench, topic), {})


@case("STG-12", needs=NEEDS)
def test_all_or_nothing(bench: Bench) -> None:
    """If one of several stages cannot be ingested, none of them is, and the number stays free."""
    client, topic, writer = bench.client, bench.topic(), bench.name()
    good, gone = stage_some(bench, topic, 1), stage_some(bench, topic, 2)
    client.discard(gone)
    for several in ([good, gone], [gone, good]):
        with bench.raises(Corrupt):
            client.ingest(several, writer=writer, number=0)
    if client.capabilities.delete_topic:
        doomed = bench.topic()
        lost = stage_some(bench, doomed, 3)
        bench.forget(doomed)
        client.delete_topic(doomed)
        with bench.raises(TopicNotFound):
            client.ingest([good, lost], writer=writer, number=0)
    bench.equal(numbers(bench, topic), {})
    bench.equal(client.ingest(good, writer=writer, number=0).repeated, False)
    bench.equal(numbers(bench, topic), {0: [1]})


@case("STG-13", needs=NEEDS)
def test_at_once(bench: Bench) -> None:
    """However many stages and partitions a batch has, a concurrent reader sees the whole of it, or nothing."""
    count, most = partitions(bench), bench.sized(10, 50)
    topic, ended = bench.topic(count), Event()
    batches = [[stage_some_on_all(bench, topic, count) for _ in range(3)] for _ in range(most)]
    writer, client = bench.name(), bench.connect()

    def ingest_all() -> None:
        for number, batch in enumerate(batches):
            client.ingest(batch, writer=writer, number=number)
        ended.set()

    thread = Thread(target=ingest_all, daemon=True)
    thread.start()
    seen = [len(bench.read(topic))]
    while not ended.is_set() and thread.is_alive():
        seen.append(len(bench.read(topic)))
    thread.join()
    bench.equal([each for each in seen if each % (6 * count)], [], "a part of a batch was seen")
    bench.equal(len(bench.read(topic)), 6 * count * most)


def stage_some_on_all(bench: Bench, topic: str, count: int) -> Staged:
    """Stage two messages for each partition."""
    return staged(bench.client, topic, *(records((1, 2), partition=partition) for partition in range(count)))


@case("STG-14", needs=NEEDS)
def test_misnamed(bench: Bench) -> None:
    """An invalid writer or number, or a stage of another store, is refused, and nothing is ingested."""
    client, topic, writer = bench.client, bench.topic(), bench.name()
    good = stage_some(bench, topic, 1)
    with bench.raises(TypeError):
        client.ingest(good, writer=7, number=0)  # type: ignore[arg-type]
    with bench.raises(InvalidName):
        client.ingest(good, writer="", number=0)
    with bench.raises(TypeError):
        client.ingest(good, writer=writer, number="0")  # type: ignore[arg-type]
    for wrong in (-1, 2**63):
        with bench.raises(ValueError):
            client.ingest(good, writer=writer, number=wrong)
    for stranger in (attrs.evolve(good, backend="another"), attrs.evolve(good, cluster="another")):
        with bench.raises(ConfigError):
            client.ingest([good, stranger], writer=writer, number=0)
    with bench.raises(ValueError):
        client.ingest([good, good], writer=writer, number=0)
    bench.equal(numbers(bench, topic), {})
    client.ingest(good, writer=writer, number=2**63 - 1)
    bench.equal(numbers(bench, topic), {0: [1]})


def lasts(bench: Bench, topic: str, writer: str, waiting: Staged) -> None:
    """Check that the ingested batch is there, that its number is used up, and that a finished stage can be ingested."""
    bench.equal(numbers(bench, topic), {0: [0, 1, 2]})
    again = stage_some(bench, topic, 1, 2)
    bench.equal(bench.client.ingest(again, writer=writer, number=5).repeated, True)
    bench.equal(bench.client.ingest(waiting, writer=writer, number=6).repeated, False)
    bench.equal(numbers(bench, topic), {0: [0, 1, 2, 3]})


def ingest_some(bench: Bench) -> tuple[str, str, Staged]:
    """Send a message, ingest two as number 5 of a writer, and stage one. Return the topic, the writer and the stage."""
    topic, writer = bench.topic(), bench.name()
    bench.fill(topic, 1)
    bench.client.ingest(stage_some(bench, topic, 1, 2), writer=writer, number=5)
    return topic, writer, stage_some(bench, topic, 3)


@case("STG-15", needs=NEEDS)
def test_after_reopening(bench: Bench) -> None:
    """After all clients were closed, the ingested numbers are remembered, and finished stages can be ingested."""
    topic, writer, waiting = ingest_some(bench)
    with bench.away():
        pass
    lasts(bench, topic, writer, waiting)


@case("STG-16", needs=NEEDS, hooks=("restart",), timeout=180)
def test_after_a_restart(bench: Bench) -> None:
    """After a restart the ingested numbers are remembered, and finished stages can be ingested."""
    topic, writer, waiting = ingest_some(bench)
    bench.restart()
    lasts(bench, topic, writer, waiting)


@case("STG-17", needs=(*NEEDS, "persistent"), hooks=("kill", "start"), timeout=180)
def test_after_a_kill(bench: Bench) -> None:
    """If the broker is killed right after an ingest, the batch is there, and its number is remembered."""
    assert bench.harness.kill is not None and bench.harness.start is not None
    topic, writer, waiting = ingest_some(bench)
    bench.harness.kill()
    with bench.away():
        bench.harness.start()
    lasts(bench, topic, writer, waiting)


@case("STG-18", needs=(*NEEDS, "persistent"), hooks=("second_process",), timeout=180)
def test_staged_elsewhere(bench: Bench) -> None:
    """The stages that a process finished can be ingested after it was killed; its unfinished ones are gone."""
    topic = bench.topic()
    with bench.away(), ChildProcess(STAGES, str(bench.harness.second_process), topic) as child:
        child.wait_for(1, RECOVERY * bench.scale)
        child.kill()
    found: Staged = pickle.loads(bytes.fromhex(child.lines[0]))
    bench.equal(numbers(bench, topic), {})
    bench.client.ingest(found, writer=bench.name(), number=0)
    bench.equal(numbers(bench, topic), {0: [1, 2]})


STAGES = """
import pickle, sys, time, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url)
unfinished = client.stage(topic)
unfinished.write([mqplug.Record(b"0", partition=0)] * 1000)
with client.stage(topic) as stage:
    stage.write([mqplug.Record(b"1", partition=0), mqplug.Record(b"2", partition=0)])
    staged = stage.finish()
print(pickle.dumps(staged).hex())
time.sleep(600)
"""


@case("STG-19", needs=(*NEEDS, "persistent"), hooks=("second_process",), timeout=300)
def test_killed_while_it_takes_in(bench: Bench) -> None:
    """A process that ingests batches is killed: each is stored as a whole or not at all, and a repeat adds nothing."""
    topic, writer, known = bench.topic(), bench.name(), 0
    for wanted in (1, bench.sized(5, 30)):
        with bench.away(), ChildProcess(INGESTS, str(bench.harness.second_process), topic, writer) as child:
            child.wait_for(wanted, RECOVERY * bench.scale)
            child.kill()
        done = max(known, int(child.lines[-1]) + 1)  # its first batches may repeat those of the previous child
        bench.that(
            numbers(bench, topic).get(0, []) in (_batches(done), _batches(done + 1)),
            f"{done} batches were reported as stored; one more may be there, as a whole",
        )
        # The last ingest of the child may still be carried out: then either it or this one is the repeat.
        bench.client.ingest(_again(bench, topic, done), writer=writer, number=done)
        known = done + 1
        bench.equal(numbers(bench, topic), {0: _batches(known)})
        bench.equal(bench.client.ingest(_again(bench, topic, done), writer=writer, number=done).repeated, True)
        bench.equal(numbers(bench, topic), {0: _batches(known)})


def _again(bench: Bench, topic: str, number: int) -> Staged:
    """Stage the batch of this number as the child does."""
    return staged(bench.client, topic, records([number] * 25), records([number] * 25))


def _batches(count: int) -> list[int]:
    """Return the numbers of this many batches."""
    return [number for number in range(count) for _ in range(50)]


INGESTS = """
import sys, mqplug
url, topic, writer = sys.argv[1:]
client = mqplug.connect(url)
for number in range(10**9):
    several = []
    for _ in range(2):
        with client.stage(topic) as stage:
            stage.write([mqplug.Record(b"%d" % number, partition=0)] * 25)
            several.append(stage.finish())
    client.ingest(several, writer=writer, number=number)
    print(number)
"""
