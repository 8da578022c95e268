"""ERR: one set of errors, each of which says what to do; full and damaged disks; deleted topics."""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from typing import Any

import attrs

import mqplug
from mqplug import (
    EARLIEST,
    AuthError,
    ConfigError,
    Corrupt,
    Error,
    InvalidMessageId,
    InvalidName,
    MessageId,
    MessageTooLarge,
    NotAssigned,
    Position,
    Start,
    StorageFull,
    Timeout,
    TopicExists,
    TopicNotFound,
    Unsupported,
    before,
)
from mqplug_testing._case_tools.bench import Bench, captured_logs
from mqplug_testing._case_tools.registry import Registry

case = Registry()

CONNECTING = 10.0  # seconds
SECRET = "hunter2-and-more"


def provoked(bench: Bench) -> dict[str, tuple[type[Error], Error]]:
    """Return for each mistake the type of error that is promised, and the error that was raised."""
    topic, ids = bench.filled(2)
    _, foreign = bench.filled(1)
    client, reader, name = bench.client, bench.reader(topic), bench.name()
    large = bytes(client.capabilities.message_max_bytes + 1)
    mistakes: dict[str, tuple[type[Error], Callable[[], object]]] = {
        "an unknown setting": (ConfigError, lambda: mqplug.connect(client.backend, no_such_setting=1)),
        "a missing topic to consume": (TopicNotFound, lambda: client.consumer(name, start=EARLIEST)),
        "a missing topic to produce": (TopicNotFound, lambda: client.producer(name)),
        "a missing topic's watermarks": (TopicNotFound, lambda: client.watermarks(name)),
        "a topic that exists": (TopicExists, lambda: client.create_topic(topic)),
        "an illegal name": (InvalidName, lambda: client.create_topic("a/b")),
        "a message too large": (MessageTooLarge, lambda: bench.filler(topic).send(large)),
        "a foreign id": (InvalidMessageId, lambda: reader.seek(foreign[0])),
        "a damaged id": (InvalidMessageId, lambda: MessageId.parse(str(ids[0])[:-1])),
        "a partition not held": (NotAssigned, lambda: reader.seek(EARLIEST, partition=5)),
        "an ack without a group": (Unsupported, lambda: reader.ack(ids[0])),
    }
    found = {}
    for mistake, (kind, call) in mistakes.items():
        with bench.raises(Error) as caught:
            call()
        assert isinstance(caught.value, Error)
        found[mistake] = (kind, caught.value)
    return found


@case("ERR-01")
def test_one_vocabulary(bench: Bench) -> None:
    """Each mistake raises its own error of mqplug; an error of the backend's library is at most its cause."""
    for mistake, (kind, error) in provoked(bench).items():
        bench.that(isinstance(error, kind), f"{mistake} is {kind.__name__}, and was {error!r}")
        bench.that(type(error).__module__.startswith("mqplug."), f"{mistake}: {type(error)} is mqplug's own")
        hidden = error.__cause__ is None and error.__context__ is not None and not error.__suppress_context__
        bench.that(not hidden or isinstance(error.__context__, Error), f"{mistake}: the library's error is the cause")


@case("ERR-02")
def test_says_where(bench: Bench) -> None:
    """An error says what is wrong, with the backend, the topic and the operation, and how to fix it."""
    nowhere = {"a damaged id", "an illegal name", "an unknown setting"}  # known to be wrong before any backend is asked
    for mistake, (_, error) in provoked(bench).items():
        bench.that(error.message and error.fix, f"{mistake}: {error!r} says what is wrong and how to fix it")
        bench.that(str(error.fix) in str(error), f"{mistake}: the text of the error says how to fix it")
        if mistake not in nowhere:
            bench.equal(error.backend, bench.client.backend, mistake)
            bench.that(error.operation, f"{mistake}: {error} names the operation")
            bench.that(error.topic, f"{mistake}: {error} names the topic")


@case("ERR-03")
def test_retryable(bench: Bench) -> None:
    """No mistake of the caller is ``retryable``; a timeout is."""
    for mistake, (_, error) in provoked(bench).items():
        bench.equal(error.retryable, False, mistake)
    bench.equal(Timeout("late").retryable, True)


