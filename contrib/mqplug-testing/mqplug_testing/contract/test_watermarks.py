"""WM: watermarks, bounds, counts and lag, also after trims and deletions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from threading import Event

import pytest

from mqplug import (
    EARLIEST,
    LATEST,
    Bounds,
    Consumer,
    InvalidMessageId,
    Message,
    MessageId,
    Position,
    PositionLost,
    Record,
    TopicNotFound,
    after,
    at_time,
    before,
    last,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

ANSWERS = 200  # answers that are compared: high may go back only for a moment


@case("WM-01")
def test_empty(bench: Bench) -> None:
    """An empty topic has ``low == high`` and no bounds, and so differs from one with a message."""
    topic = bench.topic()
    marks, bounds = bench.marks(topic), bench.bounds(topic)
    bench.equal(marks.low, marks.high)
    bench.equal((bounds.first_id, bounds.last_id), (None, None))
    bench.fill(topic, 1)
    marks = bench.marks(topic)
    bench.that(marks.low < marks.high, "one message lies between low and high")
    bench.that(bench.bounds(topic) != bounds, "the bounds of one message are not those of none")


@case("WM-02")
def test_one_message(bench: Bench) -> None:
    """With one message both bounds are its id; ``low`` lies right before it and ``high`` right after it."""
    topic, ids = bench.filled(1)
    marks, bounds = bench.marks(topic), bench.bounds(topic)
    bench.equal((bounds.first_id, bounds.last_id), (ids[0], ids[0]))
    bench.stands(marks.low, ids, 0)
    bench.stands(marks.high, ids, 1)


@case("WM-04")
def test_low_is_low(bench: Bench) -> None:
    """``low`` lies before every retained message, and reading from it delivers them all."""
    topic, ids = bench.filled(10)
    low = bench.marks(topic).low
    bench.stands(low, ids, 0)
    bench.delivers(bench.reader(topic, low), ids)


@case("WM-06")
def test_high_is_high(bench: Bench) -> None:
    """``high`` is the position after the last message: a read up to it ends with that message."""
    topic, ids = bench.filled(10)
    high = bench.marks(topic).high
    bench.stands(high, ids, len(ids))
    more = bench.fill(topic, 3, begin=10)
    bench.equal([message.id for message in bench.read(topic, until=high)], ids)
    bench.delivers(bench.reader(topic, high), more)


@case("WM-07")
def test_last_bound(bench: Bench) -> None:
    """The last bound is the id that the last send returned."""
    topic = bench.topic()
    for count in (1, 3, 1):
        sent = bench.fill(topic, count)
        bench.equal(bench.bounds(topic).last_id, sent[-1])


@case("WM-08")
def test_asking_moves_nothing(bench: Bench) -> None:
    """Watermarks, bounds and lag need no group, and move no consumer and no stored position."""
    topic, ids = bench.filled(8)
    bench.marks(topic)
    reader = bench.reader(topic)
    bench.sips(reader, ids[:3])
    position = reader.position()
    bench.marks(topic)
    bench.bounds(topic)
    bench.equal(reader.position(), position)
    bench.delivers(reader, ids[3:5])
    if bench.client.capabilities.durable_groups:
        _asking_moves_no_group(bench)


def _asking_moves_no_group(bench: Bench) -> None:
    topic, ids = bench.filled(6)
    group = bench.name()
    member = bench.member(topic, group)
    bench.sips(member, ids[:2])
    member.ack(ids[0])
    member.commit()
    stored = member.committed()
    for _ in range(3):
        bench.client.watermarks(topic)
        bench.client.bounds(topic)
        bench.client.lag(topic, group=group)
    bench.equal(member.committed(), stored)
    bench.delivers(member, ids[2:])


@case("WM-09")
def test_never_backward(bench: Bench) -> None:
    """While messages are sent, ``low`` and ``high`` never go back, and ``high`` ends after the last message."""
    topic = bench.topic()
    ids = bench.fill(topic, 1)
    enough = Event()

    def send() -> None:
        while not enough.is_set():
            ids.extend(bench.fill(topic, 5))
            time.sleep(0)  # within one process, the other thread has its turn

    seen = [bench.marks(topic)]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        while len(seen) < ANSWERS and not sending.done():
            seen.append(bench.marks(topic))
            time.sleep(0)
        enough.set()
        sending.result()
    seen.append(bench.marks(topic))
    for name in ("low", "high"):
        marks = [getattr(each, name) for each in seen]
        bench.equal([(one, other) for one, other in pairwise(marks) if other < one], [], name)
    bench.that(len(set(seen)) > 2, "messages were stored between the answers")
    bench.stands(seen[-1].high, ids, len(ids))


@case("WM-10")
def test_bounded_read(bench: Bench) -> None:
    """A read from ``low`` to ``high``, as they were, ends with exactly the messages that were there."""
    topic, ids = bench.filled(20)
    marks = bench.marks(topic)
    bench.fill(topic, 5, begin=20)
    found = bench.read(topic, start=marks.low, until=marks.high)
    bench.equal([message.id for message in found], ids)


@case("WM-11", needs=("durable_groups",))
def test_lag(bench: Bench) -> None:
    """The lag of a group is 0 if and only if no message is left for it."""
    topic, ids = bench.filled(6)
    group = bench.name()
    member = bench.member(topic, group)
    taken = bench.delivers(member, ids)
    member.ack_through(taken[2])
    member.commit()
    bench.that(bench.client.lag(topic, group=group)[0] > 0, "three messages are left")
    member.ack_through(taken[-1])
    member.commit()
    bench.equal(bench.client.lag(topic, group=group), {0: 0})
    high = bench.marks(topic).high
    bench.equal(bench.read(topic, start=high, until=high), [])
    bench.fill(topic, 1)
    bench.that(bench.client.lag(topic, group=group)[0] > 0, "one message came")
    if bench.client.capabilities.partitions and bench.client.capabilities.count_exact:
        _lag_of_each(bench)


def _lag_of_each(bench: Bench) -> None:
    topic, group = bench.topic(partitions=2), bench.name()
    ids = [bench.fill(topic, 4, partition=partition) for partition in range(2)]
    for message_id, left in ((ids[0][0], {0: 3, 1: 4}), (ids[1][2], {0: 3, 1: 1})):
        bench.client.reset_group(group, topic, after(message_id))
        bench.equal(bench.client.lag(topic, group=group), left)


@case("WM-12", needs=("partitions",))
def test_each_partition(bench: Bench) -> None:
    """Each partition has its own watermarks and bounds, the same for a query about one topic and about many."""
    topic, other = bench.topic(partitions=3), bench.topic()
    ids = {number: bench.fill(topic, number, partition=number) if number else [] for number in range(3)}
    alone = bench.client.watermarks(topic)
    bench.equal(bench.client.watermarks([topic, other])[topic], alone)
    bench.equal(list(alone), [0, 1, 2])
    bench.equal(bench.reader(topic).watermarks(), alone, "a consumer's answer is the same")
    if all(each.exact for each in alone.values()):
        bench.equal(sum(each.count for each in alone.values()), len(bench.read(topic)))
    for number, sent in ids.items():
        bounds = bench.bounds(topic, number)
        bench.equal((bounds.first_id, bounds.last_id), (sent[0], sent[-1]) if sent else (None, None))
        bench.equal(alone[number].low == alone[number].high, not sent)
        bench.stands(alone[number].high, sent, len(sent))


@case("WM-13")
def test_missing_topic(bench: Bench) -> None:
    """The watermarks, bounds and lag of a missing topic raise ``TopicNotFound``, and are never 0."""
    missing = bench.name()
    with bench.raises(TopicNotFound):
        bench.client.watermarks(missing)
    with bench.raises(TopicNotFound):
        bench.client.bounds(missing)
    if bench.client.capabilities.groups:
        with bench.raises(TopicNotFound):
            bench.client.lag(missing, group=bench.name())


@case("WM-14", level="should", timed=True)
def test_many_topics(bench: Bench) -> None:
    """The watermarks of many topics at once cost less than a round trip for each."""
    topics = [bench.topic() for _ in range(30)]
    for topic in topics:
        bench.fill(topic, 1)
    began = time.perf_counter()
    singly = {topic: bench.client.watermarks(topic) for topic in topics}
    middle = time.perf_counter()
    together = bench.client.watermarks(topics)
    ended = time.perf_counter()
    bench.equal(together, singly)
    bench.that(ended - middle < max(0.7 * (middle - began), 0.03), "one query is quicker than one for each topic")


@case("WM-15", needs=("time_index", "seek_time"))
def test_by_time(bench: Bench) -> None:
    """A start at a time, and a seek to that time, lead to the same position."""
    topic, _ = bench.filled(4)
    reader = bench.reader(topic)
    for message in bench.take(reader, 4):
        moment = at_time(message.log_time)
        mover = bench.reader(topic)
        mover.seek(moment)
        bench.equal(bench.reader(topic, moment).position(), mover.position())


@case("WM-17", hooks=("restart",), profile="full")
def test_after_a_restart(bench: Bench) -> None:
    """After a restart watermarks and bounds are the same."""
    topic, ids = bench.filled(6)
    marks, bounds = bench.marks(topic), bench.bounds(topic)
    bench.restart()
    again = bench.marks(topic)
    bench.stands(again.low, ids, 0)
    bench.stands(again.high, ids, len(ids))
    bench.equal(again.low, marks.low)
    bench.equal(bench.bounds(topic), bounds)


@case("WM-18")
def test_count(bench: Bench) -> None:
    """``exact`` says whether ``count`` is exact; an exact count is the number of messages."""
    topic, ids = bench.filled(7)
    marks = bench.marks(topic)
    bench.that(marks.exact or not bench.client.capabilities.count_exact, "count_exact is declared")
    bench.that(marks.count >= 0, "the count is not negative")
    if marks.exact:
        bench.equal(marks.count, len(ids))
        if bench.client.capabilities.trim:
            bench.client.trim(topic, {0: Position(ids[3].log, ids[3].coordinates)})
            marks = bench.marks(topic)
            bench.equal(marks.count, sum(marks.low.precedes(each) for each in ids))


@case("WM-23", needs=("durable_groups",))
def test_count_behind_a_position(bench: Bench) -> None:
    """If ``count`` is exact, so is the lag of a group, at every position; it is 0 only if no message is left."""
    topic, group = bench.topic(), bench.name()
    ids = [each for count in (3, 1, 7, 2) for each in bench.fill(topic, count)]
    exact = bench.marks(topic).exact
    for behind in range(len(ids) + 1):
        start = after(ids[behind - 1]) if behind else before(ids[0])
        bench.client.reset_group(group, topic, start)
        lag, left = bench.client.lag(topic, group=group)[0], len(ids) - behind
        bench.that(lag == left if exact else lag or not left, f"a lag of {lag}, and {left} are left after {start!r}")


@case("WM-21")
def test_values_that_are_nothing(bench: Bench) -> None:
    """Messages with an empty value, and tombstones, count: in bounds, ``last(n)``, reads, and searches by time."""
    for nothing in (b"", None) if bench.client.capabilities.null_payload else (b"",):
        for values in ([nothing], [nothing, b"x"], [b"x", nothing], [b"x", nothing, b"x", nothing, nothing]):
            topic = bench.topic()
            ids = list(bench.filler(topic).send_many([Record(value, partition=0) for value in values]))
            bounds = bench.bounds(topic)
            bench.equal((bounds.first_id, bounds.last_id), (ids[0], ids[-1]), f"the bounds of {values}")
            messages = bench.read(topic)
            bench.equal([(message.id, message.value) for message in messages], list(zip(ids, values, strict=True)))
            for count in range(1, len(ids) + 1):
                bench.equal([each.id for each in bench.read(topic, start=last(count))], ids[-count:], f"last({count})")
            _found_by_time(bench, topic, messages)


def _found_by_time(bench: Bench, topic: str, messages: list[Message]) -> None:
    if not bench.client.capabilities.seek_time:
        return
    reader = bench.reader(topic)
    for message in messages:
        first = next(each for each in messages if each.log_time >= message.log_time)
        reader.seek(at_time(message.log_time))
        bench.delivers(reader, [first.id], "the first message of its time")


@case("WM-16", needs=("transactions",))
def test_behind_transactions(bench: Bench) -> None:
    """Coordinates that transactions leave between or after messages are skipped: a read to the end ends there."""
    topic, name = bench.topic(), bench.name()
    kept = [bench.fill(topic, 1)[0]]
    for number in range(3):
        with bench.client.transaction(name, topic) as step:
            handle = step.send(b"%d" % number)
            if number == 1:
                step.abort()
        kept += [] if number == 1 else [handle.result()]
    step = bench.client.transaction(name, topic)
    step.send(b"lost")
    step.abort()
    bench.equal([message.id for message in bench.read(topic)], kept)
    bounds = bench.bounds(topic)
    bench.equal((bounds.first_id, bounds.last_id), (kept[0], kept[-1]))
    bench.equal([message.id for message in bench.read(topic, start=last(1))], kept[-1:])
    bench.that(bench.marks(topic).count >= len(kept), "the count has all messages")
    bench.only_new(bench.reader(topic, LATEST), topic)


@case("WM-03", hooks=("trim_before",))
def test_all_trimmed(bench: Bench) -> None:
    """A topic whose messages were all trimmed differs from a new one: its watermarks and ids continue upward."""
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
    bench.that(later[0] > ids[-1], "the next id is higher than all earlier ones")


@case("WM-05", hooks=("trim_before",))
def test_low_follows_trim(bench: Bench) -> None:
    """After a trim, ``low`` and the first bound are at the first retained message."""
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
    bench.stands(bench.marks(topic, 0).low, ids[0], 0, "the other partition is unchanged")
    bench.delivers(bench.reader(topic, EARLIEST, partitions=[0]), [*ids[0], kept[0]])


@case("WM-19", hooks=("trim_before",))
def test_overtaken(bench: Bench) -> None:
    """A reader that retention overtakes gets ``PositionLost`` from every receive, until it seeks."""
    topic = bench.topic()
    ids = list[MessageId]()
    ids += bench.filler(topic).send_many([Record(bytes(16_000), partition=0) for _ in range(200)])
    reader = bench.reader(topic, before(ids[0]), prefetch_bytes=32_000)
    bench.equal(reader.receive_many(1, bench.patience).ids, ids[:1])  # only one is requested
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
    """Return the ids that come before ``PositionLost``, or up to the last message."""
    delivered: list[MessageId] = []
    with suppress(PositionLost):
        while last not in delivered:
            delivered.append(bench.take(reader, 1)[0].id)
    return delivered


@case("WM-20", needs=("delete_topic",))
def test_deleted_topic(bench: Bench) -> None:
    """A new topic of the same name refuses the ids and positions of a deleted topic."""
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
    """A trim does not move ``high``; the lag of a group before ``low`` is the number of messages left for it."""
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
    """``low`` lies right after the last removed message; a seek there loses nothing, if the backend knows that."""
    topic, ids = bench.dripped(4)
    bench.roll(topic)
    left = bench.fill(topic, 4, begin=4)
    reader = bench.reader(topic, after(ids[-1]))
    start = reader.position()[0]
    bench.delivers(reader, left)
    bench.trim(topic, start)
    low = bench.marks(topic).low
    if bench.client.capabilities.trim:
        bench.that(
            start <= low <= Position(left[0].log, left[0].coordinates), f"{low!r} is right after the removed messages"
        )
    for place in (after(ids[-1]), low):
        try:
            reader.seek(place)
        except PositionLost:
            bench.that(low > start, f"{low!r} is further on than {start!r}")
            reader.seek(EARLIEST)
        bench.delivers(reader, left)
    with bench.raises(PositionLost):
        reader.seek(ids[-2], inclusive=False)
