"""TOP: topics, and how their settings are altered."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final

from mqplug import (
    EARLIEST,
    LATEST,
    Client,
    ConfigError,
    Consumer,
    Error,
    InvalidMessageId,
    InvalidName,
    Position,
    Record,
    TopicExists,
    TopicInfo,
    TopicNotFound,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import MIB, resident_bytes
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("TOP-01")
def test_create(bench: Bench) -> None:
    """A created topic exists, for this client and for others."""
    name = bench.name()
    with bench.raises(TopicNotFound):
        bench.client.partitions(name)
    topic = bench.topic()
    bench.equal(len(bench.client.partitions(topic)), 1)
    bench.equal(bench.connect().partitions(topic), bench.client.partitions(topic))


@case("TOP-02")
def test_create_twice(bench: Bench) -> None:
    """Creating an existing topic raises ``TopicExists``; ``exist_ok`` accepts it, unless its settings differ."""
    topic, ids = bench.filled(1)
    with bench.raises(TopicExists):
        bench.client.create_topic(topic)
    bench.client.create_topic(topic, exist_ok=True)
    if bench.client.capabilities.partitions:
        with bench.raises(TopicExists):
            bench.client.create_topic(topic, partitions=3, exist_ok=True)
    if bench.client.capabilities.retention:
        kept = bench.owned(bench.name())
        bench.client.create_topic(kept, retention=3600)
        bench.client.create_topic(kept, retention=3600, exist_ok=True)
        if bench.client.describe(kept).retention is not None:
            with bench.raises(TopicExists):
                bench.client.create_topic(kept, retention=7200, exist_ok=True)
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("TOP-03", needs=("delete_topic",))
def test_delete(bench: Bench) -> None:
    """A deleted topic is gone with its messages."""
    topic, _ = bench.filled(3)
    bench.client.delete_topic(topic)
    bench.wait(lambda: _is_missing(bench, topic), "a deleted topic raises TopicNotFound")
    with bench.raises(TopicNotFound):
        bench.client.watermarks(topic)
    with bench.raises(TopicNotFound):
        bench.client.delete_topic(topic)


def _is_missing(bench: Bench, topic: str) -> bool:
    try:
        bench.client.partitions(topic)
    except TopicNotFound:
        return True
    return False


@case("TOP-04", needs=("delete_topic",))
def test_delete_and_create(bench: Bench) -> None:
    """A recreated topic begins empty, has none of the old ids, and accepts none of them."""
    topic, old = bench.filled(3)
    bench.make_again(topic)
    bench.equal(bench.read(topic), [])
    new = bench.fill(topic, 3)
    bench.equal([message.id for message in bench.read(topic)], new)
    bench.equal(set(old) & set(new), set())
    _, foreign = bench.filled(1)
    wrong = [*(old if old[0].log.incarnation else ()), *foreign]  # without incarnations old ids lie below low
    if bench.client.capabilities.groups:
        member = bench.member(topic, bench.name())
        bench.delivers(member, new)
        for bad in wrong:
            with bench.raises(InvalidMessageId):
                member.ack(bad)
    if bench.client.capabilities.trim:
        for bad in wrong:
            with bench.raises(InvalidMessageId):
                bench.client.trim(topic, {0: Position(bad.log, bad.coordinates)})
    bench.equal([message.id for message in bench.read(topic)], new)


@case("TOP-05", needs=("list_topics",))
def test_listing(bench: Bench) -> None:
    """The list of topics is sorted, has each topic once, and omits the backend's own."""
    topics = [bench.topic() for _ in range(3)]
    found = bench.client.topics()
    bench.equal([topic for topic in found if topic in topics], sorted(topics))
    bench.equal(found, sorted(set(found)))
    bench.equal([topic for topic in found if topic.startswith("__")], [])


@case("TOP-06")
def test_missing(bench: Bench) -> None:
    """Every call about a missing topic raises ``TopicNotFound``, and creates none; ``create=True`` creates it."""
    name = bench.name()
    for call in uses(bench, name):
        with bench.raises(TopicNotFound) as caught:
            call()
        bench.that(name in str(caught.value), "the error names the topic")
    if bench.client.capabilities.list_topics:
        bench.that(name not in bench.client.topics(), "the calls created no topic")
    sent = bench.client.producer(bench.owned(name), create=True).send(b"x", partition=0)
    bench.delivers(bench.client.consumer(name, start=EARLIEST, create=True), [sent])