@case("ERR-04")
def test_wrong_types(bench: Bench) -> None:
    """An argument of a wrong type raises ``TypeError`` before anything is done."""
    topic, ids = bench.filled(1)
    client, producer, reader = bench.client, bench.filler(topic), bench.reader(topic)
    calls: list[Callable[[], object]] = [
        lambda: mqplug.connect(7),  # type: ignore[arg-type]
        lambda: client.consumer(7, start=EARLIEST),  # type: ignore[arg-type]
        lambda: client.consumer(topic, start=ids[0]),  # type: ignore[arg-type]
        lambda: client.consumer(topic, start="earliest"),  # type: ignore[arg-type]
        lambda: client.consumer(topic, start=EARLIEST, until="latest"),  # type: ignore[arg-type]
        lambda: client.producer(7),  # type: ignore[arg-type]
        lambda: client.partitions(None),  # type: ignore[arg-type]
        lambda: client.watermarks(b"topic"),  # type: ignore[call-overload]
        lambda: client.resolve(topic, ids[0]),  # type: ignore[call-overload]
        lambda: producer.send("text"),  # type: ignore[arg-type]
        lambda: producer.submit(7),  # type: ignore[arg-type]
        lambda: producer.send_many(["text"]),  # type: ignore[list-item]
        lambda: client.producer().send(b"no topic"),
        lambda: reader.seek(0),  # type: ignore[arg-type]
        lambda: reader.seek("earliest"),  # type: ignore[arg-type]
        lambda: reader.receive("1"),  # type: ignore[arg-type]
        lambda: reader.receive_many("5"),  # type: ignore[arg-type]
        lambda: MessageId.parse(b"m1"),  # type: ignore[arg-type]
    ]
    if client.capabilities.groups:
        calls.append(lambda: client.consumer(topic, group=7))  # type: ignore[arg-type]
        calls.append(lambda: client.consumer(topic, group=bench.name(), partitions=[0]))
    for call in calls:
        with bench.raises(TypeError):
            call()
    bench.equal([message.id for message in bench.read(topic)], ids)
    bench.delivers(reader, ids)


@case("ERR-05", needs=("auth",), hooks=("intruder",))
def test_wrong_credentials(bench: Bench) -> None:
    """Wrong credentials soon raise an ``AuthError``, which says how to fix that, and is not retryable."""
    assert bench.harness.intruder is not None
    began = time.monotonic()
    with bench.raises(AuthError) as caught, closing(bench.harness.intruder(CONNECTING)) as client:
        client.health(CONNECTING)
    bench.that(time.monotonic() - began < CONNECTING, "it did not keep trying")
    bench.equal(caught.value.retryable, False)  # type: ignore[attr-defined]
    bench.that(caught.value.fix, "it says how to fix it")  # type: ignore[attr-defined]


@case("ERR-06")
def test_no_secrets(bench: Bench) -> None:
    """No error and no log line shows a password, whether it was in a setting or a URL."""
    backend, fields = bench.client.backend, attrs.fields(bench.client._backend.descriptor.settings)  # noqa: SLF001
    right: dict[str, Any] = {field.name: SECRET for field in fields if not field.repr}
    wrong: dict[str, Any] = {name: [SECRET] for name in right}
    attempts: list[Callable[[], object]] = [
        lambda: mqplug.connect(f"{backend}://user:{SECRET}@host?no_such_setting=1"),
        lambda: mqplug.connect(f"{backend}://user:{SECRET}@host?broken"),
        lambda: mqplug.connect(backend, no_such_setting=1, **right),
        lambda: mqplug.connect(backend, no_such_setting=1, **wrong),
    ]
    with captured_logs("", logging.DEBUG) as lines:
        for attempt in attempts:
            with bench.raises(ConfigError) as caught:
                attempt()
            texts = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
            bench.equal([line for line in texts.splitlines() if SECRET in line], [])
    bench.equal([line for line in lines if SECRET in line], [])


@case("ERR-07")
def test_names_the_capability(bench: Bench) -> None:
    """``Unsupported`` names the missing capability."""
    topic, ids = bench.filled(1)
    reader = bench.reader(topic)
    for call in (lambda: reader.ack(ids[0]), reader.commit, reader.committed):
        with bench.raises(Unsupported) as caught:
            call()
        bench.equal(caught.value.capability, "groups")  # type: ignore[attr-defined]
        bench.that("group" in str(caught.value), "and so does its text")


@case("ERR-08", needs=("groups", "assignment_events"))
def test_callbacks_that_raise(bench: Bench) -> None:
    """An exception of a callback comes out of a receive, once and unchanged; the consumer and its group continue."""
    topic, ids = bench.filled(4)
    group, raised = bench.name(), ZeroDivisionError("mine")

    def fail(_: object) -> None:
        raise raised

    member = bench.member(topic, group, on_assigned=fail, on_revoked=fail)
    seen, errors = list[MessageId](), list[BaseException]()

    def receive() -> bool:
        try:
            seen.extend(member.receive_many(10, bench.waiting.poll).ids)
        except ZeroDivisionError as error:
            errors.append(error)
        return bool(errors) and len(seen) == len(ids)

    bench.wait(receive, "the error and the messages came")
    bench.equal((errors, seen), ([raised], ids))
    member.close()
    bench.delivers(bench.member(topic, group), ids)


