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


class MemoryProducer(ProducerDriver):
    """A producer that stores at once. Records sent together to one partition are one batch."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._store.changed:
            for (topic, number), each in groupby(sendings, lambda sending: (sending.topic, sending.partition)):
                self._send_batch(topic, number, list(each))
            self._store.changed.notify_all()

    def _send_batch(self, topic: str, number: int, sendings: Sequence[Sending]) -> None:
        try:
            partition = self._store.numbered(topic, number)
        except Error as error:
            for sending in sendings:
                sending.failed(error)
            return
        places, details = partition.append(
            [sending.value for sending in sendings], [sending.key for sending in sendings],
            [sending.headers for sending in sendings], [sending.timestamp for sending in sendings],
        )  # fmt: skip
        for sending, place, detail in zip(sendings, places, details, strict=True):
            sending.stored(partition.log, place, detail)

    def send_run(self, run: Run) -> None:
        with self._store.changed:
            try:
                partition = self._store.numbered(run.topic, run.partition)
            except Error as error:
                run.failed(error)
                return
            run.stored(partition.log, *partition.append(*Written.of(run)))
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
        self._units: list[Run | Sequence[Sending]] = []
        with store.changed:
            store.holders[name] = self

    def send(self, sendings: Sequence[Sending]) -> None:
        for _, each in groupby(sendings, lambda sending: (sending.topic, sending.partition)):
            self._units.append(list(each))

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
                parts = [(unit, self._partition(unit)) for unit in self._units]
            except Error:
                self.abort(timeout)
                raise
            for unit, partition in parts:
                _store(unit, partition)
            for move in moves:
                self._store.store_positions(move.group, move.positions)
            self._store_mark()
            self._units = []
            self._store.changed.notify_all()

    def _check_holder(self) -> None:
        if self._store.holders.get(self._name) is not self:
            raise Fenced(f"the transaction {self._name!r} has a newer holder")

    def _partition(self, unit: Run | Sequence[Sending]) -> Partition:
        first = unit[0] if isinstance(unit, Sequence) else unit
        return self._store.numbered(first.topic, first.partition)

    def _store_mark(self) -> None:
        if self._mark is not None:
            key = self._name, self._mark.topic
            known = self._store.marks.get(key)
            if known is None or known.number < self._mark.number:
                self._store.marks[key] = self._mark

    def abort(self, timeout: float) -> None:
        units, self._units = self._units, []
        for unit in _settled_by(units):
            unit.failed(NotCommitted("the transaction was aborted"))

    def close(self, timeout: float) -> None:
        self.abort(timeout)
        with self._store.changed:
            if self._store.holders.get(self._name) is self:
                del self._store.holders[self._name]


def _settled_by(units: Sequence[Run | Sequence[Sending]]) -> Iterator[Run | Sending]:
    for unit in units:
        if isinstance(unit, Sequence):
            yield from unit
        else:
            yield unit


def _check_member(move: GroupMove) -> None:
    member: MemoryConsumer = move.member
    for log in move.positions:
        if not member.holds(log):
            raise NotAssigned(f"{log!r} was handed over before the commit")


def _store(unit: Run | Sequence[Sending], partition: Partition) -> None:
    if not isinstance(unit, Sequence):
        unit.stored(partition.log, *partition.append(*Written.of(unit)))
        return
    places, details = partition.append(
        [sending.value for sending in unit], [sending.key for sending in unit],
        [sending.headers for sending in unit], [sending.timestamp for sending in unit],
    )  # fmt: skip
    for sending, place, detail in zip(unit, places, details, strict=True):
        sending.stored(partition.log, place, detail)
