"""CON: receiving, and consumers that pause, or that leave no group."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Queue
from threading import Event, Thread
from typing import Any

from mqplug import EARLIEST, LATEST, Closed, Consumer, Message, MessageId, NotAssigned, Record, after, before
from mqplug_testing._case_tools.bench import Bench, as_lone_member
from mqplug_testing._case_tools.extensions import Interrupts
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("CON-01")
def test_from_earliest(bench: Bench) -> None:
    """A consumer that starts at EARLIEST gets all retained messages."""
    topic, ids = bench.filled(10)
    bench.delivers(bench.reader(topic, EARLIEST), ids)
    if bench.client.capabilities.groups:
        bench.delivers(bench.member(topic, bench.name()), ids, "a new group starts there by default")


@case("CON-02")
def test_from_latest(bench: Bench) -> None:
    """A consumer that starts at LATEST gets every message sent after it was opened, and nothing older."""
    topic, _ = bench.filled(5)
    reader = bench.reader(topic, LATEST)
    bench.delivers(reader, bench.fill(topic, 3))
    if bench.client.capabilities.groups:
        member = bench.member(topic, bench.name(), start=LATEST)
        bench.delivers(member, bench.fill(topic, 3))


@case("CON-03")
def test_from_latest_on_empty(bench: Bench) -> None:
    """A consumer that starts at LATEST on an empty topic gets the first message."""
    topic = bench.topic()
    reader = bench.reader(topic, LATEST)
    bench.only_new(reader, topic)
    if bench.client.capabilities.groups:
        topic = bench.topic()
        member = bench.member(topic, bench.name(), start=LATEST)
        bench.only_new(member, topic)


@case("CON-04")
def test_from_an_id(bench: Bench) -> None:
    """A consumer starts with the message of an id, or with the next one."""
    topic, ids = bench.filled(8)
    for index in (0, 3, 7):
        bench.delivers(bench.reader(topic, before(ids[index])), ids[index:], f"before {index}")
    for index in (0, 3):
        bench.delivers(bench.reader(topic, after(ids[index])), ids[index + 1 :], f"after {index}")
    reader = bench.reader(topic, after(ids[7]))
    bench.only_new(reader, topic)


@case("CON-05", timed=True)
def test_idle(bench: Bench) -> None:
    """When no message comes, ``receive`` returns None and ``receive_many`` an empty batch, after the given time."""
    topic = bench.topic()
    reader = bench.reader(topic)
    for timeout in (0.0, bench.sized(quick=200, full=500) / 1000):
        began = time.monotonic()
        bench.equal(reader.receive(timeout), None)
        middle = time.monotonic()
        bench.equal(list(reader.receive_many(10, timeout)), [])
        for spent in (middle - began, time.monotonic() - middle):
            bench.that(timeout - 0.05 <= spent < timeout + 2 * bench.scale, f"{timeout} s took {spent:.2f} s")
    bench.only_new(reader, topic)


@case("CON-06", timed=True)
def test_prompt(bench: Bench) -> None:
    """A waiting receive gets a message as soon as it is stored, not at the end of a slice of polling."""
    topic = bench.topic()
    reader, producer = bench.reader(topic, LATEST), bench.filler(topic)
    with ThreadPoolExecutor(1) as other:
        delays = []
        for _ in range(bench.sized(quick=5, full=8)):
            waiting = other.submit(_receive_at, reader, bench.patience)
            time.sleep(0.13)  # into the second slice of a tenth of a second, long before its end
            sent = producer.send(b"now", partition=0)
            stored = time.perf_counter()
            message, arrived = waiting.result()
            bench.equal(message and message.id, sent)
            delays.append(arrived - stored)
    bench.that(sorted(delays)[2] < 0.04 * bench.scale, f"delays in seconds: {sorted(delays)}")


def _receive_at(reader: Consumer, timeout: float) -> tuple[Message | None, float]:
    return reader.receive(timeout), time.perf_counter()


@case("CON-07")
def test_batches(bench: Bench) -> None:
    """``receive_many`` returns at least one message if any exists, never more than requested, and skips none."""
    topic, ids = bench.filled(50)
    reader = bench.reader(topic)
    got: list[MessageId] = []
    while len(got) < len(ids):
        batch = reader.receive_many(7, bench.patience)
        bench.that(1 <= len(batch) <= 7, f"a batch of {len(batch)}")
        got += batch.ids
    bench.equal(got, ids)
    for wrong in (0, -1):
        with bench.raises(ValueError):
            reader.receive_many(wrong, 0)


@case("CON-08")
def test_fields(bench: Bench) -> None:
    """A message has its id, topic, partition, value, key, headers and times, each as it was sent."""
    topic, able = bench.topic(), bench.client.capabilities
    key = b"customer" if able.keys else None
    headers = (("kind", b"order"), ("trace", b"\x00\xff")) if able.headers else ()
    sent = bench.filler(topic).send(b"value", key=key, headers=headers, partition=0)
    message = bench.take(bench.reader(topic), 1)[0]
    bench.equal((message.id, message.topic, message.partition), (sent, sent.log.topic, 0))
    bench.equal((message.value, message.key, message.headers), (b"value", key, headers))
    bench.equal(message.attempt, 1)
    for moment in (message.timestamp, message.log_time):
        bench.that(abs(moment.timestamp() - time.time()) < 3600, f"{moment} is about now")


@case("CON-09")
def test_not_shared(bench: Bench) -> None:
    """Two deliveries of a message are equal, and neither can be changed."""
    topic, ids = bench.filled(2)
    one, other = (bench.take(bench.reader(topic), 2) for _ in range(2))
    bench.equal(one, other)
    for field in ("value", "key", "headers", "id", "anything"):
        with bench.raises(AttributeError):
            setattr(one[0], field, b"changed")
    bench.equal([message.id for message in other], ids)
    bench.equal([message.value for message in other], [b"0", b"1"])


@case("CON-10", profile="full")
def test_small_prefetch(bench: Bench) -> None:
    """With a small prefetch and a slow consumer every message comes, in order."""
    topic = bench.topic()
    ids = bench.filler(topic).send_many([Record(bytes(2_000), partition=0) for _ in range(300)])
    reader = bench.reader(topic, prefetch_bytes=10_000)
    got = []
    for index in range(300):
        got += [message.id for message in bench.take(reader, 1)]
        if index % 100 == 0:
            time.sleep(bench.waiting.nothing)  # time to fetch ahead, beyond the limit if it has none
    bench.equal(got, ids)


@case("CON-11", needs=("durable_groups",))
def test_group_without_members(bench: Bench) -> None:
    """Messages sent while a group has no member are delivered to its next member."""
    topic, ids = bench.filled(3)
    group = bench.name()
    member = bench.member(topic, group)
    for message in bench.delivers(member, ids):
        member.ack(message)
    member.close()
    later = bench.fill(topic, 5)
    bench.delivers(bench.member(topic, group, start=LATEST), later)


@case("CON-12")
def test_slow_neighbour(bench: Bench) -> None:
    """A consumer that does not receive delays no other."""
    topic, ids = bench.filled(100)
    slow, fast = bench.reader(topic, prefetch_bytes=10_000), bench.reader(topic)
    bench.delivers(slow, ids[:1])
    bench.delivers(fast, ids)
    bench.delivers(fast, bench.fill(topic, 10))
    bench.delivers(slow, ids[1:])


@case("CON-13")
def test_iteration_ends(bench: Bench) -> None:
    """Iteration ends after the current message at ``stop``, and at ``close``; a later receive raises ``Closed``."""
    topic, ids = bench.filled(6)
    reader, seen = bench.reader(topic), []
    for message in reader:
        seen.append(message.id)
        if len(seen) == 3:
            reader.stop()
    bench.equal(seen, ids[:3])
    bench.equal(reader.receive(bench.patience), None)
    reader.close()
    bench.equal(list(reader), [])
    with bench.raises(Closed):
        reader.receive(0)
    _closed_while_iterating(bench, topic)


def _closed_while_iterating(bench: Bench, topic: str) -> None:
    waiting = bench.reader(topic, LATEST)
    begun, ended = Event(), Event()

    def iterate() -> None:
        begun.set()
        for _ in waiting:
            pass
        ended.set()

    Thread(target=iterate, daemon=True).start()
    begun.wait()
    time.sleep(bench.waiting.nothing)  # until it waits
    waiting.close()
    bench.that(ended.wait(bench.patience), "the iteration of another thread ended")


@case("CON-15", needs=("multi_process",), hooks=("second_process",))
def test_from_another_process(bench: Bench) -> None:
    """A consumer that waits at the end gets the messages that another process sends."""
    topic = bench.topic()
    reader = bench.reader(topic, LATEST)
    with (
        ThreadPoolExecutor(1) as pool,
        ChildProcess(SENDS_ONE, str(bench.harness.second_process), topic) as child,
        reader,
    ):
        waiting = pool.submit(reader.receive, 2 * bench.patience)
        child.wait_for(1, 2 * bench.patience)
        message = waiting.result()
    bench.that(message, "it came")
    bench.equal([message and message.id], [MessageId.parse(child.lines[0])])


SENDS_ONE = """
import sys, time, mqplug
url, topic = sys.argv[1:]
with mqplug.connect(url) as client, client.producer(topic) as producer:
    print(producer.send(b"from elsewhere", partition=0))
    time.sleep(600)
