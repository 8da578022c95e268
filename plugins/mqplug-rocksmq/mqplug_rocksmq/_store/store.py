"""An open store: topics, their logs, and the groups that read them, in a directory owned by this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mqplug import Corrupt
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.directory import (
    STORE_FORMAT,
    Identity,
    examine,
    expect_database,
    identify,
    make_directory,
    refuse_newer,
    write_identity,
)
from mqplug_rocksmq._engine.durability import WriteCallback
from mqplug_rocksmq._engine.engine import Engine, WriteReceipt
from mqplug_rocksmq._engine.errors import translated_errors
from mqplug_rocksmq._engine.log_state import Extent, LogState
from mqplug_rocksmq._engine.rocks import Changes, Pages
from mqplug_rocksmq._engine.store_files import expect_descriptors
from mqplug_rocksmq._engine.tuning import tuning_of
from mqplug_rocksmq._format.keys import (
    NOT_UNDERSTOOD,
    STORE,
    TOPIC,
    json_value,
    read_json,
)
from mqplug_rocksmq._format.page import PageBody, PageColumns, page_bodies
from mqplug_rocksmq._format.slices import Slice
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.group_positions import GroupPositions
from mqplug_rocksmq._store.hand_outs import HandOutJournal
from mqplug_rocksmq._store.ingest import Ingestion
from mqplug_rocksmq._store.logs import append_page, first_and_last, first_at, nth_last, read_log
from mqplug_rocksmq._store.offset_leases import lease_offsets
from mqplug_rocksmq._store.repeated_requests import Deduplication, Origin
from mqplug_rocksmq._store.retention import RetentionWorker
from mqplug_rocksmq._store.staging import StagingDirectory
from mqplug_rocksmq._store.topics import AddChanges, Topic, TopicTable, no_changes
from mqplug_rocksmq._store.transactions import Transactions

_DESCRIPTORS: Final = 24  # for opening a store and its first tables


class Store:
    """An open store. All methods may be called from any thread."""

    def __init__(self, path: Path, settings: RocksMQSettings) -> None:
        expect_descriptors(_DESCRIPTORS)
        examine(path)
        expect_database(path)
        make_directory(path)
        self.path = path
        self.settings = settings
        with _understood(path):
            self._open(path, settings)

    def _open(self, path: Path, settings: RocksMQSettings) -> None:
        tuning = tuning_of(settings)
        self.engine = Engine(path, settings.sync, settings.interval, tuning)
        try:
            self.id = self._identify()
            self.topics = TopicTable(self.engine)
            self.engine.opened()
        except BaseException:
            self.engine.close(None)
            raise
        self.journal = HandOutJournal(path, self.engine, self.topics)
        self.groups = GroupPositions(self.engine, self.topics, self.journal)
        self.deduplication = Deduplication(self.engine)
        staging = StagingDirectory(path)
        self._retention = RetentionWorker(self.engine, self.topics, staging, settings.retention_interval, tuning)
        self.ingestion = Ingestion(self.engine, self.topics, staging, self._retention, tuning)
        self.transactions = Transactions(self.engine, self.topics, self._retention)
        try:
            self.ingestion.recover()
            self.journal.recover()
        except BaseException:
            self.close(None)
            raise

    def _identify(self) -> str:
        stored = self.engine.pages.get(STORE)
        if stored is None:
            named = identify(self.path).id
            self._store_format(named)
            return named
        held = read_json(stored)
        refuse_newer(self.path, held["format"])
        identity = identify(self.path, str(held["id"]))
        if identity.format < STORE_FORMAT:
            with translated_errors():
                write_identity(self.path, Identity(identity.id))
        if held["format"] < STORE_FORMAT:
            self._store_format(identity.id)
        return identity.id

    def _store_format(self, named: str) -> None:
        """Upgrade the database to the newest format, before anything is written that an older program would misread."""

        def plan(changes: Changes) -> None:
            changes.put(STORE, json_value({"format": STORE_FORMAT, "id": named}))
            for key, value in self.engine.pages.scan(TOPIC):
                changes.put_copied(key, value)

        self.engine.change(plan, None)

    def append(self, number: int, columns: PageColumns, done: WriteCallback | None = None) -> int:
        """Store messages in a log and return the offset of the first. *done* is called once they are safe.

        Without *done*, wait until they are.
        """
        bodies = page_bodies(columns)
        return self.engine.retried(lambda: self.append_bodies(number, bodies, done), None)

    def append_bodies(
        self,
        number: int,
        bodies: Iterable[PageBody],
        done: WriteCallback | None = None,
        origin: Origin | None = None,
    ) -> int:
        """Store page bodies in a log, as ``append`` does. A send repeated under the same *origin* is stored once.

        Raise ``WritesStopped`` instead of waiting until RocksDB accepts writes.
        """
        receipt = done or (WriteReceipt() if self.engine.durability.waits else None)
        engine = self.engine
        with engine.lock:
            try:
                changes = engine.changes()
                log = self.topics.log(number)
                size = log.size
                first, leasing = self._fill(changes, log, bodies, origin)
                safe = engine.write(changes, log, first, receipt)
                engine.disk_space.took(log.size - size)
                if leasing and safe:
                    engine.durability.sync_locked()
            except BaseException as error:
                engine.undo(error)
                raise
        self._retention.grew(log.size - size, log)
        if receipt and safe:
            receipt(first, None)
        elif isinstance(receipt, WriteReceipt):
            receipt.wait(None)
        return first

    def _fill(
        self, changes: Changes, log: LogState, bodies: Iterable[PageBody], origin: Origin | None
    ) -> tuple[int, bool]:
        """Add pages to the changes. Return their first offset, and whether offsets were leased for them."""
        first = log.next
        known = origin.find(self.engine.pages.get(origin.key), log.number) if origin and origin.again else None
        if known is None:
            for body in bodies:
                append_page(changes, log, body)
        else:
            first = known
        if origin:
            origin.note(changes, log.number, first)
        return first, lease_offsets(log)

    def read(self, number: int, offset: int, max_messages: int = 1000, max_bytes: int = 1 << 20) -> list[Slice]:
        """Return messages from *offset* on. Raise ``BelowRetained`` if retention removed the message at *offset*."""
        log = self.topics.log(number)
        slices = read_log(self.engine, log, offset, max_messages, max_bytes)
        if log.deleted:
            self.topics.log(number)
        return slices

    def watermarks(self, numbers: Sequence[int]) -> list[Extent]:
        """Return the extent of each of these logs."""
        self.engine.check()
        return [self.topics.log(number).extent for number in numbers]

    def bounds(self, number: int) -> tuple[int, int] | None:
        """Return the offsets of the first and the last message, or None if there are no messages."""
        return first_and_last(self.engine, self.topics.log(number))

    def first_at(self, number: int, milliseconds: int) -> int:
        """Return the offset of the first message with this timestamp or a later one, else the high watermark."""
        return first_at(self.engine, self.topics.log(number), milliseconds)

    def nth_last(self, number: int, count: int) -> int:
        """Return the offset of the *count*-th message from the end, or of the first."""
        return nth_last(self.engine, self.topics.log(number), count)

    def delete_topic(self, name: str, timeout: float | None = None, also: AddChanges = no_changes) -> None:
        """Delete a topic. Its disk space is freed in the background."""
        self.topics.delete(name, timeout, also)
        self._retention.free_soon()

    def retain(
        self,
        name: str,
        limits: Mapping[str, int | None],
        timeout: float | None = None,
        also: AddChanges = no_changes,
    ) -> Topic:
        """Change limits of a topic's retention. A background thread drops messages beyond them at once."""
        topic = self.topics.retain(name, limits, timeout, also)
        self._retention.recheck(filter(None, map(self.topics.find, topic.logs)))
        return topic

    def trim(self, number: int, offset: int, timeout: float | None = None) -> None:
        """Drop the messages before *offset*. Their disk space is freed in the background."""
        self._retention.trim(self.topics.log(number), offset, timeout)
        self._retention.free_soon()

    def enforce_retention(self, now: int | None = None) -> None:
        """Enforce retention as of *now* and free the space, as the background thread does at intervals."""
        self._retention.enforce(clock.now_ms() if now is None else now)
        self._retention.free()

    @contextmanager
    def borrow_pages(self) -> Iterator[Pages]:
        """Hold the lock and yield the pages. Writers wait for it, so do long work in several short parts."""
        with self.engine.lock:
            self.engine.check()
            yield self.engine.pages

    def compact(self) -> None:
        """Enforce retention and compact everything, while reads and writes continue."""
        self.enforce_retention()
        with self.engine.compacting():
            self.engine.pages.compact_all()
        self.engine.tend_room()

    def check(self) -> None:
        """Raise ``Closed`` or ``ForkedClient`` unless the store can be used."""
        self.engine.check()

    def sync(self) -> None:
        """Sync all earlier writes to disk."""
        self.engine.durability.sync()
        self.engine.check()

    def watch(self, number: int, callback: Callable[[], None]) -> None:
        """Call *callback* when a log has more messages or is deleted. It must not block."""
        with self.engine.lock:
            self.engine.check()
            self.topics.log(number).watch(callback)

    def unwatch(self, number: int, callback: Callable[[], None]) -> None:
        """Undo one ``watch``."""
        with self.engine.lock:
            if log := self.topics.find(number):
                log.unwatch(callback)

    def wait(self, offsets: Mapping[int, int], timeout: float | None) -> bool:
        """Wait until a log has a message at or after its offset. Return False at the timeout."""
        more = threading.Event()
        for number in offsets:
            self.watch(number, more.set)
        try:
            return any(self._has(offsets)) or (more.wait(timeout) and any(self._has(offsets)))
        finally:
            for number in offsets:
                self.unwatch(number, more.set)

    def _has(self, offsets: Mapping[int, int]) -> Iterator[bool]:
        return (self.topics.log(number).visible > offset for number, offset in offsets.items())

    def abandon(self) -> None:
        """Refuse all further use, because this process was forked from the one that opened the store."""
        self.engine.abandon()
        self.journal.abandon()

    def close(self, timeout: float | None = None) -> None:
        """Make all writes safe and close. Further calls do nothing."""
        if not self.engine.forked:
            self.journal.close()
            self._retention.stop(timeout)
            self.engine.close(timeout)


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn decoding errors of stored values into ``Corrupt``."""
    try:
        yield
    except NOT_UNDERSTOOD as error:
        text = f"a value in the store {path} cannot be decoded: {type(error).__name__}: {error}"
        raise Corrupt(text, fix=f"Run mqplug rocksmq repair {path}, or restore a backup") from error
