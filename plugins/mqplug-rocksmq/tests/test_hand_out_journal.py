"""The journal of hand-outs: what survives a kill, and behaviour without space, on damage, in copies and after forks."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rocksmq_stores import OpenStore, line, native, new_log, nightly, python
from shared_members import GROUP, Sharer, jobs
from store_seam import HAND_OUTS, Store, back_up_store, check_store, repair_store, restore_backup

import mqplug
from mqplug import ForkedClient
from mqplug.spi.groups import Lease, Recalled
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._engine.witness import WitnessRecord
from mqplug_rocksmq._format.hand_out_notes import encode_record, notes_key, read_journal
from mqplug_rocksmq._format.keys import HANDED_OUT, JOURNAL
from mqplug_rocksmq._store import hand_outs as module
from mqplug_rocksmq._store.hand_outs import JOURNAL_BYTES, HandOuts
from mqplug_rocksmq._store.topics import AddChanges

TOPICS = {"jobs": 1}
TOKEN = b"12345678"

HANDS_OUT = """
from mqplug.spi.groups import Lease
from mqplug_rocksmq._store.hand_outs import HandOuts
store = open_store(path, store_settings(sync="os"))
hand_outs = HandOuts(store.journal, new_log(store), "workers")
hand_outs.recall()
changes = store.engine.durability.changes
for each in range(int(sys.argv[2])):
    hand_outs.take([Lease((each,), each + 1)], elsewhere=False)
