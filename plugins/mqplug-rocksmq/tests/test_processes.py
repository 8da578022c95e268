"""A store that several processes use: who owns it, and what the others can do through the owner."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksmq_words import eventually, line, new_log, put, python, serving, values

import mqplug
from mqplug import EARLIEST, LATEST, AlreadyOpen, Closed, ConfigError, ConsumerBusy, ForkedClient, TopicNotFound
from mqplug_rocksmq import _guests
from mqplug_rocksmq._frames import Header
from mqplug_rocksmq._guest import GuestConnection
from mqplug_rocksmq._intake import Intake
from mqplug_rocksmq._outlets import Outcome, Parcel
from mqplug_rocksmq._ownership import Ownership, owner_of, socket_path
from mqplug_rocksmq._page import Columns, encode
from mqplug_rocksmq._remote import RemoteConnection
from mqplug_rocksmq._shared import close_store, open_store
from mqplug_rocksmq._store import Store, StoreSettings


@pytest.fixture
def shared(path: Path) -> Iterator[Store]:
    """A store of this process, as clients share it."""
    store = open_store(path, StoreSettings(sync="os"))
    yield store
    close_store(store, 10)


@pytest.fixture
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the store."""
    with serving(path, "--sync", "os") as process:
        yield process


@pytest.fixture
def mq(path: Path, owner: subprocess.Popen[str]) -> Iterator[mqplug.Client]:
    """A client of a store that another process owns, with the topic "orders"."""
    with mqplug.connect("rocksmq", path=str(path)) as client:
        client.create_topic("orders", partitions=2)
        yield client
        assert isinstance(client._connection, GuestConnection)


# who owns it ---------------------------------------------------------------------------------------------------


def test_clients_share_a_store(path: Path, shared: Store) -> None:
    """Clients of one process get the same store, by whatever path, and the last one closes it."""
    (path.parent / "link").symlink_to(path)
    again = open_store(path.parent / "link", shared.settings)
    assert again is shared
    close_store(again)
    new_log(shared)
    close_store(shared)
    with pytest.raises(Closed):
        shared.check()


def test_settings_must_agree(path: Path, shared: Store) -> None:
    """A second client with other settings is refused, because it would not get them."""
    with pytest.raises(ConfigError, match="sync='os'"):
        open_store(path, StoreSettings(sync="always"))


def test_only_one_process_owns(path: Path, owner: subprocess.Popen[str]) -> None:
    """A second process is told who owns the store."""
    with pytest.raises(AlreadyOpen, match=str(owner.pid)):
        open_store(path, StoreSettings())


OWNER = """
store = open_store(path, StoreSettings(sync="os"))
put(store, new_log(store), b"a", b"b", b"c")
print("ready", flush=True)
sys.stdin.read()
"""


def test_ownership_ends_with_its_process(path: Path) -> None:
    """When the owner is killed, the next process can own the store at once."""
    with python(OWNER, path) as process:
        assert line(process) == "ready"
        process.send_signal(signal.SIGKILL)
        process.wait()
        store = open_store(path, StoreSettings())
        assert values(store, 0) == [b"a", b"b", b"c"]
        close_store(store)


def test_a_copy_does_not_end_ownership(path: Path, shared: Store, tmp_path: Path) -> None:
    """The owner may copy its own directory, and no second process gets in."""
    log = new_log(shared)
    shutil.copytree(path, tmp_path / "copy")
    with python("open_store(path, StoreSettings())", path) as second:
        assert second.wait(30) != 0
    assert put(shared, log, b"a") == 0


def test_an_owner_that_serves_nobody(path: Path) -> None:
    """A store whose owner has no socket is open elsewhere, and that is said within the timeout."""
    ownership = Ownership(path)
    try:
        with pytest.raises(AlreadyOpen, match=str(os.getpid())):
            mqplug.connect("rocksmq", path=str(path), timeout=2)
    finally:
        ownership.release()


