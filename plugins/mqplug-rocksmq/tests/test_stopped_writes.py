"""Writes that RocksDB refuses for a while: each call ends within its timeout, and accepted messages are stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from owner_takeover import killed, owned_elsewhere, owns
from rocksmq_stores import eventually, line, native, python
from store_faults import Gate

import mqplug
from mqplug import Error
from mqplug_rocksmq._driver.producers import StoreSink
from mqplug_rocksmq._format.page import PageBody, encode_single


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate that opens at the end."""
    made = Gate()
    made.stop(monkeypatch)
    yield made
    made.shut = False


def filled_while_shut(mq: mqplug.Client, gate: Gate, begin: Callable[[], object] = lambda: None) -> None:
    """Send while the gate is shut, in each way, and check that everything is stored once and in order when it opens."""
    with mq.producer("orders") as out:
        first = out.send(b"0")
        begin()
        gate.shut = True
        with pytest.raises(mqplug.SendFailed) as failed:
            out.send_many([b"1", b"2"], timeout=0.2)
        with pytest.raises(mqplug.OutcomeUnknown) as unknown:
            out.send(b"3", timeout=0.2)
        handles = [out.submit(b"4"), out.submit(b"5")]
        assert [each.value for each in mq.read("orders")] == [b"0"]
        gate.shut = False
        out.flush(20)
        late = [each.handle.result(0) for each in (*failed.value.results, unknown.value)]  # type: ignore[union-attr]
        ids = [first, *late, *(each.result(0) for each in handles), out.send(b"6")]
    assert [(each.id, each.value) for each in mq.read("orders")] == [(each, b"%d" % n) for n, each in enumerate(ids)]


@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_sends_are_stored_later(path: Path, gate: Gate, sync: str) -> None:
    """A send that times out keeps its place, and is stored in order as soon as RocksDB accepts writes."""
    with mqplug.connect("rocksmq", path=str(path), sync=sync) as mq:
        mq.create_topic("orders")
        filled_while_shut(mq, gate)


def test_sends_after_a_takeover_are_stored_later(path: Path, gate: Gate) -> None:
    """The same holds for sends of a client process that has become the owner."""
    with owned_elsewhere(path) as (owner, mq):

        def take_over() -> None:
            killed(owner)
            mq.topics()
            assert owns(mq)

        filled_while_shut(mq, gate, take_over)


def test_a_waiting_send_that_cannot_be_encoded(path: Path, gate: Gate) -> None:
    """It fails when its turn comes, and the sends before and after it are stored."""

    def broken() -> Iterator[PageBody]:
        yield encode_single(1, None, b"lost")
        raise ValueError("a bug")

    outcomes: list[tuple[int, Error | None]] = []
    with mqplug.connect("rocksmq", path=str(path), sync="always") as mq:
        mq.create_topic("orders")
        sink = StoreSink(native(mq))
        gate.shut = True
        for bodies in ([encode_single(1, None, b"0")], broken(), [encode_single(1, None, b"1")]):
            sink.append("orders", 0, bodies, lambda log, first, error: outcomes.append((first, error)))
        gate.shut = False
        eventually(lambda: len(outcomes) == 3)
        assert [message.value for message in mq.read("orders")] == [b"0", b"1"]
    failed = [error for _, error in outcomes if error]
    assert (len(failed), type(failed[0])) == (1, mqplug.PluginError)
    assert sorted(first for first, error in outcomes if not error) == [0, 1]


CLIENT = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
    out.send(b"0")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        out.send(b"1", timeout=0.3)
    except mqplug.OutcomeUnknown as error:
        print("late", flush=True)
        print(error.handle.result(20) < out.send(b"2"), flush=True)
"""


def test_sends_of_client_processes_are_stored_later(path: Path, gate: Gate) -> None:
    """The same holds for sends of a client process whose owner cannot store them at once."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        with python(CLIENT, path) as process:
            assert line(process) == "ready"
            gate.shut = True
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert line(process) == "late"
            gate.shut = False
            assert line(process) == "True"
        assert [each.value for each in mq.read("orders")] == [b"0", b"1", b"2"]


def test_other_calls_time_out(path: Path, gate: Gate) -> None:
    """A call that cannot store in time raises ``Timeout`` and has done nothing; a call with enough time is done."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out, mq.consumer("orders", group="g") as member:
            out.send(b"a")
            member.ack(member.receive(5))  # type: ignore[arg-type]
            gate.shut = True
            with pytest.raises(mqplug.Timeout, match=r"accepted no writes for 0\.2 s"):
                mq.create_topic("more", timeout=0.2)
            with pytest.raises(mqplug.Timeout):
                member.commit(0.2)
            with pytest.raises(mqplug.Timeout), mq.transaction("steps", timeout=0.2) as step:
                step.send(b"b", topic="orders")
            threading.Timer(0.3, lambda: setattr(gate, "shut", False)).start()
            mq.create_topic("late", timeout=20)
            member.commit(20)
            assert mq.topics() == ["late", "orders"]
            assert [each.value for each in mq.read("orders")] == [b"a"]
            assert mq.lag("orders", group="g") == {0: 0}


def test_a_store_that_is_closed_meanwhile(path: Path, gate: Gate) -> None:
    """If the store is closed while it accepts no writes, waiting sends are not stored, and no thread is left."""
    mq = mqplug.connect("rocksmq", path=str(path), sync="os")
    mq.create_topic("orders")
    out = mq.producer("orders")
    gate.shut = True
    handle = out.submit(b"lost")
    with pytest.raises(mqplug.CloseIncomplete):
        mq.close(0.5)
    with pytest.raises(mqplug.OutcomeUnknown):
        handle.result(0)
    eventually(lambda: not any(each.name == "mqplug-rocksmq-sends" for each in threading.enumerate()))


STUCK = """
other = mqplug.connect("rocksmq", path=str(path) + "-other")
other.create_topic("orders")
other.close()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))

from mqplug_rocksmq._engine import rocks
rocks._began_in = None  # as if it had RocksDB's threads: what is in memory never goes to tables
import contextlib, time
mq = mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2], memory_max_bytes=64 << 20)
mq.create_topic("orders")
out = mq.producer("orders")
sent = 0
try:
    while sent < 100:
        began = time.monotonic()
        out.send_many([os.urandom(100_000)] * 10, timeout=1)
        sent += 1
except mqplug.SendFailed as error:
    print(0.9 < time.monotonic() - began < 5, {type(each).__name__ for each in error.results}, flush=True)
began = time.monotonic()
with contextlib.suppress(mqplug.Timeout):  # RocksDB may slow writes down, and still take small ones
    mq.create_topic("more", timeout=1)
print(time.monotonic() - began < 5, flush=True)
assert sum(1 for _ in mq.read("orders")) == 10 * sent
os._exit(0)
"""


@pytest.mark.parametrize("sync", ["always", "os"])
def test_rocksdb_stops_writes(path: Path, sync: str) -> None:
    """When RocksDB itself stops writes, timeouts hold: it never waits with the interpreter's lock."""
    with python(STUCK, path, sync) as process:
        assert [line(process) for _ in range(2)] == ["True {'SendTimeout'}", "True"]
        assert process.wait(20) == 0
