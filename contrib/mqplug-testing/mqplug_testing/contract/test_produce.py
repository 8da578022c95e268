"""PRO: sending, resends by the client, and Ctrl-C while records are handed over."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import pytest

from mqplug import (
    Client,
    Closed,
    MessageId,
    MessageTooLarge,
    OutcomeUnknown,
    Producer,
    QueueFull,
    Record,
    SendFailed,
    Unsupported,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.extensions import Interrupts
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import BROKER, Sender, outage, send_more, settled

case = Registry()

LARGEST_TRIED = 64 * 1024 * 1024


@case("PRO-01")
def test_id_of_send(bench: Bench) -> None:
    """``send`` returns the id under which the message is received."""
    topic = bench.topic()
    producer, reader = bench.producer(topic), bench.reader(topic)
    for number in range(5):
        sent = producer.send(b"%d" % number)
        message = bench.take(reader, 1)[0]
        bench.equal((message.id, message.value), (sent, b"%d" % number))


@case("PRO-02")
def test_values(bench: Bench) -> None:
    """Values arrive byte for byte as they were sent."""
    topic = bench.topic()
    sent = [bytes([number]) * number for number in range(1, 200, 13)] + [bytes(range(256)) * 40]
    bench.filler(topic).send_many([Record(value, partition=0) for value in sent])
    bench.equal([message.value for message in bench.read(topic)], sent)


@case("PRO-03")
def test_visible(bench: Bench) -> None:
    """When ``send`` returns, the message is visible to every consumer opened from then on, from any client."""
    topic = bench.topic()
    for number in range(1, 4):
        bench.fill(topic, 1)
        bench.equal(len(list(bench.connect().read(topic))), number)


@case("PRO-04")
def test_ids_grow(bench: Bench) -> None:
    """The ids of the messages that one producer sends to one partition strictly increase."""
    topic = bench.topic()
    producer = bench.producer(topic)
    ids = [producer.send(b"x", partition=0) for _ in range(20)]
    ids += producer.send_many([Record(b"x", partition=0) for _ in range(100)])
    handles = [producer.submit(b"x", partition=0) for _ in range(100)]
    ids += [handle.result() for handle in handles]
    bench.that(all(one < other for one, other in pairwise(ids)), "each id is higher than the previous one")


@case("PRO-05")
def test_batch_results(bench: Bench) -> None:
    """``send_many`` returns one id for each record, in the order of the records."""
    topic = bench.topic()
    ids = bench.filler(topic).send_many([Record(b"%d" % number, partition=0) for number in range(30)])
    bench.equal(len(ids), 30)
    found = {message.id: message.value for message in bench.read(topic)}
    bench.equal([found[each] for each in ids], [b"%d" % number for number in range(30)])


@case("PRO-06")
def test_bad_in_a_batch(bench: Bench) -> None:
    """A batch with a bad record raises ``SendFailed``, whose ``results`` say which it is; the others are stored."""
    topic, large = bench.topic(), _too_large(bench)
    producer = bench.producer(topic)
    with bench.raises(SendFailed) as caught:
        producer.send_many([b"0", large, b"2"])
    results = caught.value.results  # type: ignore[attr-defined]
    bench.equal([type(each) for each in results], [MessageId, MessageTooLarge, MessageId])
    found = {message.id: message.value for message in bench.read(topic)}
    bench.equal(found, {results[0]: b"0", results[2]: b"2"})


def _too_large(bench: Bench) -> bytes:
    largest = bench.client.capabilities.message_max_bytes
    if largest > LARGEST_TRIED:
        pytest.skip(f"messages of {largest} bytes are too large to try")
    return bytes(largest + 1)


@case("PRO-07")
def test_large_batch(bench: Bench) -> None:
    """A batch of as many records as the backend stores at once, or of more, is stored as a whole, and in order."""
    most = min(bench.client.capabilities.batch_max_messages, 20_000)
    for count in (most, most + 1):
        topic = bench.topic()
        records = [Record(b"%d" % number, partition=0) for number in range(count)]
        ids = bench.filler(topic).send_many(records, timeout=60)
        bench.equal(ids, sorted(set(ids)))
        found = bench.read(topic)
        bench.equal([message.value for message in found], [b"%d" % number for number in range(count)])
        bench.equal([message.id for message in found], ids)


@case("PRO-08")
def test_empty_batch(bench: Bench) -> None:
    """An empty batch does nothing and raises no error."""
    topic = bench.topic()
    bench.equal(bench.producer(topic).send_many([]), [])
    bench.equal(bench.read(topic), [])


@case("PRO-09")
def test_handles(bench: Bench) -> None:
    """The handle of ``submit`` is settled once, and reports the same outcome however often it is asked."""
    topic = bench.topic()
    handles = [bench.filler(topic).submit(b"%d" % number, partition=0) for number in range(20)]
    once = [handle.result(bench.patience) for handle in handles]
    bench.equal([handle.result(0) for handle in handles], once)
    bench.that(all(handle.done and handle.error is None for handle in handles), "all are done, without error")
    bench.equal([message.id for message in bench.read(topic)], once)


@case("PRO-10")
def test_close_flushes(bench: Bench) -> None:
    """Closing a producer stores every record that it had accepted."""
    topic = bench.topic()
    producer = bench.producer(topic)
    handles = [producer.submit(b"%d" % number, partition=0) for number in range(500)]
    producer.close()
    found = bench.read(topic)
    bench.equal([message.value for message in found], [b"%d" % number for number in range(500)])
    bench.equal([handle.result(0) for handle in handles], [message.id for message in found])


@case("PRO-11")
def test_flush(bench: Bench) -> None:
    """``flush`` returns when everything sent before it has an outcome."""
    topic = bench.topic()
    producer = bench.producer(topic)
    handles = [producer.submit(b"%d" % number, partition=0) for number in range(200)]
    producer.flush()
    bench.that(all(handle.done for handle in handles), "each handle is settled")
    bench.equal(len(bench.read(topic)), 200)


@case("PRO-12")
def test_nothing_kept(bench: Bench) -> None:
    """Changes that the caller makes to a record or its headers after sending do not change the message."""
    topic = bench.topic()
    headers = {"kind": b"first"} if bench.client.capabilities.headers else {}
    record = Record(b"first", headers=headers, partition=0)
    handle = bench.filler(topic).submit(record.value, headers=record.headers, partition=0)
    bench.filler(topic).send_many([record])
    record.value = b"second"
    headers.clear()
    handle.result()
    found = bench.read(topic)
    bench.equal([message.value for message in found], [b"first"] * 2)
    if bench.client.capabilities.headers:
        bench.equal([message.headers for message in found], [(("kind", b"first"),)] * 2)


@case("PRO-28")
def test_arrow_buffers(bench: Bench) -> None:
    """Changes to Arrow buffers after ``send_many`` has returned, or a stage's ``write``, do not change the messages."""
    topic, wanted = bench.topic(), list[bytes]()
    for count in (1, 500):
        texts = [b"%d of %d" % (number, count) for number in range(count)]
        buffer, table = _over_a_buffer(texts)
        bench.producer(topic).send_many(table)
        buffer[:] = bytes(len(buffer))
        wanted += texts
    if bench.client.capabilities.staged_ingest:
        with bench.client.stage(topic) as stage:
            buffer, table = _over_a_buffer([b"staged", b"staged too"])
            stage.write(table)
            buffer[:] = bytes(len(buffer))
            bench.client.ingest([stage.finish()], writer=bench.name(), number=1)
        wanted += [b"staged", b"staged too"]
    bench.equal([message.value for message in bench.read(topic)], wanted)