@case("ERR-09")
def test_picklable(bench: Bench) -> None:
    """Errors can be pickled, and keep all their attributes."""
    for mistake, (_, error) in provoked(bench).items():
        again = pickle.loads(pickle.dumps(error))
        bench.equal((type(again), str(again)), (type(error), str(error)), mistake)
        for known in ("message", "fix", "backend", "topic", "operation", "retryable"):
            bench.equal(getattr(again, known), getattr(error, known), mistake)


@case("ERR-10")
def test_usable_afterwards(bench: Bench) -> None:
    """After an error the client, its producer and its consumer are as usable as before."""
    topic, ids = bench.filled(1)
    client, producer, reader, missing = bench.client, bench.filler(topic), bench.reader(topic), bench.name()
    bench.delivers(reader, ids)
    large = bytes(client.capabilities.message_max_bytes + 1)
    mistakes: list[Callable[[], object]] = [
        lambda: client.create_topic(topic), lambda: client.create_topic("a/b"), lambda: client.watermarks(missing),
        lambda: client.consumer(missing, start=EARLIEST), lambda: client.producer(missing),
        lambda: producer.send(large), lambda: producer.send(b"x", partition=10**6),
        lambda: producer.send_many([b"x", large][1:]), lambda: producer.send("text"),  # type: ignore[arg-type]
        lambda: reader.seek(EARLIEST, partition=5), lambda: reader.seek(bench.filled(1)[1][0]),
        lambda: reader.ack(ids[0]), lambda: reader.receive(-1), lambda: reader.pause(5),
    ]  # fmt: skip
    for mistake in mistakes:
        with bench.raises(Error, ValueError, TypeError):
            mistake()
        bench.delivers(reader, [producer.send(b"x", partition=0)])
        bench.equal(bench.bounds(topic).first_id, ids[0])


PIECE = 64 * 1024  # bytes
MOST = 1_000  # pieces that a full disk may still take, into buffers


@case("ERR-11", needs=("persistent",), hooks=("fill_disk",), timeout=180)
def test_full_disk(bench: Bench) -> None:
    """A send without disk space raises ``StorageFull``; stored messages stay; with space again, sending continues."""
    topic, ids = bench.dripped(3)
    assert bench.harness.fill_disk is not None
    make_room = bench.harness.fill_disk()
    try:
        stored, error = _until_refused(bench, topic)
    finally:
        make_room()
    bench.equal(type(error), StorageFull)
    bench.that(error.message and error.fix, f"{error!r} says what is wrong and how to fix it")
    with bench.away():  # a store may have to be opened again
        pass
    found = [message.id for message in bench.read(topic)]
    bench.equal(found[: len(ids) + len(stored)], ids + stored, "the messages reported as stored are there")
    bench.that(len(found) <= len(ids) + len(stored) + 1, "besides them at most the refused one")
    later = bench.fill(topic, 3)
    bench.equal([message.id for message in bench.read(topic)], found + later)


def _until_refused(bench: Bench, topic: str) -> tuple[list[MessageId], Error]:
    """Send until an error is raised. Return the ids of the messages stored before, and the error."""
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
    """On a full disk everything but sending works, also in a store opened there: reads, commits, trims, deletes."""
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
        bench.equal([message.id for message in bench.read(topic)], ids[3:], "after it was opened on the full disk")
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
    """A damaged message raises ``Corrupt``, each time and however it is read: it is neither served nor skipped."""
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
    bench.equal([message.id for message in bench.read(topic)], ids, "once it was repaired")


def _read_until_refused(bench: Bench, topic: str, start: Start) -> list[MessageId]:
    """Return the ids that come before ``Corrupt``; a store may raise it as a whole."""
    found: list[MessageId] = []
    with bench.raises(Corrupt), bench.harness.connect() as client, client.consumer(topic, start=start) as reader:
        while message := reader.receive(bench.patience):
            found.append(message.id)
    return found


@case("ERR-13", needs=("ordered", "durable_groups", "delete_topic"))
def test_close_after_a_delete(bench: Bench) -> None:
    """Close stores the acks of a consumer although one of its topics was deleted, and raises nothing."""
    group = bench.name()
    before, gone, after = sorted(bench.topic() for _ in range(3))  # so one of them follows the deleted one
    ids = {topic: bench.fill(topic, 2) for topic in (before, gone, after)}
    member = bench.connect().consumer([before, gone, after], group=group)
    messages = bench.take(member, 6)
    bench.forget(gone)
    bench.make_gone(gone)
    for message in messages:
        member.ack(message)
    member.close()
    for topic in (before, after):
        later = bench.fill(topic, 1)
        bench.delivers(bench.member(topic, group), later)
        bench.stands(bench.client.positions(topic, group=group)[0].position, [*ids[topic], *later], 2)