def uses(bench: Bench, name: str) -> list[Callable[[], object]]:
    """Return all calls about a topic."""
    client, able, group = bench.client, bench.client.capabilities, bench.name()
    roaming = client.producer()
    calls: list[Callable[[], object]] = [
        lambda: client.partitions(name), lambda: client.watermarks(name), lambda: client.watermarks([name]),
        lambda: client.bounds(name), lambda: client.read(name), lambda: client.producer(name),
        lambda: client.resolve(name, LATEST), lambda: client.resolve([name], EARLIEST),
        lambda: client.consumer(name, start=EARLIEST), lambda: client.consumer([name], start=LATEST),
        lambda: roaming.send(b"x", topic=name), lambda: roaming.submit(b"x", topic=name),
    ]  # fmt: skip
    if able.groups:
        calls += [lambda: client.consumer(name, group=group), lambda: client.lag(name, group=group)]
    if able.delete_topic:
        calls.append(lambda: client.delete_topic(name))
    if able.trim:
        calls.append(lambda: client.trim(name, {}))
    return calls


@case("TOP-07")
def test_odd_names(bench: Bench) -> None:
    """Every legal name is a topic of its own: dots, dashes, digits, upper and lower case, full length."""
    stem = bench.name()
    names = [f"{stem}.a-b_c", f"{stem}.A-B_C", f"0.{stem}", f"{stem}-", f"{stem}..", f"{stem}-partition"]
    names.append((stem + "x" * 249)[: min(249, bench.client.capabilities.topic_name_max)])
    ids = {}
    for name in names:
        bench.client.create_topic(bench.owned(name))
        ids[name] = bench.fill(name, 1)
    for name in names:
        bench.equal([message.id for message in bench.read(name)], ids[name], name)


@case("TOP-08")
def test_illegal_names(bench: Bench) -> None:
    """A name that is not legal on every backend raises ``InvalidName``, a non-``str`` name ``TypeError``."""
    client, stem = bench.client, bench.name()
    odd = ("/", "\0", " ", "ü", ":", "\\", "\n", "\t", "-partition-0", "-partition-12", "-partition-x")
    for name in ("", ".", "..", "/", "x" * 250, *(stem + each for each in odd)):
        for create in (client.create_topic, _create_by_use(bench)):
            with bench.raises(InvalidName):
                create(name)
        with bench.raises(InvalidName, TopicNotFound):
            client.consumer(name, start=EARLIEST)
    for wrong in (None, 7, b"bytes"):
        with bench.raises(TypeError):
            client.create_topic(wrong)  # type: ignore[arg-type]
    if client.capabilities.groups:
        topic = bench.topic()
        for group in ("", "a/b", "a\0b", "x" * 250):
            with bench.raises(InvalidName):
                client.consumer(topic, group=group)


def _create_by_use(bench: Bench) -> Callable[[str], object]:
    return lambda name: bench.client.producer(name, create=True)


@case("TOP-09")
def test_isolated(bench: Bench) -> None:
    """Activity in one topic is not visible in another."""
    (one, ids), (other, others) = bench.filled(5), bench.filled(3)
    readers = bench.reader(one), bench.reader(other)
    bench.delivers(readers[0], ids)
    bench.delivers(readers[1], others)
    bench.only_new(readers[0], one)
    bench.only_new(readers[1], other)


@case("TOP-10")
def test_prefixes(bench: Bench) -> None:
    """Topics whose names begin alike are kept apart."""
    stem = bench.name()
    names = [stem, f"{stem}1", f"{stem}-1", f"{stem}.1", f"{stem}_"]
    ids = {}
    for number, name in enumerate(names):
        bench.client.create_topic(bench.owned(name))
        ids[name] = bench.fill(name, number + 1)
    for name in names:
        bench.equal([message.id for message in bench.read(name)], ids[name], name)


