"""Transactions: messages of many logs, positions of groups and a mark, stored in one write.

A transaction name has one holder at a time. Each of its transactions has a number, and the name's record has the number
of the last committed one. So a commit that is repeated, to this owner of the store or to the next, is stored once, and
the outcome of a commit whose answer was lost can be looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import attrs

from mqplug import Fenced, TopicNotFound
from mqplug.spi import TransactionMark
from mqplug_rocksmq._engine.engine import WriteReceipt
from mqplug_rocksmq._engine.log_state import LogState
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.keys import (
    StoredPosition,
    group_key,
    json_value,
    position_value,
    read_json,
    read_step_mark,
    step_mark_key,
    step_mark_value,
    transaction_key,
)
from mqplug_rocksmq._format.page import PageBody
from mqplug_rocksmq._store.logs import append_page
from mqplug_rocksmq._store.offset_leases import lease_offsets

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.engine import Engine
    from mqplug_rocksmq._store.retention import RetentionWorker
    from mqplug_rocksmq._store.topics import TopicTable


class StepId(NamedTuple):
    """A transaction: its name, the holder of the name, and its number among the holder's transactions."""

    name: str
    holder: str
    number: int


class LogPages(NamedTuple):
    """The pages of a transaction for one partition."""

    topic: str
    partition: int
    bodies: Sequence[PageBody]


class PlacedPages(NamedTuple):
    """Where the pages for one partition were stored: the number of its log, and their first offset."""

    log: int
    first: int


def _no_check() -> None:
    """Check nothing."""


class StepContent(NamedTuple):
    """What a transaction stores. *check* raises if the positions may no longer be stored. It must not block."""

    parts: Sequence[LogPages] = ()
    positions: Mapping[str, Mapping[int, StoredPosition]] = {}  # by group and log
    mark: TransactionMark | None = None
    check: Callable[[], None] = _no_check


@attrs.frozen
class HeldName:
    """The record of a transaction name.

    ``committed`` is the number of the holder's last committed transaction, and ``placed`` is where its pages are. No
    other transaction of the holder with a number up to ``given_up`` can be committed.
    """

    holder: str
    committed: int = 0
    given_up: int = 0
    placed: tuple[PlacedPages, ...] = ()

    @property
    def value(self) -> bytes:
        """The stored form of the record."""
        return json_value(attrs.asdict(self, recurse=False))

    @classmethod
    def read(cls, value: bytes) -> HeldName:
        """Return the record from its stored value."""
        said = read_json(value)
        placed = tuple(PlacedPages(int(log), int(first)) for log, first in said["placed"])
        return cls(str(said["holder"]), int(said["committed"]), int(said["given_up"]), placed)


class _Filled(NamedTuple):
    """What a commit added to the changes. Without *logs*, no log grew."""

    placed: Sequence[PlacedPages]
    logs: Sequence[LogState] = ()
    size: int = 0
    leasing: bool = False


