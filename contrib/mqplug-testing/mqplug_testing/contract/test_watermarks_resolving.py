"""WM: starts that are resolved without a consumer, and positions that are moved."""

from __future__ import annotations

from collections.abc import Callable

from mqplug import (
    EARLIEST,
    LATEST,
    Error,
    InvalidMessageId,
    Log,
    MessageId,
    Position,
    PositionLost,
    Start,
    TopicNotFound,
    after,
    at_time,
    before,
    last,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

LATER_MS = 3_600_000


@case("WM-25", timeout=180)
def test_as_a_consumer_starts(bench: Bench) -> None:
    """A start is resolved to the position at which a consumer opened with it begins, in all or some partitions."""
    wide = bench.client.capabilities.partitions
    topics = [bench.topic(partitions=2 if wide else 1) for _ in range(2)]
    ids = [bench.fill(topic, 3 + 4 * number) for number, topic in enumerate(topics)]
    mine = ids[1]
    everywhere: list[Start] = [EARLIEST, LATEST, last(0), last(2), last(50)]
    for start in everywhere:
        found = {topic: bench.reader(topic, start).position() for topic in topics}
        bench.equal(bench.client.resolve(topics, start), found, f"{start!r} of both topics")
        bench.equal(bench.client.resolve(topics[1], start), found[topics[1]], f"{start!r} of one topic")
        for partition, position in found[topics[1]].items():
            answer = bench.client.resolve(topics[1], start, partitions=[partition])
            bench.equal(answer, {partition: position}, f"{start!r} of partition {partition}")
    named: list[tuple[int, Start]] = [
        (2, before(mine[2])), (3, after(mine[2])), (7, after(mine[6])), (2, _at(mine[2]))
    ]  # fmt: skip
    for index, start in named:
        answer = bench.client.resolve(topics[1], start)
        bench.equal(list(answer), [0], "a start of one partition")
        bench.stands(answer[0], mine, index, repr(start))
        bench.equal(answer[0], bench.reader(topics[1], start).position()[0], repr(start))
        bench.equal(bench.client.resolve(topics, start), {topics[0]: {}, topics[1]: answer}, repr(start))
        bench.equal(bench.client.resolve(topics[1], answer[0]), answer, "a position is resolved to itself")


def _at(message_id: MessageId) -> Position:
    return Position(message_id.log, message_id.coordinates)


@case("WM-26", needs=("seek_time",))
def test_times(bench: Bench) -> None:
    """A time is resolved to the first message at or after it; if there is none, to ``high`` before the look-up."""
    topic, ids = bench.filled(4)
    messages = bench.take(bench.reader(topic), 4)
    for message in messages:
        first = next(index for index, each in enumerate(messages) if each.log_time >= message.log_time)
        bench.stands(bench.client.resolve(topic, at_time(message.log_time))[0], ids, first)
    later = at_time(int(messages[-1].log_time.timestamp() * 1000) + LATER_MS)
    high = bench.marks(topic).high
    bench.equal(bench.client.resolve(topic, later), {0: high})
    bench.fill(topic, 1)
    bench.that(bench.client.resolve(topic, later)[0] > high, "the current high, not the earlier one")


@case("WM-27")
def test_leaves_no_trace(bench: Bench) -> None:
    """Resolving a start moves no consumer and no group, and leaves no group."""
    topic, ids = bench.filled(8)
    able = bench.client.capabilities
    reader, group = bench.reader(topic), bench.name()
    bench.sips(reader, ids[:3])
    stored = {}
    if able.durable_groups:
        bench.client.reset_group(group, topic, before(ids[2]))
        stored = bench.client.positions(topic, group=group)
    starts: list[Start] = [EARLIEST, LATEST, last(2), before(ids[5]), after(ids[1])]
    for start in [*starts, at_time(0)] if able.seek_time else starts:
        bench.client.resolve(topic, start)
    bench.stands(reader.position()[0], ids, 3)
    bench.delivers(reader, ids[3:])
    if able.durable_groups:
        bench.equal(bench.client.positions(topic, group=group), stored)
    if able.groups:
        there = [each.name for each in bench.client.groups(topic)]
        bench.equal(there, [group] if able.durable_groups else [], "the groups of the topic")


@case("WM-28", hooks=("trim_before",))
def test_trimmed_positions(bench: Bench) -> None:
    """A trimmed position raises ``PositionLost``, or is ``low`` with ``missing="next"``; one past the end is itself."""
    trimmed = bench.trimmed()
    topic, low = trimmed.topic, trimmed.low
    for gone in (before(trimmed.gone[0]), after(trimmed.gone[0]), before(trimmed.gone[-1])):
        with bench.raises(PositionLost) as caught:
            bench.client.resolve(topic, gone)
        bench.equal(getattr(caught.value, "low", None), low)
        bench.equal(bench.client.resolve(topic, gone, missing="next"), {0: low})
    bench.equal(bench.client.resolve(topic, EARLIEST), {0: low})
    bench.equal(bench.client.resolve(topic, last(len(trimmed.left))), {0: low})
    message = trimmed.left[0]
    beyond = Position(message.log, (message.coordinates[0] + 1000, *message.coordinates[1:]))
    bench.equal(bench.client.resolve(topic, beyond), {0: beyond})
    bench.equal(bench.client.resolve(topic, beyond, missing="next"), {0: beyond})


@case("WM-29", needs=("delete_topic",))
def test_strange_positions(bench: Bench) -> None:
    """An id or position of another topic, or of a deleted one, is refused; a missing topic raises ``TopicNotFound``."""
    topic, old = bench.filled(3)
    _, foreign = bench.filled(1)
    for start in (before(foreign[0]), after(foreign[0]), _at(foreign[0])):
        with bench.raises(InvalidMessageId):
            bench.client.resolve(topic, start)
    with bench.raises(ValueError):
        bench.client.resolve(topic, EARLIEST, partitions=[17])
    with bench.raises(TopicNotFound):
        bench.client.resolve(bench.name(), LATEST)
    bench.make_again(topic)
    with bench.raises(InvalidMessageId, *([] if old[0].log.incarnation else [PositionLost])):
        bench.client.resolve(topic, before(old[1]))


@case("WM-30", needs=("advance",), timeout=180)
def test_at_most_so_many(bench: Bench) -> None:
    """Between a position and the one advanced by n messages lie at most n messages, or exactly n without gaps."""
    topic = bench.topic()
    ids = [each for count in (3, 1, 5, 2) for each in bench.fill(topic, count)]
    if bench.client.capabilities.transactions:
        ids += _stored_in_steps(bench, topic)
        ids += bench.fill(topic, 2)
    marks = bench.marks(topic)
    dense = bench.client.distance(marks.low, marks.high) == len(ids)
    places = [marks.low, *(bench.client.resolve(topic, after(each))[0] for each in ids), marks.high]
    for position in places:
        bench.equal(bench.client.advance(position, 0), position)
        for count in (1, 2, 3, 7, 40):
            further = bench.client.advance(position, count)
            between = _between(ids, position, further)
            left = _between(ids, position, marks.high)
            what = f"{count} from {position!r}: {further!r}"
            bench.that(further > position, what)
            bench.that(between == min(count, left) if dense else between <= count, what)
            bench.that(bench.client.distance(position, further) >= between, what)
            bench.equal(bench.client.distance(further, position), 0, what)
    for start in places:
        for until in places:
            found, there = bench.client.distance(start, until), _between(ids, start, until)
            bench.that(found == there if dense else found >= there, f"{found} from {start!r} to {until!r}")
    _reads_as_far(bench, topic, ids)


def _stored_in_steps(bench: Bench, topic: str) -> list[MessageId]:
    """Send in three transactions, of which the second is aborted."""
    kept, name = [], bench.name()
    for number in range(3):
        with bench.client.transaction(name, topic) as step:
            sent = [step.send(b"%d" % number, partition=0) for _ in range(2)]
            if number == 1:
                step.abort()
        kept += [] if number == 1 else [each.result() for each in sent]
    return kept


def _between(ids: list[MessageId], start: Position, until: Position) -> int:
    return sum(start.precedes(each) and not until.precedes(each) for each in ids)


def _reads_as_far(bench: Bench, topic: str, ids: list[MessageId]) -> None:
    """Read in portions of three at most, each from where the last one ended, and get every message once.

    After an empty portion the next one begins at the next message, since the gaps between ids may be of any size.
    """
    position, found = bench.marks(topic).low, list[MessageId]()
    high = bench.marks(topic).high
    while position < high:
        until = min(bench.client.advance(position, 3), high)
        portion = [message.id for message in bench.read(topic, start=position, until=until)]
        bench.that(len(portion) <= 3, f"{len(portion)} messages from {position!r} to {until!r}")
        found += portion
        left = [each for each in ids if until.precedes(each)]
        position = until if portion else bench.client.resolve(topic, before(left[0]))[0] if left else high
    bench.equal(found, ids, "all portions")


@case("WM-31", needs=("advance",))
def test_beyond_the_end(bench: Bench) -> None:
    """A position can be moved beyond the end, and messages sent later lie before it."""
    topic, ids = bench.filled(3)
    high = bench.marks(topic).high
    far = bench.client.advance(high, 5)
    bench.that(far > high, f"{far!r} is beyond the end")
    bench.equal(bench.client.resolve(topic, far), {0: far})
    reader = bench.reader(topic, far)
    ids += bench.fill(topic, 5)
    bench.that(_between(ids, high, far) <= 5, "at most 5 of the later messages lie before it")
    if bench.client.distance(bench.marks(topic).low, bench.marks(topic).high) == len(ids):
        bench.equal(_between(ids, high, far), 5)
        bench.delivers(reader, bench.fill(topic, 2))
    for count in (2**31, 2**53, 2**63, 2**64):
        further = bench.client.advance(far, count)
        bench.that(further > far, f"{count} further on is {further!r}")
        bench.equal(bench.client.resolve(topic, further), {0: further}, "a possible position")


@case("WM-32", needs=("advance",))
def test_no_positions_of_this_log(bench: Bench) -> None:
    """A foreign or impossible position raises ``InvalidMessageId``; two logs have no distance; nothing moves back."""
    topic, ids = bench.filled(2)
    other, _ = bench.filled(2)
    here, there = bench.marks(topic).low, bench.marks(other).low
    elsewhere = Position(Log("elsewhere", "far", topic, 0), here.coordinates)
    cluster = Position(Log(here.log.backend, "far", topic, 0, here.log.incarnation), here.coordinates)
    impossible = Position(here.log, (*here.coordinates, 0))
    for strange in (elsewhere, cluster, impossible):
        _refused(bench, InvalidMessageId, lambda strange=strange: bench.client.advance(strange, 1))  # type: ignore[misc]
        _refused(bench, InvalidMessageId, lambda strange=strange: bench.client.distance(strange, strange))  # type: ignore[misc]
    _refused(bench, InvalidMessageId, lambda: bench.client.distance(here, impossible))
    _refused(bench, TypeError, lambda: bench.client.distance(here, there))
    _refused(bench, TypeError, lambda: bench.client.distance(here, cluster))
    _refused(bench, TypeError, lambda: bench.client.advance(ids[0], 1))  # type: ignore[arg-type]
    _refused(bench, ValueError, lambda: bench.client.advance(here, -1))
    bench.delivers(bench.reader(topic, here), ids)


def _refused(bench: Bench, kind: type[Exception], call: Callable[[], object]) -> None:
    with bench.raises(kind) as caught:
        call()
    bench.that(kind is not TypeError or not isinstance(caught.value, Error), "a plain error")