@case("TOP-11", needs=("partitions",))
def test_partitions(bench: Bench) -> None:
    """A topic has as many partitions as requested, numbered from 0; an invalid number is refused."""
    topic = bench.topic(partitions=12)  # sorted as text, 10 would come before 2
    bench.equal([log.partition for log in bench.client.partitions(topic)], list(range(12)))
    bench.equal([log.partition for log in bench.client.describe(topic).logs], list(range(12)))
    bench.equal(list(bench.client.watermarks(topic)), list(range(12)))
    for wrong in (0, -1):
        with bench.raises(ValueError):
            bench.client.create_topic(bench.name(), partitions=wrong)
    for odd in (True, "2", 1.5):
        with bench.raises(TypeError):
            bench.client.create_topic(bench.name(), partitions=odd)  # type: ignore[arg-type]


@case("TOP-12", needs=("add_partitions", "partitions"))
def test_add_partitions(bench: Bench) -> None:
    """Partitions can be added but never removed; the messages and ids of the old ones stay."""
    topic = bench.topic(partitions=2)
    ids = [each for number in (0, 1) for each in bench.fill(topic, 3, partition=number)]
    marks = bench.client.watermarks(topic)
    bench.client.add_partitions(topic, 4)
    bench.wait(lambda: len(bench.client.partitions(topic)) == 4, "the new partitions are there")
    bench.equal(bench.client.partitions(topic)[:2], [ids[0].log, ids[3].log])
    bench.equal({number: bench.marks(topic, number) for number in (0, 1)}, marks)
    ids += [bench.client.producer(topic).send(b"new", partition=number) for number in (3, 2, 0)]
    bench.equal({message.id for message in bench.read(topic)}, set(ids))
    for wrong in (4, 1):
        with bench.raises(ValueError):
            bench.client.add_partitions(topic, wrong)
    with bench.raises(TopicNotFound):
        bench.client.add_partitions(bench.name(), 2)


@case("TOP-13")
def test_many_at_once(bench: Bench) -> None:
    """Twenty topics filled at the same time are each complete and in order."""
    topics = [bench.topic() for _ in range(20)]
    producer = bench.client.producer()

    def fill(topic: str) -> None:
        records = [Record(b"%d" % number, partition=0, topic=topic) for number in range(100)]
        for start in range(0, 100, 25):
            producer.send_many(records[start : start + 25])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, topics))
    for topic in topics:
        bench.equal([message.value for message in bench.read(topic)], [b"%d" % number for number in range(100)])


@case("TOP-14", level="should", timeout=600)
def test_many_topics(bench: Bench) -> None:
    """Hundreds of topics are opened together, read and sent to, in bounded time and memory."""
    topics = [bench.topic() for _ in range(bench.sized(quick=20, full=100, soak=500))]
    before = resident_bytes()
    producer = bench.client.producer()
    handles = [producer.submit(topic.encode(), topic=topic, partition=0) for topic in topics]
    producer.flush(bench.patience)
    reader = bench.client.consumer(topics, start=EARLIEST, timeout=bench.patience)
    found = bench.take(reader, len(topics))
    bench.equal({message.id for message in found}, {handle.result() for handle in handles})
    bench.equal({message.topic: message.value for message in found}, {topic: topic.encode() for topic in topics})
    bench.equal(sorted(bench.client.watermarks(topics, timeout=bench.patience)), sorted(topics))
    took = resident_bytes() - before
    most = 64 * MIB + len(topics) * MIB // 4
    bench.that(took < most, f"{len(topics)} topics took {took / MIB:.0f} MiB")


@case("TOP-15", needs=("delete_topic",))
def test_deleted_under_a_consumer(bench: Bench) -> None:
    """A consumer whose topic is deleted gets an error, and does not wait forever."""
    topic, ids = bench.filled(2)
    reader = bench.reader(topic)
    bench.delivers(reader, ids)
    bench.client.delete_topic(topic)
    bench.wait(lambda: _fails(bench, reader), "receive on a deleted topic raises")


def _fails(bench: Bench, reader: Consumer) -> bool:
    try:
        reader.receive(bench.waiting.nothing)
    except Error:
        return True
    return False