print(store.engine.durability.changes - changes, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def handed_out(path: Path, count: int) -> int:
    """Record hand-outs, each with one more attempt, and be killed. Return the number of RocksDB's writes."""
    with python(HANDS_OUT, path, count) as process:
        writes = int(line(process))
        process.wait(30)
    return writes


def recalled(store: Store, log: int = 0) -> dict[int, int]:
    """Return the attempts of each message that was handed out."""
    return {at[0]: each.attempts for at, each in HandOuts(store.journal, log, GROUP).recall().items()}


@pytest.fixture
def hand_outs(store: Store) -> HandOuts:
    """Hand-outs of a new log, which go to the file."""
    made = HandOuts(store.journal, new_log(store), GROUP)
    made.recall()
    return made


def take(hand_outs: HandOuts, *offsets: int, attempt: int = 1) -> None:
    """Record that these messages go to a member."""
    hand_outs.take([Lease((offset,), attempt) for offset in offsets], elsewhere=False)


def stored(store: Store, hand_outs: HandOuts, offsets: Iterable[int]) -> None:
    """Record that these messages were acked, and that the acks are stored."""
    hand_outs.acked(offsets)
    store.journal.drop(hand_outs.take_over())


# survival of the process ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("mapped")
def test_whoever_opens_the_store_folds(path: Path, open_store: OpenStore) -> None:
    """Notes that a killed process left in the file are in RocksDB as soon as the store is open again."""
    assert handed_out(path, 3) == 0
    pages = Pages(path / "rocksdb", read_only=True)
    before = pages.scan(HANDED_OUT)
    pages.close()
    assert before == []
    store = open_store(sync="os")
    assert len(store.engine.pages.scan(HANDED_OUT)) == 3
    assert recalled(store) == {0: 1, 1: 2, 2: 3}


@pytest.mark.usefixtures("mapped")
def test_a_full_file_is_folded(path: Path, open_store: OpenStore) -> None:
    """More notes than fit into the file survive their process too, with few writes of RocksDB."""
    count = 3 * JOURNAL_BYTES // 50
    assert 1 <= handed_out(path, count) <= 5
    assert recalled(open_store(sync="os")) == {each: each + 1 for each in range(count)}


def test_a_note_larger_than_the_file(hand_outs: HandOuts, store: Store) -> None:
    """A note larger than the file is folded at once."""
    offsets = range(0, JOURNAL_BYTES // 8, 2)
    take(hand_outs, *offsets)
    assert len(store.engine.pages.scan(HANDED_OUT)) == 1
    assert recalled(store) == dict.fromkeys(offsets, 1)


def test_a_closed_store_has_nothing_in_the_file(path: Path, hand_outs: HandOuts, store: Store) -> None:
    """A close folds, so that the database has everything."""
    take(hand_outs, 5)
    store.close(10)
    (path / HAND_OUTS).unlink()
    opened = Store(path, store.settings)
    assert recalled(opened) == {5: 1}
    opened.close(10)


def test_what_no_longer_counts_is_not_folded(hand_outs: HandOuts, store: Store) -> None:
    """Notes of acked messages do not reach RocksDB, or leave it with the next fold."""
    for offset in range(10):
        take(hand_outs, offset)
    stored(store, hand_outs, range(8))
    store.journal.fold()
    assert len(store.engine.pages.scan(HANDED_OUT)) == 2
    stored(store, hand_outs, [8])
    take(hand_outs, 9, attempt=2)
    store.journal.fold()
    assert len(store.engine.pages.scan(HANDED_OUT)) == 1
    assert recalled(store) == {9: 2}


@pytest.mark.usefixtures("mapped")
@pytest.mark.parametrize("folds", [False, True])
def test_new_messages_share_a_note(hand_outs: HandOuts, store: Store, *, folds: bool) -> None:
    """Messages that go out one at a time share a note, which goes once all are acked and another note is needed."""
    for offset in range(6):
        hand_outs.take_new(offset, elsewhere=False)
        if folds and offset == 2:
            store.journal.fold()
    assert len(store.journal.notes(HANDED_OUT)) == 1 + folds
    assert recalled(store) == dict.fromkeys(range(6), 1)
    hand_outs.take_new(6, elsewhere=False)
    stored(store, hand_outs, range(7))
    take(hand_outs, 6, attempt=2)
    assert recalled(store)[6] == 2
    stored(store, hand_outs, [6])
    store.journal.fold()
    assert store.engine.pages.scan(HANDED_OUT) == []


def test_a_fold_before_acks_are_stored(hand_outs: HandOuts, store: Store) -> None:
    """A note counts until the ack is stored, even if other groups fold before; a kill in between loses nothing."""
    take(hand_outs, 5)
    hand_outs.acked([5])
    store.journal.fold()
    assert recalled(store) == {5: 1}
    store.journal.drop(hand_outs.take_over())
    store.journal.fold()
    assert recalled(store) == {}


def test_a_fold_while_a_message_is_handed_out_again(
    hand_outs: HandOuts, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier note counts until the next one exists, even if other groups fold in between."""
    take(hand_outs, 5)
    note = store.journal.note

    def folded_first(*arguments: Any) -> None:
        store.journal.fold()
        assert recalled(store) == {5: 1}
        note(*arguments)

    monkeypatch.setattr(store.journal, "note", folded_first)
    take(hand_outs, 5, attempt=2)
    assert recalled(store) == {5: 2}


def test_a_note_that_was_partly_acked(hand_outs: HandOuts, store: Store) -> None:
    """The note counts for the acked message until the ack is stored, though its other message was handed out again."""
    take(hand_outs, 5, 6)
    hand_outs.acked([5])
    take(hand_outs, 6, attempt=2)
    assert recalled(store) == {5: 1, 6: 2}
    store.journal.drop(hand_outs.take_over())
    assert recalled(store) == {6: 2}


# forgotten notes -----------------------------------------------------------------------------------------------

MOVES = """
mq = mqplug.connect("rocksmq", path=str(path), sync="os")
mq.create_topic("jobs")
with mq.producer("jobs") as out:
    out.send_many([b"0", b"1", b"2"])
member = mq.consumer("jobs", group="workers", mode="shared")
member.receive_many(3, 10)
if sys.argv[2] == "seek":
    member.seek(mqplug.EARLIEST)
elif sys.argv[2] != "kept":
    member.close()
if sys.argv[2] == "reset":
    mq.reset_group("workers", "jobs", mqplug.EARLIEST)
elif sys.argv[2] == "deleted":
    mq.delete_group("workers")
print("done", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("how", ["kept", "seek", *nightly("closed", "reset", "deleted")])
def test_moved_and_killed(path: Path, how: str) -> None:
    """A seek, a reset and a deleted group end attempts, which do not come back from the file after a kill."""
    with python(MOVES, path, how) as process:
        assert line(process) == "done"
        process.kill()
        process.wait(30)
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        assert {attempt for _, attempt in Sharer(mq).take(9, 1)} == {2 if how in ("kept", "closed") else 1}


def test_a_deleted_topic(hand_outs: HandOuts, store: Store) -> None:
    """Notes of a deleted topic are not folded."""
    take(hand_outs, 1)
    store.delete_topic("orders")
    store.journal.fold()
    assert store.engine.pages.scan(HANDED_OUT) == []


# without space -------------------------------------------------------------------------------------------------


@pytest.fixture
def full(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Prevent notes from being written to RocksDB, as on a full disk, until the returned function is called."""
    with monkeypatch.context() as patched:
        patched.setattr(store.journal, "write", lambda plan: False)
        yield patched.undo


@pytest.mark.usefixtures("mapped")
def test_forgotten_without_room(hand_outs: HandOuts, store: Store, path: Path, full: Callable[[], None]) -> None:
    """Notes that cannot be folded before they are forgotten are removed with the file."""
    take(hand_outs, 1)
    assert notes_key(0, GROUP) in (path / HAND_OUTS).read_bytes()
    hand_outs.forgotten()
    assert not (path / HAND_OUTS).exists()
    assert recalled(store) == {}
    take(hand_outs, 2)
    full()
    assert recalled(store) == {2: 1}


@pytest.mark.parametrize("written", [False, True])
def test_an_interrupted_fold(hand_outs: HandOuts, store: Store, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    """After Ctrl-C in a fold, before or after its write, the next note is folded with the earlier ones."""
    write = store.journal.write

    def interrupted(plan: AddChanges) -> bool:
        if written:
            write(plan)
        raise KeyboardInterrupt

    take(hand_outs, 0)
    take(hand_outs, 1)
    with monkeypatch.context() as patched:
        patched.setattr(store.journal, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.journal.fold()
    take(hand_outs, 2)
    assert len(store.engine.pages.scan(HANDED_OUT)) == 3
    assert recalled(store) == dict.fromkeys(range(3), 1)


def test_where_no_file_can_be_mapped(path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that may need new space to rewrite allocated blocks, each note is folded at once."""
    monkeypatch.setattr(module, "_IN_PLACE_TYPES", frozenset())
    store = open_store(sync="os")
    hand_outs = HandOuts(store.journal, new_log(store), GROUP)
    hand_outs.recall()
    for offset in range(3):
        take(hand_outs, offset)
        assert len(store.engine.pages.scan(HANDED_OUT)) == offset + 1


@pytest.mark.usefixtures("mapped")
def test_its_blocks_are_allocated(hand_outs: HandOuts, path: Path) -> None:
    """The file's blocks are allocated: writing to a mapped sparse file on a full disk would kill the process."""
    assert (path / HAND_OUTS).stat().st_blocks * 512 >= JOURNAL_BYTES


def test_no_room_for_the_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the blocks cannot be allocated, each note is folded at once."""

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    hand_outs = HandOuts(store.journal, new_log(store), GROUP)
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", refuse)
        hand_outs.recall()
    take(hand_outs, 0)
    assert len(store.engine.pages.scan(HANDED_OUT)) == 1


def test_a_full_file_without_room(hand_outs: HandOuts, store: Store, full: Callable[[], None]) -> None:
    """Hand-outs continue when notes cannot be stored; with space again, the notes that count are folded."""
    count = JOURNAL_BYTES // 30
    for offset in range(count):
        take(hand_outs, offset)
    stored(store, hand_outs, range(100, count))
    full()
    assert recalled(store) == dict.fromkeys(range(100), 1)


# damage ------------------------------------------------------------------------------------------------------


def records(count: int) -> bytes:
    """Return records whose keys are their numbers."""
    return b"".join([b"".join(encode_record(TOKEN, b"%d" % each, b"value")) for each in range(count)])


def test_records() -> None:
    """Records are read up to the first one that is torn or has another token; a record after it shows damage."""
    raw, size = records(3), len(records(1))
    whole = {b"%d" % each: b"value" for each in range(3)}
    assert read_journal(raw, TOKEN) == (whole, None)
    assert read_journal(raw + bytes(100), TOKEN) == (whole, None)
    assert read_journal(raw, b"another.") == ({}, None)
    older = b"".join(encode_record(b"an older", b"3", b"value"))
    assert read_journal(raw + older, TOKEN) == (whole, None)
    for cut in range(size):
        torn = raw[: 2 * size + cut] + bytes(size - cut)
        assert read_journal(torn, TOKEN).notes == {b"0": b"value", b"1": b"value"}
    for at in range(size, 2 * size):
        spoilt = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        assert read_journal(spoilt, TOKEN) == ({b"0": b"value"}, size)


def spoil(path: Path, number: int) -> None:
    """Damage the value of a note in the file."""
    raw, at = bytearray((path / HAND_OUTS).read_bytes()), 0
    for _ in range(number + 1):
        at = raw.index(notes_key(0, GROUP), at + 1)
    raw[at + 20] ^= 1
    (path / HAND_OUTS).write_bytes(raw)


@pytest.mark.usefixtures("mapped")
def test_a_damaged_file(path: Path, open_store: OpenStore) -> None:
    """A check reports a damaged file, a repair drops it, and until then the notes before the damage count."""
    handed_out(path, 5)
    assert check_store(path).sound
    spoil(path, 2)
    [finding] = check_store(path).findings
    assert "hand_outs, which counts hand-outs, is damaged" in finding.what
    [repaired] = repair_store(path).report.findings
    assert repaired == finding
    assert check_store(path).sound
    assert recalled(open_store(sync="os")) == {}


@pytest.mark.usefixtures("mapped")
def test_a_damaged_file_is_opened(path: Path, open_store: OpenStore) -> None:
    """The notes before the damage count, and the file is used again."""
    handed_out(path, 5)
    spoil(path, 2)
    store = open_store(sync="os")
    assert recalled(store) == {0: 1, 1: 2}
    store.close(10)
    assert check_store(path).sound


@pytest.mark.usefixtures("mapped")
def test_an_incomplete_file_after_the_host_died(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete file is not damage after the host died: unsynced notes may be there in part."""
    handed_out(path, 5)
    spoil(path, 2)
    monkeypatch.setattr(WitnessRecord, "host_ended", True)
    assert check_store(path).sound


CONTENTS = {
    "nothing": b"",
    "little": b"x",
    "zeros": bytes(JOURNAL_BYTES),
    "noise": Random(1).randbytes(JOURNAL_BYTES),
    "too much": bytes(1 << 20),
}


@pytest.mark.usefixtures("mapped")
@pytest.mark.parametrize("name", ["little", "noise", *nightly("nothing", "zeros", "too much")])
def test_other_content(path: Path, open_store: OpenStore, name: str) -> None:
    """With any content of the file, the store opens and uses the file."""
    handed_out(path, 1)
    (path / HAND_OUTS).write_bytes(CONTENTS[name])
    store = open_store(sync="os")
    hand_outs = HandOuts(store.journal, 0, GROUP)
    hand_outs.recall()
    before = store.engine.durability.changes
    for offset in range(5):
        take(hand_outs, offset)
    assert store.engine.durability.changes == before
    assert (path / HAND_OUTS).stat().st_size == JOURNAL_BYTES
    assert recalled(store) == dict.fromkeys(range(5), 1)


# copies and forks --------------------------------------------------------------------------------------------


def test_a_backup(path: Path, tmp_path: Path, hand_outs: HandOuts, store: Store) -> None:
    """A backup has the hand-outs before it, and no later ones."""
    take(hand_outs, 0)
    take(hand_outs, 1)
    back_up_store(store, tmp_path / "backup")
    take(hand_outs, 2)
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    restored = Store(tmp_path / "restored", store.settings)
    assert recalled(restored) == {0: 1, 1: 1}
    restored.close(10)


def test_a_copy_of_a_killed_store(path: Path, tmp_path: Path, store: Store) -> None:
    """A copy of a store that was not closed has its journal."""
    handed_out(tmp_path / "killed", 2)
    restore_backup(tmp_path / "killed", tmp_path / "copy")
    copied = Store(tmp_path / "copy", store.settings)
    assert recalled(copied) == {0: 1, 1: 2}
    copied.close(10)


@pytest.mark.usefixtures("mapped")
def test_a_fork(mq: mqplug.Client, path: Path) -> None:
    """The child of a fork writes nothing to the file, and the parent continues to."""
    jobs(mq, 3)
    member = Sharer(mq)
    member.take(1)
    member.take(1)
    before = (path / HAND_OUTS).read_bytes()
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in (lambda: member.take(1), lambda: member.settle(back={1: 60.0})):
            try:
                call()
            except ForkedClient:
                refused += 1
        os._exit(0 if refused == 2 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert (path / HAND_OUTS).read_bytes() == before
    assert member.take(1) == [(2, 1)]
    assert (path / HAND_OUTS).read_bytes() != before
    assert HandOuts(native(mq).journal, 0, GROUP).recall() == dict.fromkeys([(0,), (1,), (2,)], Recalled(1))


def test_the_token_is_in_the_database(hand_outs: HandOuts, store: Store) -> None:
    """Each fold stores a new token, so that the records in the file no longer count."""
    tokens = set()
    for offset in range(3):
        take(hand_outs, offset)
        store.journal.fold()
        tokens.add(store.engine.pages.get(JOURNAL))
    assert len(tokens) == 3
