"""TX: the messages of a transaction, on any topics, are stored together, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event, Thread

from mqplug import (
    Client,
    Closed,
    ConcurrentUse,
    Fenced,
    InvalidName,
    MessageId,
    MessageTooLarge,
    NotCommitted,
    OutcomeUnknown,
    QueueFull,
    Record,
    SendFailed,
    TopicNotFound,
)
from mqplug_testing._case_tools.asyncio_cases import run_in_loop
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import in_child
from mqplug_testing._case_tools.registry import Registry

case = Registry()

NEEDS = ("transactions",)
GIVEN_UP = "the block was left by this error"


class GivenUp(Exception):
    """Raised in the block of a transaction."""


def give_up(error: GivenUp | None = None) -> None:
    """Raise this error, or a new one."""
    raise error or GivenUp


def values(bench: Bench, topic: str) -> list[bytes | None]:
    """Return the values of a topic."""
    return [message.value for message in bench.read(topic)]


@case("TX-01", needs=NEEDS)
def test_commit(bench: Bench) -> None:
    """After the commit all messages of a transaction are readable, on all topics, in order, under its handles' ids."""
    first, second, able = bench.topic(), bench.topic(), bench.client.capabilities
    key, headers = b"k" if able.keys else None, (("h", b"x"),) if able.headers else ()
    with bench.client.transaction(bench.name(), first) as step:
        sent = [step.send(b"%d" % number, key=key, headers=headers) for number in range(3)]
        other = step.send(b"other", topic=second)
        many = step.send_many([b"3", Record(b"4"), Record(b"second", topic=second)])
        bench.equal((step.repeated, other.done, len(many)), (False, False, 3))
    ids = [handle.result() for handle in sent] + list(many.result())[:2]
    bench.equal([message.id for message in bench.read(first)], ids)
    bench.equal(values(bench, first), [b"0", b"1", b"2", b"3", b"4"])
    bench.equal([(m.key, m.headers) for m in bench.read(first)[:1]], [(key, headers)])
    bench.equal([message.id for message in bench.read(second)], [other.result(), many.result()[2]])


@case("TX-02", needs=NEEDS)
def test_abort(bench: Bench) -> None:
    """No message of an aborted transaction is ever readable; its handles prove that, and the next step works."""
    first, second, name = bench.topic(), bench.topic(), bench.name()
    raised = GivenUp(GIVEN_UP)
    with bench.raises(GivenUp) as caught, bench.client.transaction(name, first) as step:
        handles = [step.send(b"x"), step.send(b"x", topic=second)]
        give_up(raised)
    bench.that(caught.value is raised, "the error of the block comes out of it")
    with bench.client.transaction(name, first) as step:
        handles.append(step.send(b"x"))
        batch = step.send_many([b"x", b"x"])
        step.abort()
        for late in (lambda: step.send(b"x"), step.abort, step.commit):
            with bench.raises(Closed):
                late()
    for handle in handles:
        with bench.raises(NotCommitted):
            handle.result()
    with bench.raises(SendFailed):
        batch.result()
    with bench.client.transaction(name, first) as step:
        kept = [step.send(b"kept"), step.send(b"kept", topic=second)]
    for topic, handle in zip((first, second), kept, strict=True):
        bench.equal([message.id for message in bench.read(topic)], [handle.result()])


@case("TX-03", needs=NEEDS)
def test_unseen(bench: Bench) -> None:
    """Readers get nothing of an open transaction, and all of it after the commit; until then handles have no result."""
    topic = bench.topic()
    reader = bench.reader(topic)
    bench.only_new(reader, topic)
    with bench.client.transaction(bench.name(), topic) as step:
        handles = [step.send(b"%d" % number) for number in range(3)]
        batch = step.send_many([b"3", b"4"])
        bench.rests(reader)
        began = time.monotonic()
        with bench.raises(NotCommitted):
            handles[0].result(60)
        with bench.raises(NotCommitted):
            batch.result(60)
        bench.that(time.monotonic() - began < 30, "it does not wait for a result that only the commit brings")
        bench.equal((handles[0].done, batch.done), (False, False))
    bench.delivers(reader, [handle.result() for handle in handles] + list(batch.result()))


