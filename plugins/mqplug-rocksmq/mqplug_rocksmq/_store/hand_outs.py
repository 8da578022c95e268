"""Hand-outs of a shared log on disk, so that delivery counts survive the death of all processes.

Each hand-out is a note. It goes to the store's journal before its messages go to the member. It is dropped once they
are handed out again or the acks of all of them are stored. Messages that are handed out one at a time share a note
that is extended. Notes are not synced: the operating system holds them, so they outlive their process.

The journal is a small mapped file for new notes, which are folded into RocksDB together. A note in it outlives its
process just as one in RocksDB does, at a fraction of the cost. Most notes no longer count when the file is full, and
never reach RocksDB. Each fold stores a new token with the notes: a record in the file counts only if it has that token.

All blocks of the file are allocated first, because writing to a mapped file on a full disk kills the process. On file
systems that may need new space to rewrite a block, and while there is no space for the file, each note is folded at
once.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Final

from mqplug import Error, StorageFull
from mqplug.spi import Numbers
from mqplug.spi.groups import Lease, Recalled
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.directory import HAND_OUTS
from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._engine.store_files import open_own, read_own
from mqplug_rocksmq._format.hand_out_notes import (
    TOKEN_BYTES,
    HandOutNote,
    encode_record,
    note_value,
    notes_key,
    numbered_key,
    read_journal,
    read_note,
    span_value,
    spans_of,
)
from mqplug_rocksmq._format.keys import JOURNAL, after_prefix, log_of
from mqplug_rocksmq._store.topics import AddChanges, TopicTable

RUN_MESSAGES: Final = 1000  # with one note
JOURNAL_BYTES: Final = 64 << 10
RECLAIM_GRACE_S: Final = 1.0  # for members in other processes to find a new owner and report their messages
_IN_PLACE_TYPES: Final = frozenset({0xEF53, 0x58465342, 0x01021994})  # ext2 to ext4, XFS, tmpfs


class _StoredNote:
    """A note on disk, the number of messages whose latest note it is, and whether any of its others were acked."""

    __slots__ = ("acked", "key", "left")

    def __init__(self, key: bytes, left: int) -> None:
        self.key = key
        self.left = left
        self.acked = False


class _Run:
    """New messages, one after the other, that were handed out one at a time, and their common note.

    The note stays until another one is needed, even if all of its messages were acked.
    """

    __slots__ = ("elsewhere", "end", "first", "note")

    def __init__(self, note: _StoredNote, first: int, *, elsewhere: bool) -> None:
        self.note = note
        self.first, self.end = first, first + 1
        self.elsewhere = elsewhere

    def follows(self, offset: int, *, elsewhere: bool) -> bool:
        """Return whether a message can be added."""
        return offset == self.end and elsewhere == self.elsewhere and offset - self.first < RUN_MESSAGES


class HandOuts:
    """The hand-out notes of one log and group. Not thread-safe."""

    def __init__(self, journal: HandOutJournal, log: int, group: str) -> None:
        self._journal = journal
        self._log = log
        self._group = group
        self._keys = notes_key(log, group)
        self._next = 0
        self._last: dict[int, _StoredNote] = {}  # the latest note of each message, by offset
        self._over: list[bytes] = []  # the keys of notes that no longer count once the acks are stored
        self._run: _Run | None = None  # of the latest note, if it can be extended

    def recall(self) -> dict[Numbers, Recalled]:
        """Return the messages that were handed out or put off, according to the stored notes."""
        now, grace = clock.now_ms(), max(0.0, self._journal.opened + RECLAIM_GRACE_S - monotonic())
        known: dict[Numbers, Recalled] = {}
        for note in map(read_note, self._journal.notes(self._keys)):
            for span in note.spans:
                wait = max(0, span.due - now) / 1000 if span.due else grace * note.elsewhere
                recalled = Recalled(span.attempts, wait)
                known |= dict.fromkeys([(offset,) for offset in range(span.first, span.first + span.size)], recalled)
        return known

    def renew(self, known: Mapping[Numbers, Recalled]) -> None:
        """Replace all notes by one."""
        now = clock.now_ms()
        later = [(at[0], each.attempts, now + _ms(each.delay)) for at, each in sorted(known.items())]
        forget = self.forgotten()
        (key, _), value = self._next_key([offset for offset, _, _ in later]), note_value(HandOutNote(spans_of(later)))

        def plan(changes: Changes) -> None:
            forget(changes)
            if later:
                changes.put(key, value)

        self._journal.write(plan)

    def take(self, leases: Sequence[Lease], *, elsewhere: bool) -> None:
        """Record that these messages go to a member, which may be in another process."""
        (first,), attempts = leases[0]
        count = len(leases)
        if leases[-1].coordinates[0] - first == count - 1 and {each for _, each in leases} == {attempts}:
            offsets: Sequence[int] = range(first, first + count)
            value = span_value(first, count, attempts, elsewhere=elsewhere)
        else:
            offsets = [at[0] for at, _ in leases]
            value = note_value(HandOutNote(spans_of((at[0], attempt, 0) for at, attempt in leases), elsewhere))
        key, replaced = self._next_key(offsets)
        self._journal.note(key, value, replaced)

    def take_new(self, offset: int, *, elsewhere: bool) -> None:
        """Record that a new message goes to a member. If it follows the latest such message, their note is extended."""
        run = self._run
        if (
            run is not None
            and run.follows(offset, elsewhere=elsewhere)
            and offset not in self._last
            and self._journal.extend(
                run.note.key, span_value(run.first, offset - run.first + 1, 1, elsewhere=elsewhere)
            )
        ):
            run.note.left += 1
            run.end = offset + 1
            self._last[offset] = run.note
        else:
            key, replaced = self._next_key((offset,))
            self._journal.note(key, span_value(offset, 1, 1, elsewhere=elsewhere), replaced)
            self._run = _Run(self._last[offset], offset, elsewhere=elsewhere)

    def put_off(self, returned: Iterable[tuple[int, int, float]]) -> None:
        """Record returned messages, each as (offset, delivery count, seconds until the next delivery)."""
        now = clock.now_ms()
        later = [(offset, attempts, now + _ms(delay)) for offset, attempts, delay in sorted(returned)]
        key, replaced = self._next_key([offset for offset, _, _ in later])
        self._journal.note(key, note_value(HandOutNote(spans_of(later))), replaced)

    def _next_key(self, offsets: Sequence[int]) -> tuple[bytes, list[bytes]]:
        """Return the key of the next note, from now the latest of these messages, and the keys of those it replaces."""
        replaced: list[bytes] = []
        if self._run is not None:
            if not self._run.note.left:
                self._over.append(self._run.note.key)
            self._run = None
        if not self._last.keys().isdisjoint(offsets):
            for note in self._taken_out(offsets):
                (self._over if note.acked else replaced).append(note.key)
        key, self._next = numbered_key(self._keys, self._next), self._next + 1
        self._last.update(zip(offsets, repeat(_StoredNote(key, len(offsets)))))
        return key, replaced

    # notes that no longer count ------------------------------------------------------------------------------

    def acked(self, offsets: Iterable[int]) -> None:
        """Forget messages that were acked. Their notes count until the acks are stored."""
        for note in self._taken_out(offsets, acked=True):
            self._over.append(note.key)

    def take_over(self) -> list[bytes]:
        """Return the keys of the notes that no longer count once the current acks are stored."""
        over, self._over = self._over, []
        return over

    def give_back(self, keys: Iterable[bytes]) -> None:
        """Keep notes until the next acks are stored, because storing the current ones failed."""
        self._over += keys

    def _taken_out(self, offsets: Iterable[int], *, acked: bool = False) -> list[_StoredNote]:
        """Remove messages from their notes. Return the notes that have none left."""
        empty, extended = [], self._run and self._run.note
        for note in map(self._last.pop, offsets, repeat(None)):
            if note is not None:
                note.left -= 1
                note.acked |= acked
                if not note.left and note is not extended:
                    empty.append(note)
        return empty

    def forgotten(self) -> AddChanges:
        """Return the change that removes all notes, for the next write."""
        self._last, self._over, self._run = {}, [], None
        return self._journal.forget(self._keys)


def _ms(seconds: float) -> int:
    return int(1000 * seconds)


class HandOutJournal:
    """The hand-out notes of one store. Any thread may call."""

    def __init__(self, path: Path, engine: Engine, topics: TopicTable) -> None:
        self._path = path / HAND_OUTS
        self._engine = engine
        self._topics = topics
        self.opened = monotonic()
        self._lock = Lock()
        self._unfolded: dict[bytes, bytes] = {}  # notes that count, and are not in RocksDB
        self._over: list[bytes] = []  # keys in RocksDB of notes that no longer count
        self._token = b""  # of new records; empty if none can be written before a fold
        self._file: mmap.mmap | None = None
        self._end = 0  # of the records in the file

    def recover(self) -> None:
        """Fold the notes that an earlier process left in the file."""
        with suppress(FileNotFoundError):
            raw = read_own(self._path)
            if token := self._engine.pages.get(JOURNAL):
                self._unfolded = read_journal(raw, token).notes
        self.fold()

    def note(self, key: bytes, value: bytes, replaced: Sequence[bytes] = ()) -> None:
        """Store a note so that it outlives the process, and forget the notes that it replaces.

        While the disk is full, the note stays in memory.
        """
        with self._lock:  # a fold sees both or neither
            if replaced:
                self._drop(replaced)
            self._store(key, value)

    def extend(self, key: bytes, value: bytes) -> bool:
        """Replace a note as ``note`` stores one. Return False if it may be in RocksDB, where the old one would stay."""
        with self._lock:
            if key not in self._unfolded:
                return False
            self._store(key, value)
            return True

    def _store(self, key: bytes, value: bytes) -> None:
        self._unfolded[key] = value
        head, body = encode_record(self._token, key, value)
        start = self._end + len(head)
        end = start + len(body)
        if self._file is None or not self._token or end > JOURNAL_BYTES:
            self._fold()
        else:
            self._file[start:end] = body
            self._file[self._end : start] = head
            self._end = end

    def drop(self, keys: Iterable[bytes]) -> None:
        """Forget notes that no longer count."""
        with self._lock:
            self._drop(keys)

    def _drop(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            if self._unfolded.pop(key, None) is None:
                self._over.append(key)

    def notes(self, prefix: bytes) -> list[bytes]:
        """Return the notes under a prefix in the order of their keys. Afterwards, new notes go to the file."""
        with self._lock:
            self._fold()
            if self._file is None:
                with suppress(OSError):
                    self._file = _mapped(self._path)
            with self._engine.lock:
                self._engine.check()
                found = dict(self._engine.pages.scan(prefix))
            found |= {key: value for key, value in self._unfolded.items() if key.startswith(prefix)}
            return [found[key] for key in sorted(found)]

    def forget(self, prefix: bytes) -> AddChanges:
        """Return the change that removes all notes under a prefix, for the next write."""
        with self._lock:
            if (self._unfolded or self._end) and not self._fold():
                self._unfolded = {key: each for key, each in self._unfolded.items() if not key.startswith(prefix)}
                self._close()
                self._path.unlink(missing_ok=True)
        return lambda changes: changes.delete_range(prefix, after_prefix(prefix))

    # folding -------------------------------------------------------------------------------------------------

    def fold(self) -> None:
        """Move all notes into RocksDB, if the disk has space."""
        with self._lock:
            if self._unfolded or self._over or self._end:
                self._fold()

    def _fold(self) -> bool:
        token, self._token = self._token, b""  # an interrupt leaves it empty: the next note folds
        fresh = os.urandom(TOKEN_BYTES)

        def plan(changes: Changes) -> None:
            for key in self._over:
                changes.delete(key)
            for key, value in self._unfolded.items():
                if self._topics.find(log_of(key)):
                    changes.put(key, value)
            changes.put(JOURNAL, fresh)

        if not self.write(plan):
            self._token = token
            return False
        self._unfolded.clear()
        self._over.clear()
        self._end = 0
        self._token = fresh
        return True

    def write(self, plan: AddChanges) -> bool:
        """Write changes to RocksDB without waiting for a sync. Return False if the disk is full."""
        engine = self._engine
        with engine.lock:
            try:
                changes = engine.changes(frees=True)
                plan(changes)
                engine.write_unawaited(changes)
            except StorageFull:
                return False
        return True

    # ending --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Fold, and close the file. Notes that cannot be folded stay in it."""
        with suppress(Error):
            self.fold()
        with self._lock:
            self._close()

    def abandon(self) -> None:
        """Write nothing more in the child of a fork."""
        self._lock = Lock()
        self._close()

    def _close(self) -> None:
        file, self._file, self._token = self._file, None, b""
        if file is not None:
            file.close()


def _mapped(path: Path) -> mmap.mmap | None:
    """Map the file, and create it if necessary. Return None on a file system that does not write in place."""
    descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        if not writes_in_place(descriptor):
            return None
        os.ftruncate(descriptor, JOURNAL_BYTES)
        os.posix_fallocate(descriptor, 0, JOURNAL_BYTES)
        return mmap.mmap(descriptor, JOURNAL_BYTES)
    finally:
        os.close(descriptor)


def writes_in_place(descriptor: int) -> bool:
    """Return whether a file system rewrites allocated blocks without needing new space."""
    if sys.platform != "linux":
        return False
    answer = ctypes.create_string_buffer(256)  # more than a struct statfs, which begins with the type
    failed = ctypes.CDLL(None).fstatfs(descriptor, answer)
    return not failed and ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF in _IN_PLACE_TYPES
