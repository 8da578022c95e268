"""When the owner of a store ends, another process takes over, and all clients continue where they were."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from core_waits import set_core_wait
from owner_takeover import HOLDER, closed, killed, owned_elsewhere, owns, take
from rocksmq_stores import line, native, nightly, python

import mqplug
from mqplug import EARLIEST, LATEST


@pytest.mark.parametrize("end", [killed, closed])
def test_everything_goes_on(path: Path, end: object) -> None:
    """Readers, members and producers continue where they were, in the same objects."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        ids = list(out.send_many([b"%d" % each for each in range(10)]))
        with mq.consumer("orders", start=EARLIEST) as reader, mq.consumer("orders", group="g") as member:
            assert [reader.receive(5), reader.receive(5)]
            for message in member.receive_many(4, 5):
                member.ack(message)
            end(owner)  # type: ignore[operator]
            ids.append(out.send(b"after"))
            assert owns(mq)
            assert [message.id for message in take(reader, 9)] == ids[2:]
            assert [message.id for message in take(member, 7, ack=True)] == ids[4:]
            reader.seek(ids[3])
            member.seek(ids[8])
            assert [message.id for message in take(reader, 8)] == ids[3:]
            assert [message.id for message in take(member, 3)] == ids[8:]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("times", [1, *nightly(3)])
def test_a_takeover_takes_seconds(path: Path, times: int) -> None:
    """A takeover takes seconds, from the owner's death to the next answer to a sender, a reader and a member.

    On an idle machine it takes less than one second, and never the 30 of the session or the 10 of the search.
    """
    for number in range(times):
        took = takeover(path / str(number))
        assert max(took.values()) < 9, took


def takeover(path: Path) -> dict[str, float]:
    """Kill an owner with active clients, and measure when each of them continues."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        out.send(b"before")
        members = [mq.consumer("orders", group=mode, mode=mode) for mode in ("ordered", "shared")]
        consumers = {"reader": mq.consumer("orders", start=EARLIEST), "ordered": members[0], "shared": members[1]}
        for consumer in consumers.values():
            take(consumer, 1, ack=consumer in members)
        times: dict[str, float] = {}
        killed(owner)
        began = time.monotonic()

        def wait(name: str) -> None:
            assert take(consumers[name], 1)[0].value == b"after"
            times[name] = time.monotonic() - began

        threads = [threading.Thread(target=wait, args=(name,)) for name in consumers]
        for thread in threads:
            thread.start()
        out.send(b"after")
        times["sender"] = time.monotonic() - began
        for thread in threads:
            thread.join()
        return times


def test_what_was_on_its_way_is_sent_again(path: Path) -> None:
    """Sends that a dead owner did not answer are answered by the next one, each stored once and in order."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        handles = [out.submit(b"%d" % each) for each in range(20_000)]
        owner.kill()
        handles += [out.submit(b"%d" % each) for each in range(20_000, 30_000)]
        ids = [handle.result(60) for handle in handles]
        assert [(message.id, message.value) for message in mq.read("orders")] == [
            (each, b"%d" % number) for number, each in enumerate(ids)
        ]


def test_a_paused_partition_stays_paused(path: Path) -> None:
    """A paused partition delivers nothing after a takeover until it is resumed."""
    with (
        owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out,
        mq.consumer("orders", start=LATEST) as reader,
    ):  # fmt: skip
        assert reader.receive(0) is None
        reader.pause()
        killed(owner)
        out.send(b"x")
        assert reader.receive(0.5) is None
        reader.resume()
        assert take(reader, 1)[0].value == b"x"


