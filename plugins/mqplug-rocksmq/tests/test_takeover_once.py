"""Requests to an owner that has ended are carried out once by the next one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from rocksmq_stores import OpenStore, line, new_log, nightly, python, values
from store_seam import OnceRequest, PageColumns

import mqplug
from mqplug import OutcomeUnknown
from mqplug_rocksmq._format.keys import ORIGIN
from mqplug_rocksmq._format.page import encode_page
from mqplug_rocksmq._processes.client_connection import OwnerGone
from mqplug_rocksmq._processes.resending import NumberedSend, ResendingSink, SendOutcome
from mqplug_rocksmq._store.repeated_requests import SLOT_COUNT, Origin

DIES_AFTERWARDS = """
import mqplug_rocksmq._processes.requests as answers
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("orders")
mq.create_topic("old")
with mq.consumer("orders", group="g"):
    pass
administer = answers._CALLS["administer"]
def once(*arguments, **options):
    administer(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
answers._CALLS["administer"] = once
print("ready", flush=True)
threading.Event().wait()
"""


ONCE = {
    "create": lambda mq: mq.create_topic("new", partitions=2),
    "grow": lambda mq: mq.add_partitions("orders", 3),
    "delete": lambda mq: mq.delete_topic("old"),
    "delete a group": lambda mq: mq.delete_group("g"),
}


@pytest.mark.parametrize("what", ["create", "delete", *nightly("grow", "delete a group")])
def test_what_is_administered_is_done_once(path: Path, what: str) -> None:
    """If an owner dies after carrying out an action but before it answers, the next one knows that it is done."""
    with python(DIES_AFTERWARDS, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            ONCE[what](mq)
            assert owner.wait(20) == -signal.SIGKILL
            assert mq.topics() == {"create": ["new", "old", "orders"], "delete": ["orders"]}.get(
                what, ["old", "orders"]
            )
            assert len(mq.partitions("orders")) == (3 if what == "grow" else 1)
            with pytest.raises((mqplug.TopicExists, mqplug.TopicNotFound, mqplug.GroupNotFound, ValueError)):
                ONCE[what](mq)  # repeated by another client, it is refused as usual


def test_what_was_deleted_and_made_again_is_not_deleted_again(path: Path) -> None:
    """A deletion that is repeated because its answer was lost spares a newer topic or group of the same name."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        home, request = mq._connection, OnceRequest(os.urandom(16))
        assert home.administer(mqplug.spi.DeleteTopic("orders"), 10, request)
        mq.create_topic("orders")
        assert home.administer(mqplug.spi.DeleteTopic("orders"), 10, request._replace(again=True))
        assert mq.topics() == ["orders"]


def test_a_send_with_a_number_is_stored_once(open_store: OpenStore) -> None:
    """A send repeated under its number gets its existing offset, also from the next opener of the store."""
    store = open_store(sync="always")
    log = new_log(store)
    body = [encode_page(PageColumns([1000], [b"a"]))]
    name = os.urandom(16)
    assert [store.append_bodies(log, body, None, Origin(name, each)) for each in range(3)] == [0, 1, 2]
    assert store.append_bodies(log, body, None, Origin(name, 1, again=True)) == 1
    store.close()
    store = open_store(sync="always")
    assert store.append_bodies(log, body, None, Origin(name, 2, again=True)) == 2
    assert store.append_bodies(log, body, None, Origin(name, 3, again=True)) == 3
    assert store.append_bodies(log, body, None, Origin(os.urandom(16), 2, again=True)) == 4
    assert values(store, log) == [b"a"] * 5


def test_a_repeated_send_after_its_topic_was_replaced(open_store: OpenStore) -> None:
    """A send repeated after its topic was deleted and created again is stored once in the new topic."""
    store = open_store(sync="os")
    old = new_log(store, "orders")
    body = [encode_page(PageColumns([1000], [b"a"]))]
    name = os.urandom(16)
    assert [store.append_bodies(old, body, None, Origin(name, each)) for each in range(2)] == [0, 1]
    store.topics.delete("orders", 30)
    log = new_log(store, "orders")
    for _ in range(2):
        assert store.append_bodies(log, body, None, Origin(name, 1, again=True)) == 0
    assert values(store, log) == [b"a"]


def test_what_is_known_of_producers_is_bounded(open_store: OpenStore) -> None:
    """A producer has a few slots, which are removed with it, or when it does not return."""
    store = open_store(sync="os")
    log = new_log(store)
    body = [encode_page(PageColumns([1000], [b"a"]))]
    one, other = os.urandom(16), os.urandom(16)
    store.deduplication.join(one)
    for name in (one, other):
        for number in range(3 * SLOT_COUNT):
            store.append_bodies(log, body, None, Origin(name, number))
    assert len(store.engine.pages.scan(ORIGIN)) == 2 * SLOT_COUNT
    store.deduplication.forget_absent()
    assert len(store.engine.pages.scan(ORIGIN)) == 2 * SLOT_COUNT
    store.deduplication.forget_absent()
    assert len(store.engine.pages.scan(ORIGIN)) == SLOT_COUNT
    store.deduplication.leave(one, for_good=True)
    assert store.engine.pages.scan(ORIGIN) == []


class Broken:
    """An owner that accepts sends, and ends before it answers."""

    home = None

    def send(self, parcel: NumberedSend) -> bool:
        return True

    def receive(self, timeout: float) -> list[SendOutcome]:
        raise OwnerGone

    def drop(self) -> None:
        """Nothing is held."""

    def close(self, timeout: float) -> None:
        """Nothing is held."""


def test_what_no_owner_can_know_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send that was not answered for minutes is not repeated: no owner can know its outcome."""
    dispatch = ResendingSink(lambda name, failed, timeout: Broken(), 1)
    settled: list[mqplug.Error | None] = []
    dispatch.append(
        "orders", 0, [encode_page(PageColumns([1], [b"x"]))], lambda log, first, error: settled.append(error)
    )
    dispatch.serve(0)
    dispatch.serve(0)
    assert settled == []
    now = time.monotonic()
    monkeypatch.setattr("mqplug_rocksmq._processes.resending.time.monotonic", lambda: now + 1000)
    dispatch.serve(0)
    assert [type(error) for error in settled] == [OutcomeUnknown]
