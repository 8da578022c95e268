"""FLT: brokers that are suspended, unreachable or killed, and answers that are lost, late or cut off."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from mqplug import EARLIEST, LATEST, Client, Consumer, Error, MessageId, OutcomeUnknown, Producer, SendHandle
from mqplug_testing._case_tools.bench import Bench, captured_logs
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import (
    BROKER,
    OUTAGE,
    RECOVERY,
    Sender,
    check_values,
    outage,
    patiently,
    send_more,
    settled,
)

case = Registry()

STANDSTILL = 12.0  # seconds: longer than the session of a member lasts
LINES_A_SECOND = 5.0  # more would hide other lines


@case("FLT-04", needs=("persistent",), hooks=("pause", "unpause"), timeout=300, profile="full")
def test_paused(bench: Bench) -> None:
    """If the broker is suspended for longer than a session lasts, all continues afterwards, and nothing is lost."""
    assert bench.harness.pause is not None and bench.harness.unpause is not None
    _cut_off(bench, bench.harness.pause, bench.harness.unpause)


@case("FLT-05", needs=("persistent",), hooks=("cut_network", "heal_network"), timeout=300, profile="full")
def test_unreachable(bench: Bench) -> None:
    """If the network is cut for longer than a session lasts, everything continues afterwards, and nothing is lost."""
    assert bench.harness.cut_network is not None and bench.harness.heal_network is not None
    _cut_off(bench, bench.harness.cut_network, bench.harness.heal_network, by=bench.harness.behind_network)


def _cut_off(
    bench: Bench, begin: Callable[[], None], end: Callable[[], None], by: Callable[[], Client] | None = None
) -> None:
    topic, able = bench.topic(), bench.client.capabilities
    client = bench.connect(by)
    consumers = [client.consumer(topic, start=EARLIEST)]
    if able.durable_groups and able.ordered:
        consumers.append(bench.connect(by).consumer(topic, group=bench.name()))
    with Sender(client.producer(topic)) as sender:
        send_more(bench, sender)
        for consumer in consumers:
            bench.take(consumer, 10)
        begin()
        time.sleep(STANDSTILL * bench.scale)
        end()
        send_more(bench, sender)
    stored = settled(bench, sender)
    values = {message.id: message.value or b"" for message in bench.connect().read(topic)}
    bench.equal(stored - values.keys(), set(), "the stored messages are there")
    check_values(bench, list(values.values()), len(sender.handles))
    for consumer in consumers:
        patiently(bench, consumer, set(list(values)[10:]))


@case("FLT-10", needs=("persistent",), hooks=BROKER, timeout=300, profile="full")
def test_duplicates(bench: Bench) -> None:
    """Only messages in flight when the broker was killed may be stored twice; if sends are idempotent, none."""
    topic, in_doubt = bench.topic(), set[bytes | None]()
    with Sender(bench.producer(topic)) as sender:
        for _ in range(2):
            send_more(bench, sender)
            in_doubt.update(value for value, handle in sender.sent() if not handle.done)
            with outage(bench):
                in_doubt.update(value for value, handle in sender.sent() if not handle.done)
    settled(bench, sender)
    counts = Counter(message.value for message in bench.connect().read(topic))
    twice = {value for value, count in counts.items() if count > 1}
    bench.that(counts, "messages were stored")
    bench.equal(twice if bench.client.capabilities.idempotent_producer else twice - in_doubt, set())


@case("FLT-12", needs=("persistent",), hooks=OUTAGE, timeout=300, profile="full")
def test_told(bench: Bench) -> None:
    """While the broker is away the log says so, in a few lines and not repeatedly."""
    topic, ids = bench.filled(3)
    reader = bench.reader(topic, LATEST)
    bench.rests(reader)
    with captured_logs("mqplug", logging.WARNING) as lines:
        began = time.monotonic()
        with outage(bench):
            while time.monotonic() - began < 5 * bench.scale:
                with suppress(Error):
                    reader.receive(bench.waiting.nothing)
        sent: MessageId = bench.connect().producer(topic).send(b"after", partition=0)
        patiently(bench, reader, {sent})
        seconds = time.monotonic() - began
    bench.that(sent > ids[-1], "the broker is back")
    bench.that(lines, "the log says that the broker cannot be reached")
    most = 5 + LINES_A_SECOND * seconds
    bench.that(len(lines) <= most, f"{len(lines)} lines in {seconds:.0f} s, such as {lines[-3:]}")


@case("FLT-09", needs=("multi_node",), hooks=("kill_node", "start_node"), timeout=300, profile="full")
def test_one_node_down(bench: Bench) -> None:
    """While one of several nodes is down, sends and reads work as before; when it is back, nothing is missing."""
    assert bench.harness.kill_node is not None and bench.harness.start_node is not None
    topic = bench.topic()
    reader = bench.reader(topic)
    with Sender(bench.producer(topic)) as sender:
        send_more(bench, sender)
        bench.harness.kill_node()
        try:
            send_more(bench, sender)
            stored = {handle.result(0) for handle in sender.handles if handle.done and handle.error is None}
            patiently(bench, reader, stored)
            bench.that(stored <= {each.id for each in bench.connect().read(topic)}, "a client that connects now reads")
        finally:
            bench.harness.start_node()
        send_more(bench, sender)
    stored = settled(bench, sender)
    values = {message.id: message.value or b"" for message in bench.connect().read(topic)}
    bench.equal(stored - values.keys(), set(), "the stored messages are there")
    check_values(bench, list(values.values()), len(sender.handles))


@case("FLT-16", needs=("persistent", "durable_groups"), hooks=BROKER, level="should", timeout=300, profile="full")
def test_verdict(bench: Bench) -> None:
    """How a group received while the broker was killed is reported: exactly or at least once, never at most once."""
    topic, came = bench.topic(), Counter[bytes | None]()
    member = bench.member(topic, bench.name())
    with Sender(bench.producer(topic)) as sender:
        for _ in range(2):
            send_more(bench, sender)
            _work(bench, member, came)
            with outage(bench):
                pass
        send_more(bench, sender)
    settled(bench, sender)
    stored = {value for value, handle in sender.sent() if handle.error is None}
    bench.wait(lambda: stored <= _work(bench, member, came).keys(), "all came", within=RECOVERY)
    again = sum(came.values()) - len(came)
    verdict = "exactly once" if not again else "at least once"
    print(f"{bench.client.backend}: {verdict}: {len(stored)} stored, {len(came)} came, {again} came again")  # noqa: T201
    bench.that(not again or not bench.client.capabilities.exactly_once, f"{again} came again")


def _work(bench: Bench, member: Consumer, came: Counter[bytes | None]) -> Counter[bytes | None]:
    """Receive the available messages, and ack them."""
    with suppress(Error):
        for message in member.receive_many(1000, bench.waiting.nothing):
            came[message.value] += 1
            member.ack(message)
        member.commit(bench.waiting.nothing)
    return came


ROUNDS = 3
AT_ONCE = 5  # records that are in flight together
WAITS_S = 2.0  # for a send whose answer does not come
SLACK_S = 2.5  # that a busy machine may take beyond it


@case("FLT-17", hooks=("drop_replies", "heal_network"), timeout=300, profile="full")
def test_lost(bench: Bench) -> None:
    """When the answer to a send is lost, its outcome is unknown until it is reported; no failed send is stored."""
    _trouble(bench, bench.harness.drop_replies)


@case("FLT-18", hooks=("stall_replies", "heal_network"), timeout=300, profile="full")
def test_late(bench: Bench) -> None:
    """A late answer belongs to its own request: no send, receive or commit takes another's answer."""
    _trouble(bench, bench.harness.stall_replies)