def test_acks_are_stored_by_the_next_owner(path: Path) -> None:
    """Messages acked but not committed when the owner died are stored as acked before the member rejoins."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        ids = out.send_many([b"%d" % each for each in range(6)])
        told: list[str] = []
        with mq.consumer(
            "orders", group="g",
            on_assigned=lambda logs: told.append("assigned"), on_revoked=lambda logs: told.append("revoked"),
        ) as member:  # fmt: skip
            batch = member.receive_many(6, 5)
            for number in (0, 1, 4):
                member.ack(batch[number])
            owner.kill()
            assert [message.id for message in take(member, 3)] == [ids[2], ids[3], ids[5]]
            assert told == ["assigned", "revoked", "assigned"]


@pytest.mark.parametrize("mode", ["shared", *nightly("key_shared")])
def test_members_that_share_keep_what_they_have(path: Path, mode: mqplug.spi.Mode) -> None:
    """When the owner is killed, members keep their messages, nothing comes again, and acks and nacks count."""
    told: list[str] = []
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        ids = out.send_many([mqplug.Record(b"%d" % each, key=b"%d" % each) for each in range(8)])
        with (
            mq.consumer("orders", group="g", mode=mode, on_revoked=lambda logs: told.append("revoked")) as one,
            mq.consumer("orders", group="g", mode=mode) as other,
        ):
            mine, others = one.receive_many(3, 5), other.receive_many(3, 5)
            assert [*mine.ids, *others.ids] == list(ids)[:6]
            killed(owner)
            for message in [*[*mine][:2], *others]:
                (one if message.id in mine.ids else other).ack(message)
            one.nack(mine[2], delay=0)
            one.commit()
            other.commit()
            came = {message.id: message.attempt for message in take(other, 3, ack=True)}
            assert came == {ids[2]: 2, ids[6]: 1, ids[7]: 1}
            other.commit()
            assert (one.receive(1.5), other.receive(0)) == (None, None)
            assert mq.lag("orders", group="g") == {0: 0}
            assert told == []


def test_the_last_client_hands_over(path: Path) -> None:
    """When a process closes its last client, a client process takes over the store, and can serve the former owner."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        closed(owner)
        out.send(b"x")
        assert owns(mq)
        with python(
            "with mqplug.connect('rocksmq', path=str(path)) as mq:\n    print(mq.topics())", path
        ) as next_guest:
            assert line(next_guest) == "['orders']"


def test_guests_of_one_process_with_other_settings(path: Path) -> None:
    """Clients of one process may differ in settings; when it becomes the owner, each has at least what it asked for."""
    with owned_elsewhere(path) as (owner, safe), mqplug.connect("rocksmq", path=str(path), sync="os") as quick:
        with quick.producer("orders") as careless, safe.producer("orders") as careful:
            careless.send(b"a")
            careful.send(b"b")
            killed(owner)
            careless.send(b"c")
            store = native(quick)
            assert store.settings.sync == "os"
            changes = store.engine.witness.read()
            careful.send(b"d")
            assert store.engine.witness.read() != changes
        assert [message.value for message in safe.read("orders")] == [b"a", b"b", b"c", b"d"]


def test_the_store_was_replaced(path: Path) -> None:
    """If another store is at the path when the owner is gone, a client process reports that, and does not use it."""
    with python(HOLDER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            mq.create_topic("orders")
            killed(owner)
            path.rename(path.parent / "away")
            with pytest.raises(mqplug.ConnectError, match="another store"):
                mq.topics()


def test_an_ack_stops_the_clock_at_the_next_owner_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message acked in time, but not committed when the owner ended, goes to no other member of the next owner."""
    set_core_wait(monkeypatch, "commit in the background", 600.0)
    options: dict[str, Any] = {"group": "g", "mode": "shared", "max_processing": 0.5}
    with (
        owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out,
        mq.consumer("orders", **options) as quick, mq.consumer("orders", **options) as other,
    ):  # fmt: skip
        out.send(b"acked")
        [acked] = take(quick, 1)
        quick.ack(acked)
        killed(owner)
        mq.topics()
        assert owns(mq)
        assert quick.receive(0.1) is None  # it has rejoined, with its message
        assert other.receive(1.5) is None
        quick.commit()
        sent = out.send(b"next")
        assert [each.id for each in take(other, 1)] == [sent]
        assert quick.late_acks == 0
