"""KEY: keys and partitions, and handlers that ``run`` calls by key."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count, pairwise

from mqplug import EARLIEST, Client, Consumer, Message, MessageId, Record, Retry
from mqplug_testing._case_tools.asyncio_cases import run_in_loop
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()

# From the tests of Kafka's Java client: murmur2 of these keys.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
# Standard CRC-32 of these keys, without a sign. Two have the highest bit set.
CRC32 = {b"123456789": 0xCBF43926, b"a": 0xE8B7BE43, b"abc": 0x352441C2, b"": 0}


@case("KEY-01", needs=("keys", "partitions"))
def test_same_key(bench: Bench) -> None:
    """The same key goes to the same partition, from any client: the one that Kafka's Java client chooses."""
    topic = bench.topic(partitions=4)
    keys = [b"k%d" % number for number in range(20)]
    ids = bench.producer(topic).send_many([Record(b"1", key) for key in keys])
    again = [bench.connect().producer(topic).send(b"2", key=key) for key in keys[:4]]
    handles = [bench.producer(topic).submit(b"3", key=key) for key in keys[:4]]
    for later in (again, [handle.result() for handle in handles]):
        bench.equal([each.log for each in later], [each.log for each in ids[:4]])
    known = bench.producer(topic).send_many([Record(b"4", key) for key in MURMUR2])
    bench.equal([each.log.partition for each in known], [(code & 0x7FFFFFFF) % 4 for code in MURMUR2.values()])


@case("KEY-02", needs=("keys", "partitions"))
def test_key_order(bench: Bench) -> None:
    """The messages of one key arrive in the order of sending."""
    topic = bench.topic(partitions=3)
    keys = [b"k%d" % number for number in range(10)]
    for number in range(20):
        bench.filler(topic).send_many([Record(b"%d" % number, key) for key in keys])
    found = bench.take(bench.reader(topic), 200)
    for key in keys:
        bench.equal([m.value for m in found if m.key == key], [b"%d" % number for number in range(20)])


@case("KEY-03", needs=("keys",))
def test_any_key(bench: Bench) -> None:
    """A key is any bytes; an empty key differs from no key."""
    topic, keys = bench.topic(), [b"plain", b"", None, bytes(range(256)), "日本".encode(), b"\0"]
    bench.filler(topic).send_many([Record(b"v", key, partition=0) for key in keys])
    bench.equal([message.key for message in bench.read(topic)], keys)


@case("KEY-04", needs=("partitions",))
def test_explicit_partition(bench: Bench) -> None:
    """A partition that the sender names takes precedence, also over a key."""
    topic = bench.topic(partitions=3)
    key = b"key" if bench.client.capabilities.keys else None
    sent = [bench.filler(topic).send(b"x", key=key, partition=number) for number in (2, 0, 1, 2)]
    bench.equal([each.log.partition for each in sent], [2, 0, 1, 2])
    found = {message.id: message.partition for message in bench.take(bench.reader(topic), 4)}
    bench.equal([found.get(each) for each in sent], [2, 0, 1, 2])


@case("KEY-05", needs=("partitions",))
def test_no_such_partition(bench: Bench) -> None:
    """A partition that the topic does not have raises ``ValueError`` before anything is sent."""
    topic = bench.topic(partitions=2)
    for wrong in (2, -1, 10**9):
        with bench.raises(ValueError):
            bench.filler(topic).send(b"x", partition=wrong)
    with bench.raises(ValueError):
        bench.client.consumer(topic, start=EARLIEST, partitions=[0, 5])
    bench.equal(bench.read(topic), [])


@case("KEY-06", needs=("partitions",))
def test_without_a_key(bench: Bench) -> None:
    """Messages without a key reach every partition, in turn or in runs that stay together."""
    topic = bench.topic(partitions=3)
    in_turn = bench.producer(topic, partitioner="round_robin")
    ids = [*in_turn.send_many([b"x"] * 15), *(in_turn.send(b"x") for _ in range(15))]
    bench.equal(Counter(each.log.partition for each in ids), {0: 10, 1: 10, 2: 10})
    sticky = [each.log.partition for _ in range(20) for each in bench.filler(topic).send_many([b"x"] * 50)]
    bench.equal(set(sticky), {0, 1, 2})
    bench.that(sum(one != other for one, other in pairwise(sticky)) < 100, "runs of messages stay together")


@case("KEY-07", needs=("partitions",))
def test_partition_of_a_message(bench: Bench) -> None:
    """A message, and its id, name the partition that it came from."""
    topic = bench.topic(partitions=3)
    ids = {each: number for number in range(3) for each in bench.fill(topic, 2, partition=number)}
    for message in bench.take(bench.reader(topic), 6):
        bench.equal((message.partition, message.id.log.partition), (ids[message.id],) * 2)


