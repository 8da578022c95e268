"""FLT: requests that arrive, and answers that do not."""

from __future__ import annotations

import time
from collections.abc import Callable

from mqplug import Consumer, Error, MessageId, OutcomeUnknown, Producer, SendHandle
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import RECOVERY, check_values, patiently

case = Registry()

ROUNDS = 3
AT_ONCE = 5  # records that are on their way together
WAITS_S = 2.0  # for a send whose answer does not come
SLACK_S = 2.5  # that a busy machine may take beyond it


@case("FLT-17", hooks=("drop_replies", "heal_network"), timeout=300, profile="full")
def test_lost(bench: Bench) -> None:
    """When the answer to a send is lost its outcome is unknown, or told later; what is called failed is not there."""
    _trouble(bench, bench.harness.drop_replies)


@case("FLT-18", hooks=("stall_replies", "heal_network"), timeout=300, profile="full")
def test_late(bench: Bench) -> None:
    """Answers that come late belong to what was asked then: no send, receive or commit takes another's answer."""
    _trouble(bench, bench.harness.stall_replies)


@case("FLT-19", hooks=("reset_replies", "heal_network"), timeout=300, profile="full")
def test_reset(bench: Bench) -> None:
    """When a connection breaks between a request and its answer nothing is lost, invented, or put out of order."""
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
        bench.wait(lambda: sent.one(producer, bench.patience), "what is sent now is stored", within=RECOVERY)
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
    bench.wait(lambda: sent.one(producer, bench.patience), "what is sent in the end is stored", within=RECOVERY)
    bench.wait(lambda: all(handle.done for handle in sent.handles), "each has an outcome", within=RECOVERY)
    found = {message.id: message.value for message in bench.connect().read(topic)}
    told = {handle.result(0): value for value, handle in sent.each() if handle.error is None}
    bench.equal({each: found.get(each) for each in told}, told, "what was called stored is there, under its id")
    failed = {value for value, handle in sent.each() if handle.error and not isinstance(handle.error, OutcomeUnknown)}
    bench.equal(failed & set(found.values()), set(), "what was called failed is not there")
    check_values(bench, [value or b"" for value in found.values()], len(sent.handles))
    for consumer, ids in zip(consumers, came, strict=True):
        ids += [message.id for message in patiently(bench, consumer, {list(found)[-1]})]
        seen = ids
        if consumer.group is not None:  # it may have lost its session: then what it had not stored comes again
            again = [each for each in ids[stored:] if stored and each <= ids[stored - 1]]
            bench.equal(again, [], "what was stored as acked does not come again")
            seen = list(dict.fromkeys(ids))
        bench.equal(seen, list(found), "nothing was passed over, and nothing came twice")


class Sent:
    """Sends 0, 1, 2 ..., and keeps what is told of each."""

    def __init__(self) -> None:
        self.handles: list[SendHandle] = []

    def some(self, producer: Producer) -> None:
        """Send some at once, and do not wait."""
        for _ in range(AT_ONCE):
            self._submit(producer)

    def one(self, producer: Producer, timeout: float) -> bool:
        """Send one and wait for it; whether it was stored."""
        try:
            self._submit(producer).result(timeout)
        except Error:
            return False
        return True

    def each(self) -> list[tuple[bytes, SendHandle]]:
        """Each value that was sent, and its handle."""
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