@case("FLT-19", hooks=("reset_replies", "heal_network"), timeout=300, profile="full")
def test_reset(bench: Bench) -> None:
    """When a connection is reset between a request and its answer, nothing is lost, invented or out of order."""
    _trouble(bench, bench.harness.reset_replies)


def _trouble(bench: Bench, begin: Callable[[], None] | None) -> None:
    assert begin is not None and bench.harness.heal_network is not None
    topic, client = bench.topic(), bench.connect(bench.harness.behind_network)
    able, stored = client.capabilities, 0
    producer, sent = client.producer(topic), Sent()
    consumers = [client.consumer(topic, start=bench.marks(topic).low)]
    if able.durable_groups and able.ordered:
        consumers.append(bench.connect(bench.harness.behind_network).consumer(topic, group=bench.name()))
    came: list[list[MessageId]] = [[] for _ in consumers]
    for _ in range(ROUNDS):
        bench.wait(lambda: sent.one(producer, bench.patience), "a message sent now is stored", within=RECOVERY)
        for consumer, ids in zip(consumers, came, strict=True):
            ids.append(_takes_one(bench, consumer))
        begin()
        try:
            sent.some(producer)
            began = time.monotonic()
            sent.one(producer, WAITS_S)
            took = time.monotonic() - began
            bench.that(
                took < WAITS_S + SLACK_S * bench.scale, f"a send with a timeout of {WAITS_S:g} s took {took:.1f}"
            )
            for consumer, ids in zip(consumers, came, strict=True):
                stored = len(ids) if _commits(bench, consumer) else stored
        finally:
            bench.harness.heal_network()
    bench.wait(lambda: sent.one(producer, bench.patience), "the last message is stored", within=RECOVERY)
    bench.wait(lambda: all(handle.done for handle in sent.handles), "each has an outcome", within=RECOVERY)
    found = {message.id: message.value for message in bench.connect().read(topic)}
    reported = {handle.result(0): value for value, handle in sent.each() if handle.error is None}
    bench.equal({each: found.get(each) for each in reported}, reported, "messages reported as stored have their ids")
    failed = {value for value, handle in sent.each() if handle.error and not isinstance(handle.error, OutcomeUnknown)}
    bench.equal(failed & set(found.values()), set(), "messages reported as failed are not there")
    check_values(bench, [value or b"" for value in found.values()], len(sent.handles))
    for consumer, ids in zip(consumers, came, strict=True):
        ids += [message.id for message in patiently(bench, consumer, {list(found)[-1]})]
        seen = ids
        if (
            consumer.group is not None
        ):  # it may have lost its session: then messages whose acks were not stored come again
            again = [each for each in ids[stored:] if stored and each <= ids[stored - 1]]
            bench.equal(again, [], "messages whose acks were stored do not come again")
            seen = list(dict.fromkeys(ids))
        bench.equal(seen, list(found), "nothing was skipped, and nothing came twice")


