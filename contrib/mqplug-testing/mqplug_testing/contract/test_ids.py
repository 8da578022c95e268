"""ID: message ids, their text, and their order."""

from __future__ import annotations

import pickle
import random
import re
from itertools import combinations, product

from mqplug import EARLIEST, LATEST, InvalidMessageId, Log, MessageId, Position, after, before
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

EXTREMES = (0, 1, 2**31 - 1, 2**53 + 1, 2**63 - 1, 2**64, 2**128 + 1)
GOLDEN_LOG = ("kafka", "Zx9-cluster_id", "orders.v1", 3, "kTopicUuid")
GOLDEN_ID = "m1~kafka~Zx9-cluster_id~orders.v1~3~kTopicUuid~1042.7~20~ca56dc58"
GOLDEN_POSITION = "p1~kafka~Zx9-cluster_id~orders.v1~3~kTopicUuid~1042.7~~4b601c77"


@case("ID-01")
def test_text_round_trip(bench: Bench) -> None:
    """The text of an id or position reads back as the same one, and is the same each time."""
    topic, ids = bench.filled(5)
    for each in ids:
        bench.equal(MessageId.parse(str(each)), each)
        bench.equal(MessageId.parse(str(each)).detail, each.detail)
        bench.equal(str(MessageId.parse(str(each))), str(each))
    for position in (bench.marks(topic).low, bench.marks(topic).high):
        bench.equal(Position.parse(str(position)), position)


@case("ID-02")
def test_garbage(bench: Bench) -> None:
    """Text that is not exactly an id's raises ``InvalidMessageId``: empty, truncated, extended, changed or random."""
    _, ids = bench.filled(1)
    text, chance = str(ids[0]), random.Random(7)
    noise = ["".join(map(chr, chance.choices(range(1, 0x2FF), k=chance.randint(1, 80)))) for _ in range(200)]
    cut = [text[:length] for length in range(len(text))]
    changed = [text[:index] + ("0" if text[index] != "0" else "1") + text[index + 1 :] for index in range(len(text))]
    longer = [text + "0", text + "~", " " + text, text + "\n", text * 100]
    other = [str(Position(ids[0].log, ids[0].coordinates)), "\0", "m1", "~" * 8]
    for bad in cut + changed + longer + other + noise:
        with bench.raises(InvalidMessageId):
            MessageId.parse(bad)


@case("ID-03")
def test_of_elsewhere(bench: Bench) -> None:
    """An id of another backend, topic or incarnation can be parsed, and is refused where it does not belong."""
    topic, ids = bench.filled(2)
    mine = ids[1].log
    strangers = [
        Log("elsewhere", mine.cluster, mine.topic, mine.partition, mine.incarnation),
        Log(mine.backend, mine.cluster + "x", mine.topic, mine.partition, mine.incarnation),
        Log(mine.backend, mine.cluster, mine.topic + "x", mine.partition, mine.incarnation),
    ]
    if mine.incarnation:
        strangers.append(Log(mine.backend, mine.cluster, mine.topic, mine.partition, mine.incarnation + "x"))
    reader = bench.reader(topic)
    for log in strangers:
        stranger = MessageId.parse(str(MessageId(log, ids[1].coordinates, ids[1].detail)))
        bench.that(stranger != ids[1], "an id of another log is another id")
        with bench.raises(InvalidMessageId):
            reader.seek(stranger)
    bench.delivers(reader, ids)


@case("ID-04")
def test_equality(bench: Bench) -> None:
    """Equality is reflexive, symmetric and transitive, agrees with ``hash``, and distinguishes logs."""
    _, ids = bench.filled(4)
    _, others = bench.filled(4)
    copies = [MessageId(each.log, tuple(each.coordinates), each.detail) for each in ids]
    again = [MessageId.parse(str(each)) for each in ids]
    for one, two, three in zip(ids, copies, again, strict=True):
        bench.that(one == one and one == two and two == one, "reflexive and symmetric")
        bench.that(two == three and one == three, "transitive")
        bench.equal({hash(one), hash(two)}, {hash(three)})
    bench.equal(len({*ids, *copies, *again, *others}), 8)
    for one, other in product(ids, others):
        bench.that(one != other and (one == other) is False, "ids of different logs are unequal")