@case("KEY-08", needs=("partitions",))
def test_one_partition_only(bench: Bench) -> None:
    """A consumer of some partitions gets those and no others."""
    topic = bench.topic(partitions=3)
    ids = [bench.fill(topic, 4, partition=number) for number in range(3)]
    reader = bench.reader(topic, partitions=[1])
    bench.delivers(reader, ids[1])
    bench.fill(topic, 1, partition=0)
    bench.only_new(reader, topic, partition=1)
    bench.equal([log.partition for log in reader.assignment()], [1])


def _two_members(bench: Bench, topic: str, group: str) -> tuple[list[Consumer], list[bytes]]:
    """Return members that both get messages, and a key of each. A key that moves later waits for acks."""
    members = [bench.member(topic, group, mode="key_shared") for _ in range(2)]
    sent: list[bytes] = []
    got: list[set[bytes]] = [set(), set()]

    def both_get() -> bool:
        fresh = [b"%d" % number for number in range(len(sent), len(sent) + (0 if all(got) else 4))]
        for key in fresh:
            bench.filler(topic).send(key, key=key, partition=0)
        sent.extend(fresh)
        taken = [member.receive_many(2, bench.waiting.poll) for member in members]
        for member, mine, messages in zip(members, got, taken, strict=True):
            for message in messages:
                member.ack(message)
                mine.add(message.value or b"")
            member.commit()
        return all(got) and set(sent) == set.union(*got)

    bench.wait(both_get, "both get messages")
    return members, [min(mine) for mine in got]


@case("KEY-10", needs=("key_shared", "keys"))
def test_one_member_for_a_key(bench: Bench) -> None:
    """In ``key_shared`` one member at a time has a key, and its messages come in order."""
    topic, group = bench.topic(), bench.name()
    members, keys = _two_members(bench, topic, group)
    keys += [b"k%d" % number for number in range(5)]
    got: list[list[Message]] = [[], []]

    def poll() -> bool:
        for member, mine in zip(members, got, strict=True):
            mine.extend(member.receive_many(1, bench.waiting.poll))
        return sum(map(len, got)) >= 49

    for number in range(49):
        bench.filler(topic).send(b"%d" % number, key=keys[number % 7], partition=0)
        if number % 7 == 6:
            poll()  # a member that does not poll for long may lose its keys to the other
    bench.wait(poll, "all came, none acked")
    bench.equal({m.key for m in got[0]} & {m.key for m in got[1]}, set())
    bench.that(got[0] and got[1], "both have some keys")
    for number, key in enumerate(keys):
        values = [int(m.value or b"") for mine in got for m in mine if m.key == key]
        bench.equal(values, list(range(number, 49, 7)))
    members[0].close()
    heir = bench.take(members[1], len(got[0]))
    for each in {m.key for m in got[0]}:
        bench.equal([m.id for m in heir if m.key == each], [m.id for m in got[0] if m.key == each])


@case("KEY-11", needs=("key_shared", "keys"))
def test_an_empty_key(bench: Bench) -> None:
    """In ``key_shared`` one member has the messages of an empty key, in order; those without a key do not wait."""
    topic, group, keys = bench.topic(), bench.name(), (b"", None, None)  # with two, members in turn get one each
    members, _ = _two_members(bench, topic, group)
    got: list[list[Message]] = [[], []]

    def poll() -> bool:
        for member, mine in zip(members, got, strict=True):
            mine.extend(member.receive_many(1, bench.waiting.poll))
        return sum(map(len, got)) >= 24

    for number in range(24):
        bench.filler(topic).send(b"%d" % number, key=keys[number % 3], partition=0)
        if number % 6 == 5:
            poll()
    bench.wait(poll, "all came, none acked")
    found = {message.value: message.key for mine in got for message in mine}
    bench.equal(found, {b"%d" % number: keys[number % 3] for number in range(24)})
    holders = {number for number, mine in enumerate(got) for message in mine if message.key == b""}
    bench.equal(len(holders), 1)
    (has,) = holders
    owned = [message.id for message in got[has] if message.key == b""]
    bench.equal(owned, sorted(owned))
    members[has].close()
    heir = bench.take(members[1 - has], len(got[has]))
    bench.equal([message.id for message in heir if message.key == b""], owned)


@case("KEY-12", needs=("keys", "partitions"))
def test_crc32(bench: Bench) -> None:
    """With ``crc32`` a key goes where librdkafka's default puts it, and an empty key always to the same partition."""
    topic = bench.topic(partitions=5)
    expected = [code % 5 for code in CRC32.values()]
    out = bench.producer(topic, partitioner="crc32")
    together = out.send_many([Record(b"1", key) for key in CRC32])
    handles = [out.submit(b"2", key=key) for key in CRC32]
    for ids in (together, [handle.result() for handle in handles], [out.send(b"3", key=key) for key in CRC32]):
        bench.equal([each.log.partition for each in ids], expected)
    sticky = {each.log.partition for each in out.send_many([b"4"] * 20)}
    bench.equal(len(sticky), 1)