# forks ---------------------------------------------------------------------------------------------------------


def test_fork(shared: Store) -> None:
    """In the child of a fork the store refuses everything and the child ends well; the parent goes on."""
    log = new_log(shared)
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in (lambda: put(shared, log, b"lost"), lambda: shared.read(log, 0), lambda: shared.watermarks([log])):
            try:
                call()
            except ForkedClient:
                refused += 1
        shared.close()
        os._exit(0 if refused == 3 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    put(shared, log, b"kept")
    assert values(shared, log) == [b"kept"]


def test_a_forked_child_exits_normally(path: Path) -> None:
    """A child that ends by itself neither hangs nor crashes in RocksDB, and frees nothing of its parent's."""
    code = """
store = open_store(path, StoreSettings())
log = new_log(store)
if os.fork() == 0:
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), put(store, log, b"a"), flush=True)
close_store(store)
"""
    with python(code, path) as process:
        assert line(process) == "7 0"
        assert process.wait(30) == 0


def test_a_forked_child_does_not_inherit_ownership(path: Path) -> None:
    """When the parent dies, its forked child does not keep the store from others, and guests see the parent die."""
    code = """
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("orders")
if os.fork() == 0:
    print(os.getpid(), flush=True)
signal.pause()
"""
    with python(code, path) as process:
        child = int(line(process))
        try:
            with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
                out.send(b"to the owner")
                process.send_signal(signal.SIGKILL)
                process.wait()
                out.send(b"to the next", timeout=10)
                assert [message.value for message in mq.read("orders")] == [b"to the owner", b"to the next"]
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_of_a_guest_is_no_member(path: Path, mq: mqplug.Client) -> None:
    """A member's connection ends with its process, though a forked child of that lives on."""
    code = """
mq = mqplug.connect("rocksmq", path=str(path))
member = mq.consumer("orders", group="g", mode="exclusive")
if os.fork() == 0:
    print(os.getpid(), flush=True)
signal.pause()
"""
    with python(code, path) as process:
        child = int(line(process))
        try:
            with pytest.raises(ConsumerBusy):
                mq.consumer("orders", group="g", mode="exclusive")
            process.send_signal(signal.SIGKILL)
            process.wait()
            mq.consumer("orders", group="g", mode="exclusive").close()
        finally:
            os.kill(child, signal.SIGKILL)


# what the others can do ----------------------------------------------------------------------------------------


def test_a_guest_sends_and_reads(mq: mqplug.Client) -> None:
    """What another process sends has ids, keys, headers and times as anywhere, and is read as it was sent."""
    records = [mqplug.Record(b"%d" % each, key=b"k", headers={"h": b"v"}, timestamp=each) for each in range(2500)]
    with mq.producer("orders") as out:
        sent = out.send_many(records)
        handles = [out.submit(None, partition=0) for _ in range(2500)]
        out.flush()
    found = list(mq.read("orders", partitions=[sent[0].log.partition]))
    ours = [message for message in found if message.value is not None]
    assert [message.id for message in ours] == sent
    assert [(each.key, each.headers, each.value) for each in ours[:2]] == [
        (b"k", (("h", b"v"),), b"0"),
        (b"k", (("h", b"v"),), b"1"),
    ]
    assert len({handle.result() for handle in handles}) == 2500


def test_a_guest_asks(mq: mqplug.Client) -> None:
    """Watermarks, bounds, time look-ups, groups and lag are answered as in the owner's process."""
    with mq.producer("orders") as out:
        sent = out.send_many([mqplug.Record(b"x", partition=0, timestamp=1000 * each) for each in range(10)])
    mq.reset_group("g", "orders", sent[4])
    assert mq.topics() == ["orders"]
    assert mq.watermarks("orders")[0].count == 10
    assert mq.bounds("orders")[0] == mqplug.Bounds(sent[0], sent[-1])
    assert [message.id for message in mq.read("orders", start=mqplug.at_time(7000), partitions=[0])] == sent[7:]
    assert mq.lag("orders", group="g") == {0: 6, 1: 0}
    assert [(group.name, group.members) for group in mq.groups()] == [("g", 0)]
    mq.trim("orders", {0: mqplug.Position(sent[5].log, (5,))})
    with pytest.raises(mqplug.PositionLost) as lost:
        mq.consumer("orders", start=mqplug.before(sent[2])).receive(5)
    assert lost.value.low == mqplug.Position(sent[5].log, (5,))
    mq.delete_group("g")
    mq.add_partitions("orders", 3)
    mq.delete_topic("orders")
    assert mq.topics() == []


def test_groups_of_all_processes(path: Path, mq: mqplug.Client) -> None:
    """A group has its members in whatever processes, is counted so, and is left alone while it has any."""
    with python(MEMBER, path, "ordered") as other, mq.consumer("orders", group="g") as member:
        eventually(lambda: member.receive(0.05) or [group.members for group in mq.groups("orders")] == [2])
        with pytest.raises(ConsumerBusy):
            mq.delete_group("g")
        other.kill()
        eventually(lambda: member.receive(0.05) or [group.members for group in mq.groups("orders")] == [1])


def test_typed_errors_cross_the_socket(mq: mqplug.Client) -> None:
    """What goes wrong at the owner is raised here as the same error, with what it knows."""
    with pytest.raises(TopicNotFound) as missing:
        mq.producer("nope")
    assert (missing.value.topic, missing.value.backend) == ("nope", "rocksmq")
    with pytest.raises(ValueError, match="has 2 partitions already"):
        mq._connection.administer(mqplug.spi.AddPartitions("orders", 1), 10)
    with mq.consumer("orders", start=EARLIEST) as reader:
        mq.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            reader.receive(5)


def test_a_guest_is_woken(path: Path, mq: mqplug.Client) -> None:
    """A reader at the end of a log in one process is told of what another sends."""
    code = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
    sys.stdin.readline()
    print(out.send(b"x"), flush=True)
"""
    with python(code, path) as sender, mq.consumer("orders", start=LATEST) as reader:
        assert reader.receive(0.2) is None
        assert sender.stdin is not None
        sender.stdin.write("\n")
        sender.stdin.flush()
        message = reader.receive(20)
        assert str(message and message.id) == line(sender)


def test_a_guest_seeks_and_commits_in_its_callbacks(mq: mqplug.Client) -> None:
    """What the callbacks of a member in another process do with it is no overlap, and has its effect."""
    with mq.producer("orders") as out:
        ids = out.send_many([mqplug.Record(b"%d" % each, partition=0) for each in range(4)])

    def on_assigned(logs: object) -> None:
        one.seek(ids[2])

    def on_revoked(logs: object) -> None:
        one.commit(timeout=10)

    one = mq.consumer("orders", group="g", on_assigned=on_assigned, on_revoked=on_revoked)
    with one:
        message = one.receive(10)
        assert message is not None
        assert message.id == ids[2]
        one.ack(message)
        with mq.consumer("orders", group="g") as other:
            eventually(lambda: one.receive(0.05) or len(other.assignment()) + len(one.assignment()) == 2)
            eventually(lambda: (one.receive(0.05), other.receive(0.05)) and len(other.assignment()) == 1)
    assert mq.positions("orders", group="g")[0].position == mqplug.Position(ids[0].log, (3,))


def test_large_messages(path: Path, owner: subprocess.Popen[str]) -> None:
    """What is larger than any socket buffer crosses it whole, both ways."""
    large = [bytes([number]) * 3_000_000 for number in range(5)]
    with mqplug.connect("rocksmq", path=str(path), message_max_bytes=4_000_000) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send_many(large)
        assert [message.value for message in mq.read("orders")] == large


MEMBER = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.consumer("orders", group="g", mode=sys.argv[2]) as member:
    for message in member:
        member.ack(message)
        member.commit()
        print(message.value.decode(), flush=True)
"""


@pytest.mark.parametrize("mode", ["ordered", "shared", "key_shared"])
def test_members_of_several_processes_share(path: Path, mq: mqplug.Client, mode: mqplug.spi.Mode) -> None:
    """Members in two processes share the work; when one is killed the other has all of it at once."""
    with python(MEMBER, path, mode) as other, mq.consumer("orders", group="g", mode=mode) as member:
        with mq.producer("orders") as out:
            taken = shared_out(out, member, other)
            other.send_signal(signal.SIGKILL)
            other.wait()
            out.send_many([mqplug.Record(b"last", partition=each, key=b"%d" % each) for each in range(2)])
        left = []
        while left.count(b"last") < 2:
            message = member.receive(10)
            assert message is not None
            left.append(message.value)
            member.ack(message)
    assert not taken & set(left)


def shared_out(out: mqplug.Producer, member: mqplug.Consumer, other: subprocess.Popen[str]) -> set[bytes]:
    """Send until both members have got something; what was acked."""
    got: set[bytes] = set()
    theirs: set[bytes] = set()
    listener = threading.Thread(target=lambda: theirs.update(each.strip().encode() for each in other.stdout or ()))
    listener.start()
    for number in range(1000):
        out.send_many([mqplug.Record(b"%d.%d" % (number, each), partition=each, key=b"%d" % each) for each in range(2)])
        for message in member.receive_many(10, 0.05):
            got.add(message.value or b"")
            member.ack(message)
        member.commit()
        if got and theirs:
            break
    assert got
    assert theirs
    assert not got & theirs
    threading.Thread(target=listener.join, daemon=True).start()
    return got


def test_a_member_that_does_not_answer(path: Path) -> None:
    """A member that does not say how far it came loses its partitions when others want them."""
    code = """
hold = threading.Event()
with mqplug.connect("rocksmq", path=str(path)) as mq:
    def on_revoked(logs):
        print("revoked", flush=True)
        hold.wait()
    with mq.consumer("orders", group="g", on_revoked=on_revoked) as member:
        while len(member.assignment()) < 2:
            member.receive(0.05)
        print("ready", flush=True)
        while True:
            member.receive(0.05)
"""
    with mqplug.connect("rocksmq", path=str(path), session_timeout=2.0) as mq:
        mq.create_topic("orders", partitions=2)
        with python(code, path) as stuck:
            assert line(stuck) == "ready"
            with mq.consumer("orders", group="g") as member:
                eventually(lambda: member.receive(0.05) or len(member.assignment()) == 2)
            assert line(stuck) == "revoked"


def test_nack_from_another_process(mq: mqplug.Client) -> None:
    """A guest gives a message back, and any member gets it again, with its attempt counted."""
    with mq.producer("orders") as out:
        out.send(b"x")
    with mq.consumer("orders", group="g", mode="shared") as one:
        first = one.receive(10)
        assert first is not None
        one.nack(first, delay=0)
        again = one.receive(10)
        assert again is not None
        assert (again.id, again.attempt) == (first.id, 2)


def test_a_guest_can_ask_for_more_durability(path: Path, monkeypatch: pytest.MonkeyPatch, shared: Store) -> None:
    """Where the owner does not sync, a guest with sync="always" is told of a send when it is on disk all the same."""
    synced = []
    monkeypatch.setattr(shared, "sync", lambda: synced.append(True))
    code = """
with mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2]) as mq, mq.producer("orders") as out:
    out.send(b"x")
"""
    shared.topics.create("orders", 1, mqplug_retention(), 30)
    for sync, times in (("os", 0), ("always", 1)):
        with python(code, path, sync) as guest:
            assert guest.wait(30) == 0
        assert len(synced) == times


def mqplug_retention() -> object:
    """What is kept of a topic, by default."""
    from mqplug_rocksmq._topics import Retention

    return Retention()


# the socket ----------------------------------------------------------------------------------------------------


def test_what_a_guest_sends_together_is_synced_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends that come while the owner is busy share one sync, where their sender wants them on disk."""
    synced: list[int] = []
    came, go_on = threading.Event(), threading.Event()

    class Parcels(Intake):
        def serve(self, header: Header, body: bytes) -> None:
            came.set()
            assert go_on.wait(10)
            super().serve(header, body)

    monkeypatch.setitem(_guests._ROLES, "produce", Parcels)
    store = open_store(path, StoreSettings(sync="os"))
    monkeypatch.setattr(store, "sync", lambda: synced.append(1))
    new_log(store)
    remote = RemoteConnection(path, 10)
    outlet = remote.outlet(bytes(16), 10, strict=True)
    page = encode(Columns([1], [b"x"])).seal(0)
    for sequence in range(20):
        assert outlet.send(Parcel(sequence, "orders", 0, [page], lambda *_: None))
        assert came.wait(10)
    go_on.set()
    outcomes: list[Outcome] = []
    eventually(lambda: outcomes.extend(outlet.receive(0.1)) or len(outcomes) == 20)
    assert [each.first for each in outcomes] == list(range(20))
    assert 1 <= len(synced) <= 3
    outlet.close(10)
    remote.close(10)
    close_store(store, 10)


def test_the_socket_is_private(path: Path, shared: Store) -> None:
    """Nobody but this user can reach the socket, and its path is short."""
    address = socket_path(path)
    owner = owner_of(path)
    assert owner is not None
    assert owner == (os.getpid(), str(address))
    assert stat.S_IMODE(address.stat().st_mode) == 0o600
    assert stat.S_IMODE(address.parent.stat().st_mode) & 0o077 == 0
    assert len(str(address)) < 100
    close_store(shared)
    assert not address.exists()


def test_a_long_path(tmp_path: Path) -> None:
    """However long the path of a store is, its owner serves others."""
    path = tmp_path.joinpath(*["x" * 100] * 5)
    with serving(path), mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        assert mq.topics() == ["orders"]


def test_a_directory_that_others_can_enter(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket is never made where other users could replace it."""
    open_to_all = tmp_path / "run"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(open_to_all))
    store = open_store(path, StoreSettings())
    assert list(open_to_all.iterdir()) == []
    close_store(store)


