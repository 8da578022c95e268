"""The holder of a transaction name: keeps the records of a transaction as pages until their commit stores all of them.

Nothing of an open transaction is in the store or in its owner process. A commit is one call, carried out by
``commit_in_store`` in the process that owns the store.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import attrs

from mqplug import Closed, Error, Log, MessageTooLarge, NotAssigned, NotCommitted, OutcomeUnknown, PluginError, Timeout
from mqplug.spi import Bell, Deadline, GroupMove, Run, Sending, TransactionDriver, TransactionMark
from mqplug_rocksmq._driver.consumer import Membership
from mqplug_rocksmq._driver.producers import RunSend, SingleSends
from mqplug_rocksmq._driver.translation import log_at, log_number, stored_position
from mqplug_rocksmq._format.keys import StoredPosition
from mqplug_rocksmq._format.page import PageBody, is_full
from mqplug_rocksmq._settings import BACKEND
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.transactions import LogPages, StepContent, StepId

MAX_TRANSACTION_BYTES: Final = 64 << 20
LINGER_S: Final = 1.0  # how long single records are collected: nothing waits for them before the commit
FEW_RECORDS: Final = 16  # runs of fewer records share a page with the records sent before and after
RECORD_BYTES: Final = 64  # taken by a record besides its value, key and headers

PlacedParts = Sequence[tuple[Log, int]]
"""The log and first offset of each part of a commit."""


class StepCommit(NamedTuple):
    """A transaction to commit. *synced*: it must then be on disk, whatever the settings of the store are."""

    step: StepId
    parts: Sequence[LogPages]
    mark: TransactionMark | None
    moves: Sequence[GroupMove]
    synced: bool = False


class TransactionDesk(Protocol):
    """The part of a connection that transactions use."""

    def hold_transactions(self, name: str, holder: str, timeout: float) -> None:
        """Make *holder* the holder of a name."""

    def begin_transaction(
        self, name: str, holder: str, unsettled: int | None, mark: TransactionMark | None, timeout: float
    ) -> TransactionMark | None:
        """Return the mark if it was committed before. Make sure that *unsettled* is committed, or never will be."""
        ...

    def commit_transaction(self, commit: StepCommit, timeout: float) -> PlacedParts | Error:
        """Commit. Return the store's error if it refused. Raise if the outcome of the commit is unknown."""
        ...


class TransactionalProducer(TransactionDriver):
    """Sends to any topic of a store, in transactions. Readers see no record before its transaction is committed."""

    linger_s = LINGER_S

    def __init__(self, desk: TransactionDesk, name: str, timeout: float, *, synced: bool = False) -> None:
        self._desk = desk
        self._name = name
        self._holder = uuid.uuid4().hex
        self._synced = synced
        self._lock = threading.RLock()
        self._settled = Bell()
        self._parts: dict[tuple[str, int], _BufferedPart] = {}
        self._step = self._size = 0
        self._open = False
        self._mark: TransactionMark | None = None
        self._unsettled: int | None = None
        self._refused: Error | None = None
        desk.hold_transactions(name, self._holder, timeout)

    # one transaction ---------------------------------------------------------------------------------------

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        self.abort(timeout)
        known = self._desk.begin_transaction(self._name, self._holder, self._unsettled, mark, timeout)
        with self._lock:
            self._unsettled = self._refused = None
            self._step += 1
            self._mark = mark if known is None else None
            self._open = True
        return known

    def annotate(self, note: str) -> None:
        if self._mark is not None:
            self._mark = attrs.evolve(self._mark, note=note)

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        parts = self._take()
        if self._refused is not None:
            self._give_up(parts, _aborted())
            raise self._refused
        if not parts and not moves and self._mark is None:
            return
        pages = [LogPages(*part.place, part.bodies) for part in parts]
        step = StepId(self._name, self._holder, self._step)
        self._unsettled = self._step
        try:
            outcome = self._desk.commit_transaction(StepCommit(step, pages, self._mark, moves, self._synced), timeout)
        except BaseException as error:
            unknown = _unknown(error)
            self._give_up(parts, unknown)
            if isinstance(error, Error):
                raise unknown from error
            raise
        if isinstance(outcome, OutcomeUnknown | Timeout):
            self._give_up(parts, unknown := _unknown(outcome))
            raise unknown from outcome
        self._unsettled = None
        if isinstance(outcome, Error):
            self._give_up(parts, outcome)
            raise outcome
        for part, (log, first) in zip(parts, outcome, strict=True):
            part.stored(log, first)
        self._settled.ring()

    def abort(self, timeout: float) -> None:
        self._give_up(self._take(), _aborted())

    def _take(self) -> list[_BufferedPart]:
        """End the transaction and return its parts. No more records can be sent in it."""
        with self._lock:
            self._open = False
            parts, self._parts, self._size = self._parts, {}, 0
            for part in parts.values():
                self._refused = part.encode() or self._refused
        return [part for part in parts.values() if part.bodies]

    def _give_up(self, parts: Sequence[_BufferedPart], error: Error) -> None:
        for part in parts:
            part.give_up(error)
        self._settled.ring()

    # records -----------------------------------------------------------------------------------------------

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._lock:
            for sending in sendings:
                size = _size(sending)
                if error := self._refuse(size):
                    sending.failed(error)
                else:
                    self._refused = self._part(sending.topic, sending.partition).add(sending, size) or self._refused

    def send_run(self, run: Run) -> None:
        """Keep the columns of a batch as pages."""
        with self._lock:
            if error := self._refuse(run.size + RECORD_BYTES * len(run)):
                run.failed(error)
            else:
                self._refused = self._part(run.topic, run.partition).add_run(run) or self._refused

    def _part(self, topic: str, partition: int) -> _BufferedPart:
        return self._parts.setdefault((topic, partition), _BufferedPart(topic, partition))

    def _refuse(self, size: int) -> Error | None:
        """Return why records of this size cannot be part of the transaction, or None after adding their size."""
        if not self._open:
            return Closed("the transaction has ended", fix="Begin another one", backend=BACKEND)
        if self._size + size > MAX_TRANSACTION_BYTES:
            self._refused = MessageTooLarge(
                f"a transaction cannot have more than {MAX_TRANSACTION_BYTES} bytes: it has {self._size}, and {size}"
                " more were sent",
                fix="Commit more often; to store more at once, use client.stage and client.ingest", backend=BACKEND,
            )  # fmt: skip
            return self._refused
        self._size += size
        return None

    def pump(self, timeout: float) -> None:
        if self._parts:
            self._settled.wait(timeout)

    def close(self, timeout: float) -> None:
        """Abort. The name keeps this holder until another client takes it over."""
        self.abort(timeout)