NEEDS: Final = ("alter_topic", "retention")
NO_SUCH_OPTION: Final = {"no.such.option": "1"}
WRONG: Final[tuple[tuple[type[Exception], dict[str, Any]], ...]] = (
    (TypeError, {}),
    (TypeError, {"options": {}}),
    (TypeError, {"options": [1]}),
    (TypeError, {"retention": "1d"}),
    (TypeError, {"retention_bytes": 1.5}),
    (ValueError, {"retention": 7}),
    (ValueError, {"retention": timedelta(seconds=-1)}),
    (ValueError, {"retention_bytes": -1}),
    (ConfigError, {"retention": 7200, "options": NO_SUCH_OPTION}),
)


def _limits(info: TopicInfo) -> tuple[float | None, int | None]:
    return info.retention, info.retention_bytes


def _limited(bench: Bench) -> str:
    """Create a topic that keeps an hour and ten mebibytes."""
    topic = bench.owned(bench.name())
    bench.client.create_topic(topic, retention=3600, retention_bytes=10 * MIB)
    return topic


@case("TOP-22", needs=NEEDS)
def test_altered(bench: Bench) -> None:
    """Altering changes only the given settings; the answer and each ``describe`` have them, and messages stay."""
    topic, other = _limited(bench), bench.connect()
    ids = bench.fill(topic, 3)
    changes: tuple[tuple[Client, dict[str, Any], tuple[float, int]], ...] = (
        (bench.client, {"retention": 7200}, (7200, 10 * MIB)),
        (other, {"retention_bytes": 20 * MIB}, (7200, 20 * MIB)),
        (other, {"retention": timedelta(minutes=90), "retention_bytes": 5 * MIB}, (5400, 5 * MIB)),
    )
    for client, given, expected in changes:
        info = client.alter_topic(topic, **given)
        bench.equal((info.name, _limits(info)), (topic, expected))
        for each in (bench.client, other):
            bench.equal(each.describe(topic), info)
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("TOP-23", needs=NEEDS)
def test_refused(bench: Bench) -> None:
    """Giving nothing, invalid settings, and options that the backend does not know are refused, and alter nothing."""
    topic, missing = _limited(bench), bench.name()
    before = bench.client.describe(topic)
    for error, given in WRONG:
        with bench.raises(error):
            bench.client.alter_topic(topic, **given)
    bench.equal(bench.client.describe(topic), before)
    with bench.raises(ConfigError):
        bench.client.create_topic(missing, options=NO_SUCH_OPTION)
    with bench.raises(TopicNotFound):
        bench.client.alter_topic(missing, retention=7200)
    with bench.raises(TopicNotFound):
        bench.client.partitions(missing)


@case("TOP-24", needs=(*NEEDS, "persistent"), hooks=("kill", "start"), timeout=180)
def test_killed_after(bench: Bench) -> None:
    """A backend that is killed right after a topic was altered restarts with the altered settings."""
    assert bench.harness.kill is not None and bench.harness.start is not None
    topic = _limited(bench)
    info = bench.client.alter_topic(topic, retention=7200)
    bench.harness.kill()
    with bench.away():
        bench.harness.start()
    bench.equal(bench.client.describe(topic), info)


@case("TOP-25", needs=NEEDS, timeout=180)
def test_at_the_same_time(bench: Bench) -> None:
    """When clients alter a topic at the same time, all calls return, and the topic is as one of them left it."""
    topic, clients = _limited(bench), [bench.client, bench.connect()]
    for number in range(1, 4):
        wanted = [number * 3600, number * 3600 + 1800]
        with ThreadPoolExecutor(len(clients)) as pool:
            calls = [
                pool.submit(client.alter_topic, topic, retention=seconds)
                for client, seconds in zip(clients, wanted, strict=True)
            ]
            bench.equal([_limits(call.result())[1] for call in calls], [10 * MIB] * 2)
        left = {_limits(client.describe(topic)) for client in clients}
        bench.that(left in [{(seconds, 10 * MIB)} for seconds in wanted], f"one of {wanted} seconds, not {left}")