# ending --------------------------------------------------------------------------------------------------------


def test_nothing_native_is_imported_to_describe() -> None:
    """Looking at the plugin imports neither RocksDB nor pyarrow."""
    code = "import mqplug_rocksmq, sys; print(sorted({'rocksdict', 'pyarrow', 'crc32c'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_a_program_that_closes_nothing_exits_well(path: Path, sync: str) -> None:
    """At the end of the program its store is closed for it: no crash, nothing lost, and no socket is left."""
    program = f"""
import mqplug
mq = mqplug.connect("rocksmq", path={str(path)!r}, sync={sync!r})
mq.create_topic("orders")
out = mq.producer("orders")
for number in range(3000):
    out.submit(b"%d" % number)
out.flush()
out.submit(b"last")
"""
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not socket_path(path.resolve()).exists()
    store = open_store(path, StoreSettings())
    try:
        assert store.watermarks([store.topics.get("orders").logs[0]])[0].high >= 3000
    finally:
        close_store(store)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_in_order(path: Path, number: signal.Signals) -> None:
    """``mqplug rocksmq serve`` ends on a signal, and leaves no socket."""
    with serving(path) as server:
        server.send_signal(number)
        assert server.wait(30) == 0
    assert not socket_path(path.resolve()).exists()


def test_serve_where_another_process_owns(path: Path, owner: subprocess.Popen[str]) -> None:
    """A second ``serve`` says in one line who owns the store."""
    command = [sys.executable, "-m", "mqplug.cli", "rocksmq", "serve", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"process {owner.pid}" in done.stderr
    assert len(done.stderr.splitlines()) == 1
