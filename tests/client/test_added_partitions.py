"""All producers of a client find partitions that other clients added, with one request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from core_waits import set_core_wait

import mqplug
from mqplug_testing.faults import Faults, Rule
from mqplug_testing.recording import Recorder


@pytest.fixture
def other() -> Iterator[mqplug.Client]:
    """Another client of the store, which adds partitions."""
    with mqplug.connect("memory://grown") as client:
        for topic in ("orders", "invoices"):
            client.create_topic(topic)
        yield client
        for topic in client.topics():
            client.delete_topic(topic)


def reaches(partition: int, send: Callable[[], mqplug.MessageId]) -> None:
    """Send until a message goes to this partition."""
    deadline = time.monotonic() + 20
    while send().log.partition != partition:
        assert time.monotonic() < deadline


def test_one_look_serves_all_producers(other: mqplug.Client) -> None:
    """One request describes the topics of all producers of a client."""
    recorder = Recorder()
    with mqplug.connect("memory://grown", extensions=[recorder]) as mq:
        orders = mq.producer("orders", partitioner="round_robin", partitions_refresh=0.5)
        anywhere = mq.producer(partitioner="round_robin", partitions_refresh=0.5)
        anywhere.send(b"x", topic="invoices")
        opened = len(list(recorder.calls()))
        for topic in ("orders", "invoices"):
            other.add_partitions(topic, 2)
        reaches(1, lambda: orders.send(b"x"))
        reaches(1, lambda: anywhere.send(b"x", topic="invoices"))
        calls = [call.operation for call in list(recorder.calls())[opened:]]
        assert set(calls) == {"send", "describe_topics"}
        assert calls.count("describe_topics") <= 3


def test_a_look_that_fails_is_made_up_for(other: mqplug.Client) -> None:
    """After an outage, the next refresh finds the added partitions."""
    faults = Faults([Rule("describe_topic", "fail", nth=2)])
    with (
        mqplug.connect("memory://grown", extensions=[faults]) as mq,
        mq.producer("orders", partitioner="round_robin", partitions_refresh=0.2) as orders,
    ):
        other.add_partitions("orders", 2)
        reaches(1, lambda: orders.send(b"x"))


def test_a_deleted_topic_does_not_hide_others(other: mqplug.Client) -> None:
    """If one topic is deleted, a producer of many topics still finds the new partitions of the others."""
    with (
        mqplug.connect("memory://grown") as mq,
        mq.producer(partitioner="round_robin", partitions_refresh=0.2) as anywhere,
    ):
        for topic in ("orders", "invoices"):
            anywhere.send(b"x", topic=topic)
        other.delete_topic("orders")
        other.add_partitions("invoices", 2)
        reaches(1, lambda: anywhere.send(b"x", topic="invoices"))


def test_transactions_learn_too(other: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transactional name that is held for long sends to partitions that were added in between."""
    set_core_wait(monkeypatch, "look for partitions in a transaction", 0.2)
    with mqplug.connect("memory://grown") as mq:

        def send() -> mqplug.MessageId:
            with mq.transaction("biller", "orders", partitioner="round_robin") as step:
                handle = step.send(b"x")
            return handle.result()

        assert send().log.partition == 0
        other.add_partitions("orders", 2)
        reaches(1, send)


@pytest.mark.parametrize(("seconds", "kind"), [(0, ValueError), (-1, ValueError), ("1", TypeError), (None, TypeError)])
def test_times_that_cannot_be_meant(other: mqplug.Client, seconds: object, kind: type[Exception]) -> None:
    """The time between two refreshes must be a number above 0."""
    with pytest.raises(kind, match="partitions_refresh"):
        other.producer("orders", partitions_refresh=seconds)  # type: ignore[arg-type]
