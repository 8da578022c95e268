"""Ctrl-C during a write: memory and disk agree, whichever of them it interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from rocksmq_stores import eventually, native, nightly
from store_seam import PageColumns, Store
from transaction_drivers import Sent, hold, read, step

import mqplug


class Press(Protocol):
    """Sends Ctrl-C with a write, after a number of others: just before it, or right after it."""

    def __call__(self, late: bool, after: int = 0) -> None: ...


@pytest.fixture(params=["always", *nightly("interval", "os")])
def mq(path: Path, request: pytest.FixtureRequest) -> Iterator[mqplug.Client]:
    """A store, in each mode."""
    with mqplug.connect("rocksmq", path=str(path), sync=request.param) as client:
        yield client


@pytest.fixture
def store(mq: mqplug.Client) -> Store:
    """The store of this process."""
    return native(mq)


@pytest.fixture
def press(store: Store, monkeypatch: pytest.MonkeyPatch) -> Press:
    """Send Ctrl-C during the block."""
    pages = store.engine.pages
    pages_write = pages.write

    def press(late: bool, after: int = 0) -> None:
        left = iter(range(after))

        def write(changes: Any) -> None:
            if next(left, None) is not None:
                return pages_write(changes)
            monkeypatch.undo()
            if late:
                pages.write(changes)
            raise KeyboardInterrupt

        monkeypatch.setattr(pages, "write", write)

    return press


def test_ctrl_c_within_a_write(mq: mqplug.Client, store: Store, press: Press) -> None:
    """A write that Ctrl-C interrupts, before or after it is stored, leaves a store that continues without a hole."""
    mq.create_topic("orders")
    log = store.topics.get("orders").logs[0]
    for late in (False, True):
        store.append(log, PageColumns([1], [b"before"]), lambda *_: None)
        press(late)
        with pytest.raises(KeyboardInterrupt):
            store.append(log, PageColumns([1], [b"cut short"]), lambda *_: None)
    with mq.producer("orders") as out:
        out.send(b"after")
    values = [message.value for message in mq.read("orders")]
    assert values == [b"before", b"before", b"cut short", b"after"]


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_within_a_change(mq: mqplug.Client, press: Press, late: bool) -> None:
    """A topic whose creation Ctrl-C interrupts either exists or does not; it can then be created and used."""
    mq.create_topic("orders")
    press(late)
    with pytest.raises(KeyboardInterrupt):
        mq.create_topic("letters", partitions=2)
    there = {"orders", "letters"} if late else {"orders"}
    assert set(mq.topics()) == there
    mq.create_topic("letters", partitions=2, exist_ok=late)
    with mq.producer("letters") as out:
        for value in (b"1", b"2"):
            out.send(value, partition=1)
    assert [message.value for message in mq.read("letters")] == [b"1", b"2"]


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_within_a_deletion(mq: mqplug.Client, press: Press, late: bool) -> None:
    """A topic whose deletion Ctrl-C interrupts is complete or gone, and its name can be used."""
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        out.send(b"old")
    press(late)
    with pytest.raises(KeyboardInterrupt):
        mq.delete_topic("orders")
    assert [message.value for topic in mq.topics() for message in mq.read(topic)] == ([] if late else [b"old"])
    mq.create_topic("orders", exist_ok=True)
    with mq.producer("orders") as out:
        out.send(b"new")
    assert [message.value for message in mq.read("orders")] == ([b"new"] if late else [b"old", b"new"])


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_within_a_trim(mq: mqplug.Client, press: Press, late: bool) -> None:
    """A trim that Ctrl-C interrupts has removed all of its messages, or none."""
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        ids = [out.send(b"%d" % number) for number in range(4)]
    press(late)
    with pytest.raises(KeyboardInterrupt):
        mq.trim("orders", {0: mqplug.Position(ids[2].log, (2,))})
    left = [b"2", b"3"] if late else [b"0", b"1", b"2", b"3"]
    assert [message.value for message in mq.read("orders")] == left
    assert mq.watermarks("orders")[0].count == len(left)


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_within_an_ingest(
    mq: mqplug.Client, press: Press, monkeypatch: pytest.MonkeyPatch, late: bool, after: int
) -> None:
    """An ingest that Ctrl-C interrupts in any step is stored once when it is repeated."""
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        out.send(b"before")
    with mq.stage("orders") as stage:
        stage.write([b"1", b"2"])
        staged = stage.finish()
    press(late, after)
    with suppress(KeyboardInterrupt):  # an ingest may have fewer writes
        mq.ingest(staged, writer="w", number=0)
    monkeypatch.undo()
    mq.ingest(staged, writer="w", number=0)
    with mq.producer("orders") as out:
        out.send(b"after")
    assert [message.value for message in mq.read("orders")] == [b"before", b"1", b"2", b"after"]


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_within_a_commit(mq: mqplug.Client, press: Press, late: bool) -> None:
    """A commit that Ctrl-C interrupts is stored and visible in all its topics, or in none."""
    for topic in ("orders", "audit"):
        mq.create_topic(topic)
    driver, records = hold(mq), [Sent(b"1"), Sent(b"2", "audit")]
    press(late)
    with pytest.raises(KeyboardInterrupt):
        step(driver, *records, mark=("orders", 1))
    assert all(isinstance(record.outcome, mqplug.OutcomeUnknown) for record in records)
    if late:
        eventually(lambda: (read(mq), read(mq, "audit")) == ([b"1"], [b"2"]))
    assert step(driver, mark=("orders", 1)) == late
    step(driver, Sent(b"3"), Sent(b"4", "audit"))
    assert (read(mq), read(mq, "audit")) == (([b"1", b"3"], [b"2", b"4"]) if late else ([b"3"], [b"4"]))