class _BufferedPart:
    """The records of a transaction for one partition: pages, and the last records, which are not encoded yet."""

    def __init__(self, topic: str, partition: int) -> None:
        self.place = topic, partition
        self.bodies: list[PageBody] = []
        self._sends: list[tuple[SingleSends | RunSend, int]] = []
        self._collected: list[Sending] = []
        self._collected_bytes = 0

    def add(self, sending: Sending, size: int) -> Error | None:
        """Add a record. Return the error of records that cannot be encoded: they are settled as failed."""
        self._collected.append(sending)
        self._collected_bytes += size
        return self.encode() if is_full(len(self._collected), self._collected_bytes) else None

    def add_run(self, run: Run) -> Error | None:
        """Add a run, as ``add`` does."""
        if len(run) < FEW_RECORDS:
            error = None
            for sending in run.sendings():
                error = self.add(sending, run.size // len(run)) or error
            return error
        return self.encode() or self._encode(RunSend(run), len(run))

    def encode(self) -> Error | None:
        """Encode the last records as pages. Return the error of records that cannot be encoded."""
        collected, self._collected, self._collected_bytes = self._collected, [], 0
        return self._encode(SingleSends(collected), len(collected)) if collected else None

    def _encode(self, sends: SingleSends | RunSend, count: int) -> Error | None:
        try:
            self.bodies += [body.copied() for body in sends.bodies()]
        except Error as error:
            sends.give_up(error)
            return error
        except Exception as error:  # noqa: BLE001 - a sender that gets no outcome would wait forever
            refused = PluginError(f"encoding messages for topic {self.place[0]!r} failed: {error!r}")
            sends.give_up(refused)
            return refused
        self._sends.append((sends, count))
        return None

    def stored(self, log: Log, first: int) -> None:
        """Report all records as stored, from this offset on."""
        for sends, count in self._sends:
            sends.stored(log, first)
            first += count

    def give_up(self, error: Error) -> None:
        """Report all records as failed, or their outcome as unknown."""
        for sends, _ in self._sends:
            sends.give_up(error)


def _size(sending: Sending) -> int:
    """Return the approximate size of a record in bytes."""
    size = RECORD_BYTES + len(sending.value or b"") + len(sending.key or b"")
    return size + sum(len(name) + len(value or b"") for name, value in sending.headers)


def _aborted() -> Error:
    return NotCommitted("the transaction was aborted", backend=BACKEND)


def _unknown(cause: BaseException) -> OutcomeUnknown:
    if isinstance(cause, OutcomeUnknown):
        return cause
    reason = cause.message if isinstance(cause, Error) else repr(cause)
    return OutcomeUnknown(
        f"the transaction may or may not be committed: {reason}",
        fix="Begin the step again under its number: if it was committed, it counts as repeated", backend=BACKEND,
    )  # fmt: skip


def commit_in_store(store: Store, commit: StepCommit, timeout: float) -> PlacedParts | Error:
    """Commit a transaction. Return the error that refused it."""
    deadline = Deadline(timeout)
    try:
        content = StepContent(
            commit.parts,
            _positions(store, commit.moves),
            commit.mark,
            partial(_check_members, store, commit.moves),
        )
        placed = store.transactions.commit(commit.step, content, deadline.remaining())
        if commit.synced and store.settings.sync != "always":
            store.sync()
    except Error as error:
        return error
    return [
        (log_at(store.id, part.topic, part.partition, each.log), each.first)
        for part, each in zip(commit.parts, placed, strict=True)
    ]


def _positions(store: Store, moves: Sequence[GroupMove]) -> dict[str, dict[int, StoredPosition]]:
    positions: dict[str, dict[int, StoredPosition]] = {}
    for move in moves:
        places = {log_number(store.id, log): stored_position(each) for log, each in move.positions.items()}
        positions.setdefault(move.group, {}).update(places)
    return positions


def _check_members(store: Store, moves: Sequence[GroupMove]) -> None:
    """Raise ``NotAssigned`` unless the members still hold the logs whose positions a transaction stores."""
    for move in moves:
        member = move.member
        if member is None or (isinstance(member, Membership) and member.holds(store, move.group, move.positions)):
            continue
        raise NotAssigned(
            f"the member of the group {move.group!r} lost partitions before its transaction was committed",
            fix="Receive again: the messages are delivered again, to the member that now has their partitions",
            backend=BACKEND,
        )