@case("KEY-15", needs=("add_partitions", "multi_client", "partitions"))
def test_partitions_that_others_added(bench: Bench) -> None:
    """An open producer uses partitions that another client added."""
    topic, other = bench.topic(partitions=2), bench.connect(bench.harness.admin)
    keys = [b"%d" % number if bench.client.capabilities.keys else None for number in range(1000)]
    in_turn = bench.producer(topic, partitioner="round_robin", partitions_refresh=0.2)
    keyed = bench.producer(topic, partitions_refresh=0.2)
    keyed.send(b"before", key=keys[0])
    in_turn.send_many([b"before"] * 2)
    other.add_partitions(topic, 3)
    _reaches_all(bench, "by key", lambda number: keyed.send(b"x", key=keys[number % 1000]))
    _reaches_all(bench, "in turn", lambda _: in_turn.send(b"x"))
    _reaches_all(bench, "in batches", lambda _: in_turn.send_many([b"x"])[0])
    _reaches_all(bench, "without waiting", lambda _: in_turn.submit(b"x").result())
    run_in_loop(bench, _reaches_all_in_loop(bench, topic, other))


def _reaches_all(bench: Bench, way: str, send: Callable[[int], MessageId]) -> None:
    numbers, reached = count(), set[int]()

    def reaches_all() -> bool:
        reached.add(send(next(numbers)).log.partition)
        return reached == {0, 1, 2}

    bench.wait(reaches_all, f"messages sent {way} reach all partitions")


async def _reaches_all_in_loop(bench: Bench, topic: str, other: Client) -> None:
    async with (
        bench.aio() as mq,
        mq.producer(topic, partitioner="round_robin", partitions_refresh=0.2) as producer,
    ):
        await producer.send(b"before")
        await asyncio.to_thread(other.add_partitions, topic, 4)
        reached = set[int]()
        with suppress(TimeoutError):
            async with asyncio.timeout(bench.patience):
                while reached != {0, 1, 2, 3}:
                    reached.add((await producer.send(b"x")).log.partition)
        bench.equal(reached, {0, 1, 2, 3})


KEYS = (b"a", b"b", b"c")


class NotYet(Exception):
    """The error of a handler whose message has to come again."""


@case("KEY-13", needs=("keys", "ordered", "durable_groups", "individual_ack"))
def test_handled_by_key(bench: Bench) -> None:
    """With ``order="key"`` a failed message blocks only its own key, and later ones that were handled stay acked."""
    topic, group = bench.topic(), bench.name()
    out = bench.producer(topic)
    ids = [out.send(b"%d" % number, key=KEYS[number % 3], partition=0) for number in range(15)]
    others = {each for number, each in enumerate(ids) if number % 3}
    handled: list[MessageId] = []
    tries: list[MessageId] = []
    end = time.monotonic() + bench.patience

    def handle(message: Message) -> None:
        if message.id == ids[3]:
            tries.append(message.id)
            if len(tries) > 1 and (others <= set(handled) or time.monotonic() > end):
                member.stop()
            raise NotYet
        handled.append(message.id)

    member = bench.member(topic, group, retry=Retry(None, delay=0.05))
    member.run(handle, threads=4, order="key")
    member.close()
    for number in range(3):
        mine = [each for each in handled if each in ids[number::3]]
        bench.equal(mine, ids[:1] if number == 0 else ids[number::3], f"key {number} was handled in its order")
    bench.that(len(tries) > 1, "the failed message came again")
    bench.delivers(bench.member(topic, group), ids[3::3], "unhandled messages come again, and nothing else")


@case(
    "KEY-14",
    needs=("keys", "ordered", "durable_groups", "individual_ack", "persistent"),
    hooks=("second_process",),
    timeout=180,
    profile="full",
)
def test_killed_while_handling(bench: Bench) -> None:
    """A kill during ``run(order="key")`` repeats the unacked messages, and none of a key that was finished."""
    topic, group = bench.topic(), bench.name()
    out = bench.producer(topic)
    ids = [out.send(b"%d" % number, key=KEYS[number % 3], partition=0) for number in range(30)]
    with bench.away(), ChildProcess(HANDLES, str(bench.harness.second_process), topic, group) as child:
        child.wait_for(1, 2 * bench.patience)
        child.kill()
    bench.delivers(bench.member(topic, group), ids[3::3], "the key that was being handled comes again, and no other")


# Handles all messages of the keys b and c, and one of the key a; prints a line once they are committed, and waits.
HANDLES = """
import sys, threading, time, mqplug
url, topic, group = sys.argv[1:]
done, lock = [], threading.Lock()
def handle(message):
    while message.key == b"a" and message.value != b"0":
        time.sleep(1)
    with lock:
        done.append(message.id)
with mqplug.connect(url) as client, client.consumer(topic, group=group) as member:
    running = threading.Thread(target=member.run, args=(handle,), kwargs={"threads": 8, "order": "key"}, daemon=True)
    running.start()
    while len(done) < 21:
        time.sleep(0.05)
    time.sleep(0.05)
    member.commit()
    print("stored", flush=True)
    time.sleep(600)
"""
