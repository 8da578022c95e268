"""WM: what retention and deletion take away."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mqplug import (
    EARLIEST,
    LATEST,
    Bounds,
    Consumer,
    InvalidMessageId,
    MessageId,
    Position,
    PositionLost,
    Record,
    after,
    before,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("WM-03", hooks=("trim_before",))
def test_all_trimmed(bench: Bench) -> None:
    """A topic whose messages were all trimmed is not as good as new: its watermarks and ids go on upward."""
    topic = bench.topic()
    fresh = bench.marks(topic)
    ids = bench.fill(topic, 6)
    bench.roll(topic)
    bench.trim(topic, bench.marks(topic).high)
    marks = bench.marks(topic)
    bench.that(marks.low > fresh.low, "low moved up")
    bench.that(marks.high > fresh.high, "high did not fall back")
    bench.stands(marks.high, ids, len(ids))
    bench.equal(bench.bounds(topic), Bounds(None, None), "nothing is left")
    later = bench.fill(topic, 1)
    bench.that(later[0] > ids[-1], "the next id lies above all that were")


@case("WM-05", hooks=("trim_before",))
def test_low_follows_trim(bench: Bench) -> None:
    """After a trim, low and the first bound are at the first message that is left."""
    trimmed = bench.trimmed()
    bench.stands(bench.marks(trimmed.topic).low, trimmed.gone + trimmed.left, len(trimmed.gone))
    bench.equal(bench.bounds(trimmed.topic).first_id, trimmed.left[0])
    bench.delivers(bench.reader(trimmed.topic, EARLIEST), trimmed.left)
    if bench.client.capabilities.trim and bench.client.capabilities.partitions:
        _trim_one_of_two(bench)


def _trim_one_of_two(bench: Bench) -> None:
    topic = bench.topic(partitions=2)
    ids = [bench.fill(topic, 4, partition=partition) for partition in range(2)]
    bench.roll(topic)
    kept = [bench.fill(topic, 1, partition=partition)[0] for partition in range(2)]
    bench.trim(topic, Position(kept[1].log, kept[1].coordinates))
    bench.stands(bench.marks(topic, 0).low, ids[0], 0, "the other partition is left as it is")
    bench.delivers(bench.reader(topic, EARLIEST, partitions=[0]), [*ids[0], kept[0]])


@case("WM-19", hooks=("trim_before",))
def test_overtaken(bench: Bench) -> None:
    """A reader that retention overtakes gets ``PositionLost`` from every receive, until it seeks."""
    topic = bench.topic()
    ids = list[MessageId]()
    ids += bench.filler(topic).send_many([Record(bytes(16_000), partition=0) for _ in range(200)])
    reader = bench.reader(topic, before(ids[0]), prefetch_bytes=32_000)
    bench.equal(reader.receive_many(1, bench.patience).ids, ids[:1])  # and no more than one is asked for
    bench.roll(topic)
    ids += bench.fill(topic, 3)
    bench.trim(topic, Position(ids[-3].log, ids[-3].coordinates))
    low = bench.marks(topic).low
    delivered = _read_until_lost(bench, reader, ids[-1])
    bench.equal(delivered, ids[1 : 1 + len(delivered)], "no gap before the error")
    if ids[-1] in delivered:
        pytest.skip("the reader had fetched everything before it was trimmed")
    for _ in range(3):
        with bench.raises(PositionLost):
            reader.receive(bench.waiting.nothing)
    reader.seek(EARLIEST)
    bench.delivers(reader, [each for each in ids if low.precedes(each)])


def _read_until_lost(bench: Bench, reader: Consumer, last: MessageId) -> list[MessageId]:
    """What is delivered before ``PositionLost``, or the last message."""
    delivered: list[MessageId] = []
    with suppress(PositionLost):
        while last not in delivered:
            delivered.append(bench.take(reader, 1)[0].id)
    return delivered


@case("WM-20", needs=("delete_topic",))
def test_deleted_topic(bench: Bench) -> None:
    """Ids and positions of a deleted topic are refused by a new topic of the same name."""
    topic, old = bench.filled(3)
    high = bench.marks(topic).high
    bench.make_again(topic)
    ids = bench.fill(topic, 6)
    reader = bench.reader(topic)
    known = bool(old[0].log.incarnation)
    for stale in (before(old[1]), high) if known else (before(old[1]),):
        with bench.raises(InvalidMessageId, *([] if known else [PositionLost])):
            reader.seek(stale)
    bench.delivers(reader, ids)
    reader.seek(LATEST)
    bench.only_new(reader, topic)


@case("WM-22", needs=("durable_groups",), hooks=("trim_before",))
def test_behind_low(bench: Bench) -> None:
    """After a trim, high stands where it stood, and the lag of a group that stood behind low is what is left for it."""
    topic, behind, done = bench.topic(), bench.name(), bench.name()
    ids = bench.fill(topic, 6)
    bench.roll(topic)
    ids += bench.fill(topic, 6, begin=6)
    bench.client.reset_group(done, topic, LATEST)
    bench.client.reset_group(behind, topic, after(ids[1]))
    high = bench.marks(topic).high
    bench.trim(topic, Position(ids[6].log, ids[6].coordinates))
    marks = bench.marks(topic)
    bench.equal(marks.high, high)
    bench.stands(marks.high, ids, len(ids))
    lag = bench.client.lag(topic, group=behind)[0]
    if marks.exact:
        bench.equal((lag, marks.count), (len([each for each in ids if marks.low.precedes(each)]),) * 2)
    else:
        bench.that(0 < lag <= marks.count, f"a lag of {lag}, where {marks.count} are stored")
    bench.equal(bench.client.lag(topic, group=done), {0: 0})


@case("WM-24", hooks=("trim_before",))
def test_just_behind(bench: Bench) -> None:
    """Low lies just behind the last message that was removed: where the backend can tell, nothing is lost there."""
    topic, ids = bench.dripped(4)
    bench.roll(topic)
    left = bench.fill(topic, 4, begin=4)
    reader = bench.reader(topic, after(ids[-1]))
    behind = reader.position()[0]
    bench.delivers(reader, left)
    bench.trim(topic, behind)
    low = bench.marks(topic).low
    if bench.client.capabilities.trim:
        bench.that(
            behind <= low <= Position(left[0].log, left[0].coordinates), f"{low!r} is just behind what was removed"
        )
    for place in (after(ids[-1]), low):
        try:
            reader.seek(place)
        except PositionLost:
            bench.that(low > behind, f"{behind!r} is not behind {low!r}")
            reader.seek(EARLIEST)
        bench.delivers(reader, left)
    with bench.raises(PositionLost):
        reader.seek(ids[-2], inclusive=False)