"""


@case("CON-19", timed=True)
def test_polling(bench: Bench) -> None:
    """A receive with no time to wait returns at once: the quickest of twenty takes less than 50 milliseconds."""
    topic, ids = bench.filled(1)
    consumers = [bench.reader(topic), bench.reader(bench.topic())]
    if bench.client.capabilities.groups:
        consumers.append(bench.member(topic, bench.name()))
    for consumer in consumers[::2]:
        bench.delivers(consumer, ids)
    for consumer in consumers:
        bench.that(min(_seconds(consumer) for _ in range(20)) < 0.05, "a receive(0) took 50 ms")


def _seconds(consumer: Consumer) -> float:
    began = time.perf_counter()
    consumer.receive(0)
    return time.perf_counter() - began


WAKE_UPS = 460  # if one in fifty is lost, three are found with 99.5 percent probability
LATE = 0.06  # seconds; a consumer that is not woken polls again after 0.1


@case("CON-20", timed=True, timeout=300, profile="full")
def test_woken_each_time(bench: Bench) -> None:
    """Each of 460 messages, not only most of them, wakes a waiting consumer."""
    late = _late_messages(bench)
    if late >= 3:  # a busy machine is late too, now and then
        late = _late_messages(bench)
    bench.that(late < 3, f"{late} of {WAKE_UPS} messages came late, for the second time")


def _late_messages(bench: Bench) -> int:
    """Return how many messages came late while the machine was on time."""
    topic, came = bench.topic(), Queue[None]()
    reader, late = bench.reader(topic, LATEST), 0
    with ThreadPoolExecutor(2) as others:
        for _ in range(WAKE_UPS):
            waiting = others.submit(_receive_at, reader, bench.patience)
            beside = others.submit(_get_at, came)  # shows how late the machine makes any thread
            time.sleep(0.002)
            sent = bench.filler(topic).send(b"now", partition=0)
            stored = time.perf_counter()
            came.put(None)
            message, arrived = waiting.result()
            bench.equal(message and message.id, sent)
            late += arrived - stored > LATE * bench.scale and beside.result() - stored < LATE * bench.scale / 3
    return late


def _get_at(queue: Queue[None]) -> float:
    queue.get()
    return time.perf_counter()


@case("CON-23", hooks=("extended",))
def test_interrupted(bench: Bench) -> None:
    """Ctrl-C loses no polled messages: they come afterwards, once and in order, and earlier ones can still be acked."""
    readers: list[dict[str, Any]] = [{"start": EARLIEST}]
    if bench.client.capabilities.ordered:
        readers.append({"group": bench.name()})
    for options in readers:
        for late in (False, True):
            interrupts, (topic, ids) = Interrupts(late=late), bench.filled(2)
            assert bench.harness.extended is not None
            consumer = bench.connect(partial(bench.harness.extended, [interrupts])).consumer(topic, **options)
            first = bench.delivers(consumer, ids)[0]
            interrupts.armed = True
            ids = bench.fill(topic, 3)
            with bench.raises(KeyboardInterrupt):
                consumer.receive(bench.patience)
            bench.delivers(consumer, ids)
            if "group" in options:
                consumer.ack(first)
                bench.equal(consumer.late_acks, 0)


@case("CON-14", needs=("groups", "durable_groups"))
def test_no_trace(bench: Bench) -> None:
    """A consumer without a group leaves no group, open or closed; a member's group is listed."""
    topic, ids = bench.filled(3)
    reader = bench.reader(topic)
    bench.delivers(reader, ids)
    reader.seek(ids[1])
    bench.read(topic)
    bench.equal(bench.client.groups(topic), [])
    reader.close()
    bench.equal(bench.client.groups(topic), [])
    group = bench.name()
    member = bench.member(topic, group, start=LATEST)
    bench.only_new(member, topic)
    bench.equal([each.name for each in bench.client.groups(topic)], [group])