@case("ID-05")
def test_total_order(bench: Bench) -> None:
    """Of two ids of one log exactly one of ``<``, ``==`` and ``>`` holds."""
    _, ids = bench.filled(12)
    for one, other in product(ids, ids):
        bench.equal([one < other, one == other, one > other].count(True), 1)
        bench.equal((one <= other, one >= other), (not one > other, not one < other))


@case("ID-06")
def test_log_order(bench: Bench) -> None:
    """The order of ids is the order of the log, for every pair, across batches and segments."""
    topic = bench.topic()
    ids = [sent for number in range(4) for sent in bench.fill(topic, 3 + number)]
    bench.roll(topic)
    ids += bench.fill(topic, 5)
    bench.equal([message.id for message in bench.read(topic)], ids)
    for one, other in combinations(ids, 2):
        bench.that(one < other and other > one, f"{one!r} lies before {other!r}")
    bench.equal(sorted(random.Random(1).sample(ids, len(ids))), ids)


@case("ID-07")
def test_no_order_across_logs(bench: Bench) -> None:
    """Ids of different logs have no order: comparing them raises ``TypeError``."""
    _, ids = bench.filled(1)
    _, others = bench.filled(1)
    pairs = [(ids[0], others[0])]
    if bench.client.capabilities.partitions:
        topic = bench.topic(partitions=2)
        pairs.append((bench.fill(topic, 1, partition=0)[0], bench.fill(topic, 1, partition=1)[0]))
    for one, other in pairs:
        for compare in (MessageId.__lt__, MessageId.__le__, MessageId.__gt__, MessageId.__ge__):
            with bench.raises(TypeError):
                compare(one, other)


@case("ID-08")
def test_sent_and_received(bench: Bench) -> None:
    """The id that ``send`` returns is the id of the message received, also when it was read back from its text."""
    topic = bench.topic()
    sent = [*bench.fill(topic, 4), bench.producer(topic).send(b"alone", partition=0)]
    received = [message.id for message in bench.read(topic)]
    bench.equal(received, sent)
    bench.equal([MessageId.parse(str(each)) for each in received], sent)
    bench.equal([hash(each) for each in received], [hash(each) for each in sent])


@case("ID-09")
def test_points_are_no_ids(bench: Bench) -> None:
    """EARLIEST, LATEST and positions are not ids, and do not compare with them; positions have their own text."""
    topic, ids = bench.filled(1)
    low = bench.marks(topic).low
    for point in (EARLIEST, LATEST, low):
        bench.that(point != ids[0], f"{point!r} is not an id")
        with bench.raises(TypeError):
            ids[0] < point  # type: ignore[operator]  # noqa: B015
        with bench.raises(TypeError):
            before(point)  # type: ignore[arg-type]
    with bench.raises(InvalidMessageId):
        MessageId.parse(str(low))
    with bench.raises(InvalidMessageId):
        Position.parse(str(ids[0]))


@case("ID-10", profile="full")
def test_never_used_again(bench: Bench) -> None:
    """An id names one message forever: neither delete, nor trim, nor restart gives it to another."""
    topic, used = bench.filled(4)
    if bench.client.capabilities.delete_topic:
        bench.make_again(topic)
        used += bench.fill(topic, 4)
    if bench.harness.has("trim_before", bench.client):
        bench.roll(topic)
        bench.trim(topic, bench.marks(topic).high)
        used += bench.fill(topic, 4)
    if bench.harness.restart is not None:
        bench.restart()
        used += bench.fill(topic, 4)
    used += bench.fill(topic, 4)
    bench.equal(len(set(used)), len(used))
    bench.equal(len({str(each) for each in used}), len(used))