@case("TX-04", needs=NEEDS)
def test_at_once(bench: Bench) -> None:
    """However many messages a transaction has, a reader of a partition sees all of its messages there, or none."""
    topic, count, ended = bench.topic(), bench.sized(10, 50), Event()

    def work() -> None:
        with bench.connect() as client:
            for _ in range(count):
                with client.transaction(name, topic) as step:
                    step.send_many([b"x"] * 7)
        ended.set()

    name = bench.name()
    thread = Thread(target=work, daemon=True)
    thread.start()
    seen = [len(bench.read(topic))]
    while not ended.is_set() and thread.is_alive():
        seen.append(len(bench.read(topic)))
    thread.join()
    bench.equal([each for each in seen if each % 7], [], "a part of a transaction was seen")
    bench.equal(len(bench.read(topic)), 7 * count)


@case("TX-05", needs=NEEDS)
def test_beside_a_producer(bench: Bench) -> None:
    """Messages that others send during a transaction are kept, each sender's in order; ids ascend as they are read."""
    topic, name = bench.topic(), bench.name()
    with bench.producer(topic) as out:
        sent: list[MessageId] = []
        for number in range(3):
            with bench.client.transaction(name, topic) as step:
                handles = [step.send(b"t%d" % number), step.send(b"u%d" % number)]
                sent.append(out.send(b"p%d" % number))
            sent += [handle.result() for handle in handles]
    found = bench.read(topic)
    bench.equal(sorted(message.id for message in found), [message.id for message in found])
    bench.equal({message.id for message in found}, set(sent))
    inside = [message.value for message in found if message.value and message.value[:1] != b"p"]
    bench.equal(inside, [b"t0", b"u0", b"t1", b"u1", b"t2", b"u2"])


@case("TX-06", needs=NEEDS)
def test_fenced(bench: Bench) -> None:
    """A newer holder of a name aborts what the older one left open; the older one gets ``Fenced`` from then on."""
    topic, name = bench.topic(), bench.name()
    old, new = bench.connect(), bench.connect()
    with bench.raises(Fenced), old.transaction(name, topic) as step:
        handle = step.send(b"old")
        with new.transaction(name, topic) as other:
            other.send(b"new")
    with bench.raises(NotCommitted, Fenced):
        handle.result()
    with bench.raises(Fenced):
        old.transaction(name, topic)
    with new.transaction(name, topic) as other:
        other.send(b"again")
    with old.transaction(bench.name(), topic) as step:
        step.send(b"another name")
    bench.equal(values(bench, topic), [b"new", b"again", b"another name"])
    with bench.connect() as third, third.transaction(name, topic) as step:
        step.send(b"taken back")
    with bench.raises(Fenced), new.transaction(name, topic) as step:
        step.send(b"lost")
    bench.equal(values(bench, topic)[3:], [b"taken back"])


@case("TX-07", needs=NEEDS)
def test_one_at_a_time(bench: Bench) -> None:
    """A second step of an open name raises ``ConcurrentUse``; neither the first nor other names are affected."""
    topic, name = bench.topic(), bench.name()
    with bench.client.transaction(name, topic) as step:
        step.send(b"1")
        with bench.raises(ConcurrentUse):
            bench.client.transaction(name, topic)
        with bench.client.transaction(bench.name(), topic) as other:
            other.send(b"other")
        step.send(b"2")
    bench.equal(sorted(values(bench, topic), key=repr), [b"1", b"2", b"other"])


def take(client: Client, name: str, topic: str, number: int, *sent: bytes) -> bool:
    """Take a step with this number. Return whether it was a repeat."""
    with client.transaction(name, topic, number=number) as step:
        for value in sent:
            step.send(value)
        return step.repeated