def _over_a_buffer(texts: Sequence[bytes]) -> tuple[bytearray, Any]:
    """Return a buffer with these texts, and a table whose values lie in it."""
    pyarrow = pytest.importorskip("pyarrow")
    buffer = bytearray(b"".join(texts))
    ends = pyarrow.array([0, *accumulate(map(len, texts))], pyarrow.int32()).buffers()[1]
    buffers = [None, ends, pyarrow.py_buffer(buffer)]
    values = pyarrow.Array.from_buffers(pyarrow.binary(), len(texts), buffers)
    return buffer, pyarrow.table({"value": values, "partition": pyarrow.array([0] * len(texts))})


@case("PRO-13")
def test_too_large(bench: Bench) -> None:
    """A message that is too large raises ``MessageTooLarge`` and is not stored; later sends work."""
    topic, large = bench.topic(), _too_large(bench)
    producer = bench.producer(topic)
    for send in (producer.send, producer.submit):
        with bench.raises(MessageTooLarge):
            send(large)
    sent = producer.send(b"small")
    bench.equal([message.id for message in bench.read(topic)], [sent])


@case("PRO-14")
def test_after_close(bench: Bench) -> None:
    """After close, every way to send, and ``flush``, raises ``Closed``."""
    topic = bench.topic()
    producer = bench.producer(topic)
    producer.send(b"before")
    producer.close()
    for send in (lambda: producer.send(b"x"), lambda: producer.submit(b"x"), lambda: producer.send_many([b"x"])):
        with bench.raises(Closed):
            send()
    with bench.raises(Closed):
        producer.flush()
    bench.equal(len(bench.read(topic)), 1)


