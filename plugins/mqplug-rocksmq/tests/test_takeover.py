"""When the owner of a store goes, another process takes over: nothing is lost, nothing is stored twice."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import OpenStore
from rocksmq_words import eventually, freeze, line, new_log, python, serving, values

import mqplug
from mqplug import EARLIEST, LATEST, OutcomeUnknown, Timeout
from mqplug_rocksmq._connection import RocksMQConnection
from mqplug_rocksmq._dispatch import Dispatch
from mqplug_rocksmq._layout import ORIGIN
from mqplug_rocksmq._link import Gone
from mqplug_rocksmq._origins import SLOTS, Origin, Request
from mqplug_rocksmq._outlets import Outcome, Parcel
from mqplug_rocksmq._ownership import owner_of
from mqplug_rocksmq._page import Columns, encode
from mqplug_rocksmq._store import Store

HOLDER = """
mq = mqplug.connect("rocksmq", path=str(path))
print("ready", flush=True)
sys.stdin.readline()
mq.close()
print("closed", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def owned_elsewhere(path: Path) -> Iterator[tuple[subprocess.Popen[str], mqplug.Client]]:
    """Another process that owns a store with the topic "orders", and a client here."""
    with python(HOLDER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            mq.create_topic("orders")
            yield owner, mq


def killed(owner: subprocess.Popen[str]) -> None:
    """Killed."""
    owner.kill()
    owner.wait()


def closed(owner: subprocess.Popen[str]) -> None:
    """Closed in order, by a process that lives on."""
    assert owner.stdin is not None
    owner.stdin.write("\n")
    owner.stdin.flush()
    assert line(owner) == "closed"


def owns(mq: mqplug.Client) -> bool:
    """Whether the client's process has become the owner."""
    return isinstance(mq._connection.home, RocksMQConnection)


# one guest -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [killed, closed])
def test_everything_goes_on(path: Path, end: object) -> None:
    """Readers, members and producers go on where they were, in the same objects."""
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


def take(consumer: mqplug.Consumer, count: int, *, ack: bool = False) -> list[mqplug.Message]:
    """Receive so many messages, and no more."""
    taken = []
    while len(taken) < count:
        message = consumer.receive(10)
        assert message is not None, f"{len(taken)} of {count} came"
        taken.append(message)
        if ack:
            consumer.ack(message)
    return taken


@pytest.mark.timeout(180)
def test_takeover_takes_less_than_a_second(path: Path) -> None:
    """From the owner's death to the next answer to a sender, and the next message of a reader and of a member."""
    times = defaultdict[str, list[float]](list)
    for number in range(5):
        for name, seconds in takeover(path / str(number)).items():
            times[name].append(seconds)
    found = {name: (statistics.median(each), max(each)) for name, each in times.items()}
    assert all(median < 1 and worst < 10 for median, worst in found.values()), found


def takeover(path: Path) -> dict[str, float]:
    """Kill an owner under everybody, and measure when each has gone on."""
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
    """What a reader paused delivers nothing after a takeover, until it is resumed."""
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
    """What was acked and not committed when the owner died is stored before the member joins again."""
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


@pytest.mark.parametrize("mode", ["shared", "key_shared"])
def test_members_that_share_keep_what_they_have(path: Path, mode: mqplug.spi.Mode) -> None:
    """When the owner is killed nothing comes again: what a member has stays its own, and its acks and nacks count."""
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


STANDS = """
with mqplug.connect("rocksmq", path=str(path)) as mq:
    lost = threading.Event()
    with mq.consumer("orders", group="g", mode=sys.argv[2], on_revoked=lambda logs: lost.set()) as member:
        print(*member.receive_many(4, 10).values, flush=True)
        while sys.argv[2] == "ordered" and not lost.is_set():
            member.receive(0.1)
        sys.stdin.readline()
        print(mq.health() or "goes on", flush=True)
"""


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_a_member_that_stands_still(path: Path, mode: mqplug.spi.Mode) -> None:
    """A member of another process that is stopped loses what it holds after the session time, and hears of it."""
    with mqplug.connect("rocksmq", path=str(path), session_timeout=1.0) as mq, mq.producer() as out:
        mq.create_topic("orders")
        out.send_many([mqplug.Record(b"%d" % each, topic="orders") for each in range(4)])
        with python(STANDS, path, mode) as stands:
            assert line(stands) == "b'0' b'1' b'2' b'3'"
            freeze(stands)
            with mq.consumer("orders", group="g", mode=mode) as member:
                began = time.monotonic()
                assert [message.value for message in take(member, 4, ack=True)] == [b"0", b"1", b"2", b"3"]
                assert 0.5 < time.monotonic() - began < 5
                stands.send_signal(signal.SIGCONT)
                stands.stdin.write("\n")  # type: ignore[union-attr]
                stands.stdin.flush()  # type: ignore[union-attr]
                assert line(stands) == "goes on"


DIES_AFTERWARDS = """
import mqplug_rocksmq._answers as answers
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("orders")
mq.create_topic("old")
with mq.consumer("orders", group="g"):
    pass
administer = answers.CALLS["administer"]
def once(*arguments, **options):
    administer(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
answers.CALLS["administer"] = once
print("ready", flush=True)
threading.Event().wait()
"""

ONCE = {
    "create": lambda mq: mq.create_topic("new", partitions=2),
    "grow": lambda mq: mq.add_partitions("orders", 3),
    "delete": lambda mq: mq.delete_topic("old"),
    "delete a group": lambda mq: mq.delete_group("g"),
}


@pytest.mark.parametrize("what", ONCE)
def test_what_is_administered_is_done_once(path: Path, what: str) -> None:
    """An owner that dies when it has done something, and before it answers: the next one knows that it is done."""
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
                ONCE[what](mq)  # asked for by somebody else, it is refused as ever


def test_what_was_deleted_and_made_again_is_not_deleted_again(path: Path) -> None:
    """A deletion that is sent again, because its answer was lost, spares what got the same name meanwhile."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        home, request = mq._connection, Request(os.urandom(16))
        assert home.administer(mqplug.spi.DeleteTopic("orders"), 10, request)
        mq.create_topic("orders")
        assert home.administer(mqplug.spi.DeleteTopic("orders"), 10, request._replace(again=True))
        assert mq.topics() == ["orders"]


def test_an_owner_that_stands_still(path: Path) -> None:
    """While the owner is stopped calls end with ``Timeout``; when it goes on, so do they, and nothing is doubled."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        out.send(b"before")
        with mq.consumer("orders", start=EARLIEST) as reader:
            take(reader, 1)
            freeze(owner)
            try:
                with pytest.raises(Timeout):
                    mq.watermarks("orders", timeout=0.3)
                with pytest.raises(Timeout):
                    reader.seek(EARLIEST, timeout=0.3)
                with pytest.raises(OutcomeUnknown) as late:
                    out.send(b"while", timeout=0.3)
                with pytest.raises(Timeout):
                    mqplug.connect("rocksmq", path=str(path), timeout=0.5)
            finally:
                owner.send_signal(signal.SIGCONT)
            assert late.value.handle is not None
            late.value.handle.result(10)
            reader.seek(EARLIEST)
            assert [message.value for message in take(reader, 2)] == [b"before", b"while"]
        assert not owns(mq)


@pytest.mark.parametrize("group", [None, "g"])
def test_an_owner_that_stands_still_and_dies(path: Path, group: str | None) -> None:
    """A consumer that waits for an answer of a stopped owner goes on when that is killed."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        out.send(b"before")
        with mq.consumer("orders", group=group, start=EARLIEST) as consumer:
            take(consumer, 1, ack=group is not None)
            freeze(owner)
            assert consumer.receive(0.3) is None
            killed(owner)
            out.send(b"after")
            assert take(consumer, 1)[0].value == b"after"


def test_the_last_client_hands_over(path: Path) -> None:
    """A process that closes its last client lets a guest's process own the store, and can be its guest."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        closed(owner)
        out.send(b"x")
        assert owns(mq)
        with python(
            "with mqplug.connect('rocksmq', path=str(path)) as mq:\n    print(mq.topics())", path
        ) as next_guest:
            assert line(next_guest) == "['orders']"


def test_guests_of_one_process_with_other_settings(path: Path) -> None:
    """Guests of one process need not agree; when it becomes the owner, each has at least what it asked for."""
    with owned_elsewhere(path) as (owner, safe), mqplug.connect("rocksmq", path=str(path), sync="os") as quick:
        with quick.producer("orders") as careless, safe.producer("orders") as careful:
            careless.send(b"a")
            careful.send(b"b")
            killed(owner)
            careless.send(b"c")
            store = quick.unwrap(Store)
            assert store is not None
            assert store.settings.sync == "os"
            changes = store._engine.witness.read()
            careful.send(b"d")
            assert store._engine.witness.read() != changes
        assert [message.value for message in safe.read("orders")] == [b"a", b"b", b"c", b"d"]


def test_the_store_was_replaced(path: Path) -> None:
    """Where another store lies at the path when the owner is gone, a guest says so, and does not use it."""
    with python(HOLDER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            mq.create_topic("orders")
            killed(owner)
            path.rename(path.parent / "away")
            with pytest.raises(mqplug.ConnectError, match="another store"):
                mq.topics()


# stored once ---------------------------------------------------------------------------------------------------


def test_a_send_with_a_number_is_stored_once(open_store: OpenStore) -> None:
    """What is sent again under its number gets the offset that it has, also from the next opener of the store."""
    store = open_store(sync="always")
    log = new_log(store)
    body = [encode(Columns([1000], [b"a"]))]
    name = os.urandom(16)
    assert [store.append_bodies(log, body, None, Origin(name, each)) for each in range(3)] == [0, 1, 2]
    assert store.append_bodies(log, body, None, Origin(name, 1, again=True)) == 1
    store.close()
    store = open_store(sync="always")
    assert store.append_bodies(log, body, None, Origin(name, 2, again=True)) == 2
    assert store.append_bodies(log, body, None, Origin(name, 3, again=True)) == 3
    assert store.append_bodies(log, body, None, Origin(os.urandom(16), 2, again=True)) == 4
    assert values(store, log) == [b"a"] * 5


def test_what_is_known_of_producers_is_bounded(open_store: OpenStore) -> None:
    """A producer has a few slots; they go with it, or when it does not come back."""
    store = open_store(sync="os")
    log = new_log(store)
    body = [encode(Columns([1000], [b"a"]))]
    one, other = os.urandom(16), os.urandom(16)
    store.origins.join(one)
    for name in (one, other):
        for number in range(3 * SLOTS):
            store.append_bodies(log, body, None, Origin(name, number))
    assert len(store._engine.pages.scan(ORIGIN)) == 2 * SLOTS
    store.origins.forget_absent()
    assert len(store._engine.pages.scan(ORIGIN)) == 2 * SLOTS
    store.origins.forget_absent()
    assert len(store._engine.pages.scan(ORIGIN)) == SLOTS
    store.origins.leave(one, for_good=True)
    assert store._engine.pages.scan(ORIGIN) == []


class Broken:
    """An owner that takes parcels and is gone before it answers."""

    home = None

    def send(self, parcel: Parcel) -> bool:
        return True

    def receive(self, timeout: float) -> list[Outcome]:
        raise Gone

    def drop(self) -> None:
        """Nothing is held."""

    def close(self, timeout: float) -> None:
        """Nothing is held."""


def test_what_no_owner_can_know_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send that was not answered for minutes is not sent again: nobody knows what became of it."""
    dispatch = Dispatch(lambda name, failed, timeout: Broken(), 1)
    settled: list[mqplug.Error | None] = []
    dispatch.append("orders", 0, [encode(Columns([1], [b"x"]))], lambda log, first, error: settled.append(error))
    dispatch.serve(0)
    dispatch.serve(0)
    assert settled == []
    now = time.monotonic()
    monkeypatch.setattr("mqplug_rocksmq._dispatch.time.monotonic", lambda: now + 1000)
    dispatch.serve(0)
    assert [type(error) for error in settled] == [OutcomeUnknown]


# many ----------------------------------------------------------------------------------------------------------

WORKER = """
import itertools
name = sys.argv[2]
say = lambda *words: print(*words, flush=True)
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
    with mq.consumer("orders", group="g", mode=sys.argv[3]) as member:
        say("ready")
        for number in itertools.count():
            sent = out.send_many([mqplug.Record(b"%s %d" % (name.encode(), 10 * number + each), partition=each % 3)
                                  for each in range(10)])
            say("stored", *sent)
            batch = member.receive_many(50, 0.05)
            for message in batch:
                member.ack(message)
            try:
                member.commit()
            except (mqplug.NotAssigned, mqplug.ConnectError):  # too late after a takeover: these come again
                continue
            say("acked", *batch.ids)
"""

Said = dict[str, list[mqplug.MessageId]]


def listen(process: subprocess.Popen[str], said: Said) -> threading.Thread:
    """Take in what a worker says, to its end."""

    def run() -> None:
        assert process.stdout is not None
        for text in process.stdout:
            if text.endswith("\n") and text.split()[0] in {"stored", "acked"}:
                what, *ids = text.split()
                said[what] += map(mqplug.MessageId.parse, ids)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["ordered", "shared", "key_shared"])
def test_a_storm(path: Path, mode: mqplug.spi.Mode) -> None:
    """The owner is killed five times under programs that send, consume and commit.

    What was acknowledged is there, once, and in order; what was committed does not come again; all else does.
    """
    everything: Said = defaultdict(list)
    with contextlib.ExitStack() as stack:
        stack.enter_context(created(path))
        workers: list[tuple[subprocess.Popen[str], Said, threading.Thread]] = []
        for number in range(8):
            worker = stack.enter_context(python(WORKER, path, f"w{number}", mode))
            assert line(worker) == "ready"
            said: Said = defaultdict(list)
            workers.append((worker, said, listen(worker, said)))
            if number >= 3:
                kill_owner(path, workers)
        for worker, _, thread in workers:
            worker.kill()
            thread.join(30)
    for _, said, _ in workers:
        for what, ids in said.items():
            everything[what] += ids
    check(path, everything, mode)


@contextlib.contextmanager
def created(path: Path) -> Iterator[None]:
    """A process that owns the store at first."""
    with serving(path) as server:
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            mq.create_topic("orders", partitions=3)
        server.kill = lambda: None  # type: ignore[method-assign]
        server.terminate = lambda: None  # type: ignore[method-assign]
        server.wait = lambda timeout=None: 0  # type: ignore[method-assign]
        yield


def kill_owner(path: Path, workers: list[tuple[subprocess.Popen[str], Said, threading.Thread]]) -> None:
    """Kill the owner, whoever that is, and see that the others go on."""
    alive = [(worker, said) for worker, said, _ in workers if worker.poll() is None]
    before = {worker.pid: len(said["stored"]) for worker, said in alive}
    eventually(lambda: all(len(said["stored"]) > before[worker.pid] for worker, said in alive), 60)
    owner = owner_of(path)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    left = [(worker, said, len(said["stored"])) for worker, said in alive if worker.pid != owner.pid]
    eventually(lambda: all(len(said["stored"]) > count for _, said, count in left), 60)


def check(path: Path, said: Said, mode: mqplug.spi.Mode) -> None:
    """Compare what is stored with what was said."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        found = {message.id: message.value or b"" for message in mq.read("orders")}
        assert set(said["stored"]) <= set(found)
        assert len(set(found.values())) == len(found)
        assert len(set(said["stored"])) == len(said["stored"])
        in_order: dict[tuple[mqplug.Log, bytes], int] = {}
        for each, value in found.items():
            name, number = value.split()
            assert in_order.get((each.log, name), -1) < int(number)
            in_order[each.log, name] = int(number)
        with mq.consumer("orders", group="g", mode=mode) as member:
            left = set()
            while message := member.receive(1):
                left.add(message.id)
        assert not left & set(said["acked"])
        # What a worker committed, and was killed before it could say so: a batch of each at most.
        assert len(set(found) - left - set(said["acked"])) <= 50 * 8