@case("TX-08", needs=NEEDS)
def test_numbers(bench: Bench) -> None:
    """A step whose number, or a higher one, was committed is ``repeated`` and sends nothing, with any client."""
    topic, other, name = bench.topic(), bench.topic(), bench.name()
    bench.equal(take(bench.client, name, topic, 5, b"5"), False)
    for number in (5, 3, 0):
        with bench.client.transaction(name, topic, number=number) as step:
            bench.equal(step.repeated, True, f"number {number} after 5")
            handle, batch = step.send(b"again"), step.send_many([b"again"])
            with bench.raises(OutcomeUnknown):
                handle.result()
        with bench.raises(OutcomeUnknown):
            handle.result()
        with bench.raises(SendFailed):
            batch.result()
    bench.equal(take(bench.client, name, topic, 6, b"6"), False)
    with bench.client.transaction(name, topic, number=7) as step:
        step.send(b"dropped")
        step.abort()
    fresh = bench.connect()
    bench.equal([take(fresh, name, topic, number, b"7") for number in (6, 7, 7)], [True, False, True])
    bench.equal(take(fresh, name, other, 1, b"1"), False, "the numbers of each topic are its own")
    bench.equal(take(fresh, bench.name(), topic, 1, b"n"), False, "the numbers of each name are its own")
    bench.equal(values(bench, topic), [b"5", b"6", b"7", b"n"])
    bench.equal(values(bench, other), [b"1"])


@case("TX-24", needs=NEEDS)
def test_notes(bench: Bench) -> None:
    """The note of a step is stored with its number by the commit, and returned to a caller that repeats the step."""
    topic, name, client = bench.topic(), bench.name(), bench.client
    for number, note in ((1, "rows=5 ✓"), (2, ""), (3, "x" * 1000)):
        with client.transaction(name, topic, number=number) as step:
            bench.equal((step.repeated, step.note), (False, ""))
            step.note = "overwritten"
            step.note = note
        for again in (client, bench.connect()):
            with again.transaction(name, topic, number=number) as step:
                bench.equal((step.repeated, step.note), (True, note))
                with bench.raises(ValueError):
                    step.note = "changed"
        client = again
    with client.transaction(name, topic, number=4) as step:
        step.note = "dropped"
        step.abort()
    with client.transaction(name, topic, number=0) as step:
        bench.equal((step.repeated, step.note), (True, "x" * 1000), "the note is that of the highest number")
    with client.transaction(name, topic, number=5) as step:
        for wrong, refusal in ((b"5", TypeError), ("ä" * 501, ValueError), ("a\0b", ValueError)):
            with bench.raises(refusal):
                step.note = wrong  # type: ignore[assignment]
        step.abort()
    with client.transaction(name, topic) as step, bench.raises(ValueError):
        step.note = "without a number"


@case("TX-25", needs=NEEDS)
def test_flushed(bench: Bench) -> None:
    """A flush makes room in a step, if the backend can do that; before the commit no message is readable.

    An abort leaves none, also after a flush.
    """
    topic = bench.topic()
    for end in ("commit", "abort"):
        with bench.client.transaction(bench.name(), topic, queue_messages=10) as step:
            handle = step.send(b"0")
            step.flush()
            step.send_many([b"%d" % number for number in range(1, 10)])
            step.flush()
            if handle.done:
                step.send_many([b"more"] * 10)
            bench.rests(bench.reader(topic))
            if end == "abort":
                step.abort()
                break
            step.commit()
        seen = values(bench, topic)
        bench.equal(seen[:10], [b"%d" % number for number in range(10)])
        bench.equal(seen[10:], [b"more"] * (len(seen) - 10))
        topic = bench.topic()
    bench.equal(values(bench, topic), [])