@case("PRO-15")
def test_expired(bench: Bench) -> None:
    """A ``send`` whose time runs out raises ``OutcomeUnknown``, not a failure: its handle gets the outcome later."""
    topic = bench.topic()
    producer, ids = bench.producer(topic), []
    for number in range(20):
        try:
            ids.append(producer.send(b"%d" % number, partition=0, timeout=0))
        except OutcomeUnknown as error:
            bench.that(isinstance(error, TimeoutError), "it is a timeout too")
            bench.that(error.handle, "it has its handle")
            if error.handle is not None:
                ids.append(error.handle.result(bench.patience))
    producer.flush()
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("PRO-17")
def test_two_producers(bench: Bench) -> None:
    """All messages of two producers on one topic arrive, those of each in its own order."""
    topic = bench.topic()

    def produce(name: bytes) -> None:
        producer = bench.connect().producer(topic)
        for start in range(0, 200, 20):
            producer.send_many([Record(b"%s%d" % (name, start + each), partition=0) for each in range(20)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(produce, (b"a", b"b")))
    values = [message.value or b"" for message in bench.read(topic)]
    bench.equal(len(values), 400)
    for name in (b"a", b"b"):
        bench.equal([each for each in values if each[:1] == name], [b"%s%d" % (name, each) for each in range(200)])


@case("PRO-19")
def test_back_pressure(bench: Bench) -> None:
    """When the queue is full, ``submit`` waits for room, or raises ``QueueFull`` if requested: nothing is dropped."""
    topic = bench.topic()
    producer = bench.producer(topic, queue_bytes=20_000)
    handles = [producer.submit(bytes(1_000), partition=0) for _ in range(300)]
    refused = 0
    for _ in range(300):
        try:
            handles.append(producer.submit(bytes(1_000), partition=0, when_full="raise"))
        except QueueFull:
            refused += 1
    producer.flush()
    bench.equal([message.id for message in bench.read(topic)], [handle.result() for handle in handles])
    bench.equal(len(handles) + refused, 600)


@case("PRO-20", level="should")
def test_no_consumer_yet(bench: Bench) -> None:
    """Messages sent to a topic that never had a consumer are available to the first one."""
    topic = bench.topic()
    ids = bench.fill(topic, 20)
    bench.delivers(bench.reader(topic), ids)
    if bench.client.capabilities.groups:
        bench.delivers(bench.member(topic, bench.name()), ids)


@case("PRO-21", needs=("timestamps_producer",))
def test_timestamps(bench: Bench) -> None:
    """The timestamp that the sender gives is the message's, to the millisecond."""
    topic, now = bench.topic(), datetime.now(UTC)
    moments = [now - timedelta(days=1, microseconds=now.microsecond - 123_000), now.replace(microsecond=7_000)]
    given: list[datetime | int] = [*moments, int(moments[0].timestamp() * 1000)]
    for moment in given:
        bench.filler(topic).send(b"x", timestamp=moment, partition=0)
    bench.equal([message.timestamp for message in bench.read(topic)], [*moments, moments[0]])
    with bench.raises(ValueError):
        bench.filler(topic).send(b"x", timestamp=now.replace(tzinfo=None))


@case("PRO-27", needs=("timestamps_producer",))
def test_timestamp_zero(bench: Bench) -> None:
    """The timestamp 0 arrives as 0, or raises ``Unsupported`` if the backend takes 0 for no timestamp."""
    topic = bench.topic()
    filler = bench.filler(topic)
    first = filler.send(b"x", timestamp=1, partition=0)
    try:
        zero = filler.send(b"x", timestamp=0, partition=0)
    except Unsupported as error:
        bench.equal(error.capability, "timestamps_producer")
        with bench.raises(SendFailed) as caught:
            filler.send_many([Record(b"x", timestamp=0, partition=0)])
        bench.equal([type(each) for each in getattr(caught.value, "results", ())], [Unsupported])
        bench.equal([message.id for message in bench.read(topic)], [first], "the refused one is not stored")
        return
    many = filler.send_many([Record(b"x", timestamp=moment, partition=0) for moment in (0, 2, 0)])
    found = [(message.id, round(message.timestamp.timestamp() * 1000)) for message in bench.read(topic)]
    bench.equal(found, list(zip([first, zero, *many], [1, 0, 0, 2, 0], strict=True)))


@case("PRO-22", needs=("transactions",))
def test_given_up(bench: Bench) -> None:
    """Messages of an aborted transaction are never seen; messages sent after it are."""
    topic, name = bench.topic(), bench.name()
    reader = bench.reader(topic)
    bench.only_new(reader, topic)
    step = bench.client.transaction(name, topic)
    step.send(b"lost")
    step.send_many([b"lost", b"lost"])
    step.abort()
    probe = bench.only_new(reader, topic)
    bench.equal([message.value for message in bench.read(topic)], [b"probe", b"probe"])
    bench.equal(bench.bounds(topic).last_id, probe)


@case("PRO-16", needs=("idempotent_producer", "persistent"), hooks=BROKER, timeout=300, profile="full")
def test_idempotent(bench: Bench) -> None:
    """When answers are lost because the broker is killed, resent records are stored once, and in order."""
    topics = [bench.topic() for _ in range(3)]
    with ExitStack() as senders:
        sending = [senders.enter_context(Sender(bench.producer(topic))) for topic in topics]
        for _ in range(2):
            send_more(bench, *sending, count=30)
            with outage(bench):
                pass
        send_more(bench, *sending, count=1)
    for topic, sender in zip(topics, sending, strict=True):
        stored = settled(bench, sender)
        found = {message.id: int(message.value or b"") for message in bench.connect().read(topic)}
        bench.equal(list(found.values()), sorted(set(found.values())), "each once, in order")
        bench.equal(stored - found.keys(), set(), "all that were reported as stored")


def _extended(bench: Bench, extension: object) -> Client:
    assert bench.harness.extended is not None
    return bench.connect(partial(bench.harness.extended, [extension]))


def _send_many(out: Producer) -> None:
    out.send_many([Record(b"1", partition=0), Record(b"2", partition=0)])


def _send(out: Producer) -> None:
    out.send(b"1", partition=0)


def _submit(out: Producer) -> None:
    out.submit(b"1", partition=0)


@case("PRO-24", hooks=("extended",))
def test_interrupted(bench: Bench) -> None:
    """A record that Ctrl-C interrupts is stored or not; its outcome is unknown, never failed. Others are stored."""
    for interrupted in (_send_many, _send, _submit):
        for late in (False, True):
            interrupts, topic = Interrupts(late=late), bench.topic()
            out = _extended(bench, interrupts).producer(topic)
            out.send(b"0", partition=0)
            interrupts.armed = True
            with bench.raises(KeyboardInterrupt):
                interrupted(out)
            out.send(b"3", partition=0)
            with suppress(OutcomeUnknown) if late else bench.raises(OutcomeUnknown):
                out.close()
            values = [message.value for message in bench.read(topic)]
            possible = [[b"0", b"3"], [b"0", b"1", b"2", b"3"] if interrupted is _send_many else [b"0", b"1", b"3"]]
            bench.that(values in (possible if late else possible[:1]), f"{values} are stored")