class Transactions:
    """The transactions of a store. It keeps nothing of an open one, whose messages come with its commit."""

    def __init__(self, engine: Engine, topics: TopicTable, retention: RetentionWorker) -> None:
        self._engine = engine
        self._topics = topics
        self._grew = retention.grew

    def hold(self, name: str, holder: str, timeout: float | None) -> None:
        """Make *holder* the holder of a name. The former holder can commit nothing more. Repeating is harmless."""

        def plan(changes: Changes) -> None:
            found = self._find(name)
            if found is None or found.holder != holder:
                changes.put(transaction_key(name), HeldName(holder).value)

        self._engine.change(plan, timeout)

    def begin(self, name: str, holder: str, mark: TransactionMark | None) -> TransactionMark | None:
        """Return this or a higher mark of the name and topic, if committed. Raise ``Fenced`` for a former holder."""
        with self._engine.lock:
            self._engine.check()
            self._held(name, holder)
            known = None if mark is None else self._marked(name, mark.topic)
            return known if known is not None and mark is not None and mark.number <= known.number else None

    def give_up(self, step: StepId, timeout: float | None) -> bool:
        """Return whether a transaction was committed. If not, it never will be, even if its commit still arrives."""

        def plan(changes: Changes) -> bool:
            held = self._held(step.name, step.holder)
            if held.committed == step.number:
                return True
            changes.put(transaction_key(step.name), attrs.evolve(held, given_up=step.number).value)
            return False

        return self._engine.change(plan, timeout)

    def commit(self, step: StepId, content: StepContent, timeout: float | None) -> Sequence[PlacedPages]:
        """Commit a transaction, all or nothing. Return where its pages are, in order.

        A transaction that was committed before is not committed again.
        """
        if (placed := self._find_committed(step)) is not None:
            return placed
        plan = partial(self._fill, step, content)
        if not content.parts:
            return self._engine.change(plan, timeout).placed
        return self._engine.retried(lambda: self._append(plan, timeout), timeout)

    def _find_committed(self, step: StepId) -> Sequence[PlacedPages] | None:
        with self._engine.lock:
            self._engine.check()
            held = self._held(step.name, step.holder)
        if held.committed != step.number:
            return None
        if self._engine.durability.waits:
            self._engine.durability.sync()
            self._engine.check()
        return held.placed

    def _append(self, plan: Callable[[Changes], _Filled], timeout: float | None) -> Sequence[PlacedPages]:
        engine = self._engine
        receipt = WriteReceipt() if engine.durability.waits else None
        filled = _Filled(())
        try:
            with engine.lock, engine.rollback():
                filled = plan(changes := engine.changes())
                safe = engine.write(changes, done=receipt)
                self._show(filled.logs)
                if filled.leasing and safe:
                    engine.durability.sync_locked()
                engine.disk_space.took(filled.size)
        except BaseException:
            with engine.lock:  # Ctrl-C may come after everything is stored
                self._show(filled.logs)
            engine.durability.sync_soon()
            raise
        self._grew(filled.size, *filled.logs)
        if receipt:
            receipt.wait(timeout)
        return filled.placed

    def _show(self, logs: Iterable[LogState]) -> None:
        """Show readers the stored messages of these logs as soon as they are safe."""
        for log in logs:
            self._engine.durability.grew(log)

    def _fill(self, step: StepId, content: StepContent, changes: Changes) -> _Filled:
        """Add everything to the changes. Anything that can be refused is refused before memory changes."""
        held = self._held(step.name, step.holder)
        if held.committed == step.number:
            return _Filled(held.placed)
        if step.number <= held.given_up:
            raise Fenced(f"transaction {step.number} of {step.name!r} was given up before its commit arrived")
        logs = [self._log(part.topic, part.partition) for part in content.parts]
        self._add_positions(changes, content)
        self._add_mark(changes, step.name, content.mark)
        content.check()
        size = sum(log.size for log in logs)
        placed = [PlacedPages(log.number, log.next) for log in logs]
        leasing = False
        for log, part in zip(logs, content.parts, strict=True):
            for body in part.bodies:
                append_page(changes, log, body)
            leasing |= lease_offsets(log)
            changes.put(log.key, log.value(0))
        changes.put(transaction_key(step.name), HeldName(step.holder, step.number, 0, tuple(placed)).value)
        return _Filled(placed, logs, sum(log.size for log in logs) - size, leasing)

    def _log(self, topic: str, partition: int) -> LogState:
        numbers = self._topics.get(topic).logs
        if not 0 <= partition < len(numbers):
            raise TopicNotFound(f"the topic {topic!r} has no partition {partition}", backend="rocksmq", topic=topic)
        return self._topics.log(numbers[partition])

    def _add_positions(self, changes: Changes, content: StepContent) -> None:
        for group, places in content.positions.items():
            for log, place in places.items():
                changes.put(group_key(self._topics.log(log).number, group), position_value(place))

    def _add_mark(self, changes: Changes, name: str, mark: TransactionMark | None) -> None:
        if mark is None:
            return
        known = self._marked(name, mark.topic)
        if known is None or known.number < mark.number:
            key = step_mark_key(self._log(mark.topic, 0).number, name)
            changes.put(key, step_mark_value(mark.number, mark.note))

    def _marked(self, name: str, topic: str) -> TransactionMark | None:
        """Return the mark with the highest number of this name in this topic."""
        stored = self._engine.pages.get(step_mark_key(self._log(topic, 0).number, name))
        return None if stored is None else TransactionMark(topic, *read_step_mark(stored))

    def _find(self, name: str) -> HeldName | None:
        stored = self._engine.pages.get(transaction_key(name))
        return None if stored is None else HeldName.read(stored)

    def _held(self, name: str, holder: str) -> HeldName:
        """Return the record of a name. Raise ``Fenced`` unless *holder* is its holder."""
        found = self._find(name)
        if found is None or found.holder != holder:
            raise Fenced(
                f"another client has taken over the transaction name {name!r}",
                fix="Give each program that runs at the same time its own name", backend="rocksmq",
            )  # fmt: skip
        return found