@case("TX-26", needs=(*NEEDS, "keys", "partitions"))
def test_partitioners(bench: Bench) -> None:
    """A step sends to the partitions that a producer with the same partitioner would choose."""
    topic, name = bench.topic(5), bench.name()
    keys = [b"key %d" % number for number in range(20)]
    for chosen in ("crc32", "murmur2"):
        with bench.client.producer(topic, partitioner=chosen) as out:
            wanted = [out.send(b"", key=key).log.partition for key in keys]
        with bench.client.transaction(name, topic, partitioner=chosen) as step:
            sent = [step.send(b"", key=key) for key in keys]
        bench.equal([handle.result().log.partition for handle in sent], wanted, chosen)


@case("TX-09", needs=NEEDS)
def test_numbers_outlive(bench: Bench) -> None:
    """Numbers are remembered after all clients were closed, and a step without messages uses up its number, too."""
    topic, name = bench.topic(), bench.name()
    take(bench.client, name, topic, 4, b"4")
    take(bench.client, name, topic, 2**63 - 2)
    with bench.away():
        pass
    bench.equal(take(bench.client, name, topic, 4, b"again"), True)
    bench.equal(take(bench.client, name, topic, 2**63 - 2, b"again"), True)
    bench.equal(take(bench.client, name, topic, 2**63 - 1, b"last"), False)
    bench.equal(values(bench, topic), [b"4", b"last"])


@case("TX-10", needs=NEEDS)
def test_misused(bench: Bench) -> None:
    """Wrong arguments and messages are refused by typed errors that change nothing, and the step can continue."""
    client, topic, name = bench.client, bench.topic(), bench.name()
    for wrong, kind in ((7, TypeError), ("", InvalidName), ("x" * 250, InvalidName), ("a\nb", InvalidName)):
        with bench.raises(kind):
            client.transaction(wrong, topic)  # type: ignore[arg-type]
    for number, refusal in (("0", TypeError), (-1, ValueError), (2**63, ValueError)):
        with bench.raises(refusal):
            client.transaction(name, topic, number=number)  # type: ignore[arg-type]
    with bench.raises(TypeError):
        client.transaction(name, number=1)
    with bench.raises(TypeError):
        client.transaction(name, consumer=client)  # type: ignore[arg-type]
    with bench.raises(TopicNotFound):
        client.transaction(name, bench.name())
    most = client.capabilities.message_max_bytes
    with client.transaction(name, queue_messages=4) as step:
        with bench.raises(TypeError):
            step.send(b"no topic")
        with bench.raises(TypeError):
            step.send("text", topic=topic)  # type: ignore[arg-type]
        with bench.raises(ValueError):
            step.send(b"x", topic=topic, partition=5)
        with bench.raises(TopicNotFound):
            step.send(b"x", topic=bench.name())
        with bench.raises(MessageTooLarge):
            step.send(bytes(most + 1), topic=topic)
        with bench.raises(MessageTooLarge):
            step.send_many([Record(b"x", topic=topic), Record(bytes(most + 1), topic=topic)])
        for number in range(4):
            step.send(b"%d" % number, topic=topic)
        with bench.raises(QueueFull):
            step.send(b"4", topic=topic)
    bench.equal(values(bench, topic), [b"0", b"1", b"2", b"3"])


@case("TX-11", needs=(*NEEDS, "delete_topic"))
def test_failed_send(bench: Bench) -> None:
    """If one message of a transaction cannot be stored, none is: the commit raises a proven failure."""
    topic, doomed, name = bench.topic(), bench.topic(), bench.name()
    with bench.client.transaction(name, topic) as step:
        step.send(b"1")
        step.send(b"2", topic=doomed)
    bench.equal(values(bench, topic), [b"1"])
    bench.forget(doomed)
    bench.make_gone(doomed)
    with bench.raises(SendFailed, TopicNotFound), bench.client.transaction(name, topic) as step:
        kept = step.send(b"3")
        step.send(b"4", topic=doomed)
    bench.that(kept.done and kept.error is not None and not isinstance(kept.error, OutcomeUnknown), f"proven: {kept!r}")
    with bench.client.transaction(name, topic) as step:
        step.send(b"5")
    bench.equal(values(bench, topic), [b"1", b"5"])