@case("CON-16", needs=("pause_resume", "partitions"))
def test_pause(bench: Bench) -> None:
    """A paused partition delivers nothing while the others continue, and later resumes where it was."""
    able = bench.client.capabilities
    if members := able.groups and able.ordered:
        as_lone_member(bench, _pause, partitions=2)
    if not members or bench.has_time_for("a consumer without a group"):
        topic = bench.topic(partitions=2)
        _pause(bench, topic, bench.reader(topic))


def _pause(bench: Bench, topic: str, consumer: Consumer) -> None:
    ids = bench.fill(topic, 6, partition=0)
    bench.delivers(consumer, ids[:2])
    consumer.pause(0)
    ids += bench.fill(topic, 2, partition=0)
    others = bench.fill(topic, 3, partition=1)
    bench.delivers(consumer, others, "the other partition continues")
    bench.rests(consumer)
    bench.equal([each.waits_for for each in consumer.state() if each.log.partition == 0], ["paused"])
    consumer.seek(ids[1])
    bench.rests(consumer)
    consumer.resume(0)
    bench.delivers(consumer, ids[1:])
    consumer.pause()
    bench.rests(consumer)
    consumer.resume()
    bench.only_new(consumer, topic, partition=1)
    with bench.raises(NotAssigned):
        consumer.pause(7)