@case("ID-11")
def test_golden(bench: Bench) -> None:
    """A text that an older version wrote can still be parsed, and is still the text that is written."""
    log = Log(*GOLDEN_LOG)
    message_id, position = MessageId(log, (1042, 7), (20,)), Position(log, (1042, 7))
    bench.equal((str(message_id), str(position)), (GOLDEN_ID, GOLDEN_POSITION))
    bench.equal(MessageId.parse(GOLDEN_ID), message_id)
    bench.equal(MessageId.parse(GOLDEN_ID).detail, message_id.detail)
    bench.equal(Position.parse(GOLDEN_POSITION), position)


@case("ID-13")
def test_plain_text(bench: Bench) -> None:
    """The text of an id is ASCII and fits into a URL unescaped."""
    _, ids = bench.filled(3)
    odd = Log("kafka", "Zürich/#1", "persistent://a/b?c=d&e", 0, "~. %\0\ud800")
    for each in (*ids, MessageId(odd, (1,), (2, 3))):
        bench.that(re.fullmatch(r"[A-Za-z0-9._~-]+", str(each)), f"{each} has unreserved characters only")
        bench.equal(MessageId.parse(str(each)), each)
        bench.that(MessageId.parse(str(each)).log is each.log, "nothing is lost")


@case("ID-14")
def test_immutable(bench: Bench) -> None:
    """Ids and positions cannot be changed, and can be pickled."""
    topic, ids = bench.filled(2)
    for thing in (ids[0], bench.marks(topic).high):
        for field in ("coordinates", "log", "anything"):
            with bench.raises(AttributeError):
                setattr(thing, field, None)
            with bench.raises(AttributeError):
                delattr(thing, field)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            copy = pickle.loads(pickle.dumps(thing, protocol))
            bench.equal(copy, thing)
            bench.equal((hash(copy), str(copy)), (hash(thing), str(thing)))


@case("ID-15")
def test_extremes(bench: Bench) -> None:
    """Coordinates of any size keep their value and their order, also beyond 64 bits."""
    _, ids = bench.filled(1)
    made = [MessageId(ids[0].log, each) for each in product(EXTREMES, EXTREMES)]
    bench.equal([MessageId.parse(str(each)).coordinates for each in made], [each.coordinates for each in made])
    bench.equal(sorted(made, reverse=True), made[::-1])
    for one, other in combinations(made, 2):
        bench.that(one < other and hash(one) != hash(other), f"{one!r} lies before {other!r}")


@case("ID-16")
def test_strangers(bench: Bench) -> None:
    """Comparison with anything but an id returns ``NotImplemented``, which leaves it to the other side."""
    topic, ids = bench.filled(1)
    for stranger in (None, 1, "text", ids[0].coordinates, str(ids[0]), object(), bench.marks(topic).low):
        for name in ("__eq__", "__lt__", "__le__", "__gt__", "__ge__"):
            bench.equal(getattr(ids[0], name)(stranger), NotImplemented)
        bench.that(ids[0] != stranger, "and so they are unequal")
    with bench.raises(TypeError):
        after("text")  # type: ignore[arg-type]


@case("ID-17")
def test_too_many_or_too_few(bench: Bench) -> None:
    """An id or position with a number too many or too few raises ``InvalidMessageId``, and moves nothing."""
    topic, ids = bench.filled(4)
    able, whole = bench.client.capabilities, ids[1].coordinates
    reader, group = bench.reader(topic), bench.name()
    bench.delivers(reader, ids[:2])
    for coordinates in ((*whole, 0), (*whole, whole[-1]), whole[:-1]):
        bad, position = MessageId(ids[1].log, coordinates, ids[1].detail), Position(ids[1].log, coordinates)
        for start in (before(bad), after(bad), position):
            with bench.raises(InvalidMessageId):
                reader.seek(start)
            with bench.raises(InvalidMessageId):
                bench.reader(topic, start)
            if able.durable_groups:
                with bench.raises(InvalidMessageId):
                    bench.client.reset_group(group, topic, start)
        if able.trim:
            with bench.raises(InvalidMessageId):
                bench.client.trim(topic, {0: position})
        if able.groups:
            member = bench.member(topic, bench.name())
            taken = bench.delivers(member, ids)
            with bench.raises(InvalidMessageId):
                member.ack(bad)
            member.ack(taken[0])
    bench.delivers(reader, ids[2:])
