"""Storing records: the producer, in the caller's thread, the stage of an ingest, and transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import attrs

from mqplug._model.errors import Error, Fenced, NotAssigned, NotCommitted
from mqplug.memory._partition import Partition, Written
from mqplug.memory._staging import Part
from mqplug.memory._store import Store
from mqplug.spi import (
    GroupMove,
    ProducerDriver,
    Run,
    Sending,
    Staged,
    StageDriver,
    TopicInfo,
    TransactionDriver,
    TransactionMark,
)

if TYPE_CHECKING:
    from mqplug.memory._consumer import MemoryConsumer


Unit = Run | list[Sending]
"""Records of one partition that are stored as one batch."""


class MemoryProducer(ProducerDriver):
    """A producer that stores at once. Records sent together to one partition are one batch."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._store.changed:
            for batch in _batches(sendings):
                self._put(batch)

    def send_run(self, run: Run) -> None:
        with self._store.changed:
            self._put(run)

    def _put(self, unit: Unit) -> None:
        try:
            partition = _partition(self._store, unit)
        except Error as error:
            _fail(unit, error)
        else:
            _append(unit, partition)
            self._store.changed.notify_all()


class MemoryStage(StageDriver):
    """A stage that collects messages of one topic."""

    def __init__(self, store: Store, topic: TopicInfo) -> None:
        self._store = store
        self._topic = topic
        self._parts: list[Part] = []

    def write(self, run: Run, timeout: float) -> None:
        self._parts.append(Part(self._topic.logs[run.partition], Written.of(run), run.size))

    def finish(self, timeout: float) -> Staged:
        with self._store.changed:
            return self._store.staging.keep(self._topic.name, self._parts)

    def discard(self) -> None:
        self._parts = []


class MemoryTransactions(TransactionDriver):
    """The holder of a transaction name, until another client takes it over."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._mark: TransactionMark | None = None
        self._units: list[Unit] = []
        with store.changed:
            store.holders[name] = self

    def send(self, sendings: Sequence[Sending]) -> None:
        self._units.extend(_batches(sendings))

    def send_run(self, run: Run) -> None:
        self._units.append(run)

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        with self._store.changed:
            self._check_holder()
            self._mark = mark
            known = None if mark is None else self._store.marks.get((self._name, mark.topic))
            return known if known is not None and mark is not None and mark.number <= known.number else None

    def annotate(self, note: str) -> None:
        if self._mark is not None:
            self._mark = attrs.evolve(self._mark, note=note)

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        with self._store.changed:
            try:
                self._check_holder()
                for move in moves:
                    _check_member(move)
                parts = [(unit, _partition(self._store, unit)) for unit in self._units]
            except Error:
                self.abort(timeout)
                raise
            for unit, partition in parts:
                _append(unit, partition)
            for move in moves:
                self._store.store_positions(move.group, move.positions)
            self._store_mark()
            self._units = []
            self._store.changed.notify_all()

    def _check_holder(self) -> None:
        if self._store.holders.get(self._name) is not self:
            raise Fenced(f"the transaction {self._name!r} has a newer holder")

    def _store_mark(self) -> None:
        if self._mark is not None:
            key = self._name, self._mark.topic
            known = self._store.marks.get(key)
            if known is None or known.number < self._mark.number:
                self._store.marks[key] = self._mark

    def abort(self, timeout: float) -> None:
        units, self._units = self._units, []
        for unit in units:
            _fail(unit, NotCommitted("the transaction was aborted"))

    def close(self, timeout: float) -> None:
        self.abort(timeout)
        with self._store.changed:
            if self._store.holders.get(self._name) is self:
                del self._store.holders[self._name]


def _check_member(move: GroupMove) -> None:
    member: MemoryConsumer = move.member
    for log in move.positions:
        if not member.holds(log):
            raise NotAssigned(f"{log!r} was handed over before the commit")


def _batches(sendings: Sequence[Sending]) -> Iterator[list[Sending]]:
    """Yield the records that follow each other for one partition."""
    for _, each in groupby(sendings, lambda sending: (sending.topic, sending.partition)):
        yield list(each)


def _partition(store: Store, unit: Unit) -> Partition:
    first = unit[0] if isinstance(unit, list) else unit
    return store.numbered(first.topic, first.partition)


def _append(unit: Unit, partition: Partition) -> None:
    """Store records as one batch, and settle them."""
    if not isinstance(unit, list):
        unit.stored(partition.log, *partition.append(*Written.of(unit)))
        return
    placed = partition.append(
        [each.value for each in unit],
        [each.key for each in unit],
        [each.headers for each in unit],
        [each.timestamp for each in unit],
    )
    for sending, place, detail in zip(unit, *placed, strict=True):
        sending.stored(partition.log, place, detail)


def _fail(unit: Unit, error: Error) -> None:
    for each in unit if isinstance(unit, list) else (unit,):
        each.failed(error)