@case("TX-12", needs=NEEDS)
def test_close(bench: Bench) -> None:
    """Closing a client with an open transaction aborts it, and its handles prove that; the name is free at once."""
    topic, name = bench.topic(), bench.name()
    client = bench.connect()
    step = client.transaction(name, topic)
    handle = step.send(b"x")
    client.close()
    with bench.raises(NotCommitted):
        handle.result()
    with bench.raises(Closed):
        step.commit()
    with bench.raises(Closed):
        client.transaction(name, topic)
    with bench.client.transaction(name, topic) as other:
        other.send(b"y")
    bench.equal(values(bench, topic), [b"y"])


@case("TX-13", needs=NEEDS)
def test_fork(bench: Bench) -> None:
    """In a forked child an open transaction raises ``ForkedClient``, and the parent's commit stores all of it."""
    topic, name = bench.topic(), bench.name()
    with bench.client.transaction(name, topic) as step:
        step.send(b"1")
        calls: list[Callable[[], object]] = [lambda: step.send(b"2"), step.commit]
        calls.append(lambda: bench.client.transaction(name, topic))
        raised = in_child(calls, bench.patience)
        bench.that(set(raised) <= {"ForkedClient", "Closed"} and raised[0] == "ForkedClient", f"raised: {raised}")
        step.send_many([b"3"])
    bench.equal(values(bench, topic), [b"1", b"3"])


@case("TX-14", needs=NEEDS)
def test_large(bench: Bench) -> None:
    """A transaction of very many messages on many partitions is stored whole, and in order."""
    count, size = bench.sized(2000, 20000), 100
    partitions = 3 if bench.client.capabilities.partitions else 1
    topic = bench.topic(partitions)
    with bench.client.transaction(bench.name(), topic) as step:
        numbers = range(count)
        step.send_many([Record(b"%0*d" % (size, n), partition=n % partitions) for n in numbers if n < count // 2])
        handles = [step.send(b"%0*d" % (size, n), partition=n % partitions) for n in numbers if n >= count // 2]
    found: dict[int, list[int]] = {}
    for message in bench.read(topic):
        found.setdefault(message.partition, []).append(int(message.value or b"-1"))
    bench.equal(found, {part: [n for n in range(count) if n % partitions == part] for part in range(partitions)})
    bench.equal(max(handle.result() for handle in handles[::partitions]), handles[::partitions][-1].result())


@case("TX-16", needs=NEEDS)
def test_asyncio(bench: Bench) -> None:
    """In asyncio a transaction commits, aborts, and is aborted by a cancellation in its block, in the same way."""
    topic, name = bench.topic(), bench.name()

    async def story() -> Sequence[MessageId]:
        async with bench.aio() as mq:
            async with mq.transaction(name, topic) as step:
                handle = await step.send(b"1")
                batch = await step.send_many([b"2", b"3"])
                with bench.raises(NotCommitted):
                    await handle
            ids = [await handle, *await batch]
            with bench.raises(GivenUp):
                async with mq.transaction(name, topic) as step:
                    lost = await step.send(b"4")
                    give_up()
            with bench.raises(NotCommitted):
                await lost
            async with mq.transaction(name, topic, number=1) as step:
                await step.abort()
            async with mq.transaction(name, topic, number=1) as step:
                bench.equal(step.repeated, False)
            async with mq.transaction(name, topic, number=1) as step:
                bench.equal(step.repeated, True)
            return ids

    found: list[Sequence[MessageId]] = []

    async def kept() -> None:
        found.append(await story())

    run_in_loop(bench, kept())
    bench.equal([message.id for message in bench.read(topic)], found[0])