class Sent:
    """Sends 0, 1, 2 ..., and keeps the handle of each."""

    def __init__(self) -> None:
        self.handles: list[SendHandle] = []

    def some(self, producer: Producer) -> None:
        """Send some at once, and do not wait."""
        for _ in range(AT_ONCE):
            self._submit(producer)

    def one(self, producer: Producer, timeout: float) -> bool:
        """Send one and wait for it. Return whether it was stored."""
        try:
            self._submit(producer).result(timeout)
        except Error:
            return False
        return True

    def each(self) -> list[tuple[bytes, SendHandle]]:
        """Return each sent value with its handle."""
        return [(b"%d" % number, handle) for number, handle in enumerate(self.handles)]

    def _submit(self, producer: Producer) -> SendHandle:
        self.handles.append(producer.submit(b"%d" % len(self.handles), partition=0))
        return self.handles[-1]


def _takes_one(bench: Bench, consumer: Consumer) -> MessageId:
    """Receive a message, and ack it if there is a group."""
    found: list[MessageId] = []

    def came() -> bool:
        try:
            message = consumer.receive(bench.waiting.nothing)
        except Error as error:
            bench.that(error.retryable, f"{error!r} is retryable")
            return False
        if message is not None:
            found.append(message.id)
            if consumer.group is not None:
                consumer.ack(message)
        return bool(found)

    bench.wait(came, "a message comes", within=RECOVERY)
    return found[0]


def _commits(bench: Bench, consumer: Consumer) -> bool:
    """Store the acks, if that can be done now. Return whether they are stored."""
    if consumer.group is None:
        return False
    try:
        consumer.commit(WAITS_S / 2)
    except Error as error:
        bench.that(error.retryable, f"{error!r} is retryable")
        return False
    return True
