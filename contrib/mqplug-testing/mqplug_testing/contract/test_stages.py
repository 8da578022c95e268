"""STG: stages, on which many messages are written where nobody reads them, until one step takes them in."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from mqplug import (
    EARLIEST,
    LATEST,
    Client,
    Closed,
    Corrupt,
    Log,
    Message,
    MessageId,
    MessageTooLarge,
    Record,
    Staged,
    TopicNotFound,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

NEEDS = ("staged_ingest",)
HUGE = 64 * 1024 * 1024  # a largest message beyond this is not tried


def records(numbers: Iterable[int], *, partition: int = 0) -> list[Record]:
    """Messages for one partition, whose values are these numbers."""
    return [Record(b"%d" % number, partition=partition) for number in numbers]


def staged(client: Client, topic: str, *batches: Iterable[Record]) -> Staged:
    """Write these batches on a stage, and finish it. What it returns may be sent anywhere, and so it is pickled."""
    with client.stage(topic) as stage:
        for batch in batches:
            stage.write(batch)
        found: Staged = pickle.loads(pickle.dumps(stage.finish()))
    return found


def numbers(bench: Bench, topic: str) -> dict[int, list[int]]:
    """What is stored of numbers, by partition."""
    found: dict[int, list[int]] = {}
    for message in bench.read(topic):
        found.setdefault(message.partition, []).append(int(message.value or b""))
    return found


def partitions(bench: Bench) -> int:
    """As many as topics may have, up to two."""
    return 2 if bench.client.capabilities.partitions else 1


@case("STG-01", needs=NEEDS)
def test_unseen(bench: Bench) -> None:
    """What is staged is seen by nobody and counted nowhere, until it is taken in; then whoever waits gets it."""
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
    """What is taken in stands behind what was there, in each partition: as stages are named, and each was written."""
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
    bench.equal(numbers(bench, topic), {each: [*wanted, 20] for each in range(count)}, "what is sent follows")


def _on_all(bench: Bench, topic: str, count: int, begin: int) -> Staged:
    """Stage six numbers for each partition, in two batches."""
    halves = (range(begin, begin + 3), range(begin + 3, begin + 6))
    return staged(bench.client, topic, *([*_mixed(half, count)] for half in halves))


def _mixed(these: Iterable[int], count: int) -> Iterable[Record]:
    return (Record(b"%d" % number, partition=partition) for number in these for partition in range(count))


@case("STG-03", needs=NEEDS)
def test_as_sent(bench: Bench) -> None:
    """What was taken in is as if it had been sent: partitions of its keys, headers, timestamps, tombstones and all."""
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
    """What a record may have beside its value, as far as this backend can."""
    return {
        **({"key": b"%d" % (number % 7)} if able.keys else {"partition": 0}),
        **({"headers": [("a", b"%d" % number), ("b", b"")]} if able.headers else {}),
        **({"timestamp": 1_700_000_000_000 + number} if able.timestamps_producer else {}),
    }


def _fate(message: Message) -> tuple[Any, ...]:
    return message.partition, message.value, message.key, tuple(message.headers), message.attempt


@case("STG-04", needs=NEEDS)
def test_where_it_lies(bench: Bench) -> None:
    """An ingest tells the first and the last id in each log, which are those that readers see and can seek to."""
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
    """Stages that are written by turns, by one client or by two, have each its own messages."""
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
    """A stage that is left without ``finish``, by an error or not, or discarded, leaves nothing, and is over."""
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
    """What was staged and discarded cannot be taken in; to discard it again is nothing, nor what was taken in."""
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
    """What is wrong with a record is raised before any of its batch is written, and the stage goes on."""
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
    """A stage for a missing topic is ``TopicNotFound``, and makes none; one of a closed client is ``Closed``."""
    _refuse(bench, TopicNotFound, lambda: bench.client.stage(bench.name()))
    topic, client = bench.topic(), bench.connect()
    stage = client.stage(topic)
    client.close()
    _refuse(bench, Closed, lambda: stage.write([b"x"]), stage.finish, lambda: client.stage(topic))


def _refuse(bench: Bench, error: type[Exception], *calls: Callable[[], object]) -> None:
    for call in calls:
        with bench.raises(error):
            call()
