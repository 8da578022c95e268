"""Transactions that are visible too early, in part or too late, or that lose positions, numbers and holders."""

from __future__ import annotations

import time

import mqplug
import mqplug._client.transaction
from mqplug._client.client_session import ClientSession
from mqplug._consume.acking import Acknowledgements
from mqplug._consume.step_acks import StepAcks
from mqplug._produce.transaction_session import StepQueue, TransactionSession
from mqplug.aio._transaction import AsyncTransaction
from mqplug.memory import _producer
from mqplug.memory._producer import MemoryTransactions
from mqplug.spi import GroupMove
from mutants.base import Mutant

_begin, _commit, _send = MemoryTransactions.begin, MemoryTransactions.commit, MemoryTransactions.send
_close, _hold = MemoryTransactions.close, ClientSession._hold_transaction


def _store_now(driver, unit):
    with driver._store.changed:
        _producer._store(unit, driver._partition(unit))
        driver._store.changed.notify_all()


class StoresBeforeTheCommit(Mutant):
    """Stores a transaction's messages as soon as they are sent."""

    case = "TX-03"
    patches = (
        (MemoryTransactions, "send", _store_now),
        (MemoryTransactions, "send_run", _store_now),
    )


class CommitsBackwards(Mutant):
    case = "TX-01"

    def commit(self, moves, timeout):
        self._units.reverse()
        _commit(self, moves, timeout)

    patches = ((MemoryTransactions, "commit", commit),)


class CommitsInPieces(Mutant):
    """Stores a commit message by message, so that readers see parts of it."""

    case = "TX-04"

    def commit(self, moves, timeout):
        units, self._units = self._units, []
        for unit in units:
            for sending in unit if isinstance(unit, list) else unit.sendings():
                _store_now(self, [sending])
                time.sleep(0.001)
        _commit(self, moves, timeout)

    patches = ((MemoryTransactions, "commit", commit),)


class CommitsWhatItCan(Mutant):
    """Stores some messages of a transaction although others cannot be stored."""

    case = "TX-11"

    def commit(self, moves, timeout):
        units, self._units = self._units, []
        for unit in units:
            try:
                _store_now(self, unit)
            except mqplug.Error as error:
                for sending in unit:
                    sending.failed(error)
        _commit(self, moves, timeout)

    patches = ((MemoryTransactions, "commit", commit),)


class CommitsWhatIsAborted(Mutant):
    case = "TX-02"
    patches = ((MemoryTransactions, "abort", lambda driver, timeout: _commit(driver, (), timeout)),)


class NeverFences(Mutant):
    case = "TX-06"
    patches = ((MemoryTransactions, "_check_holder", lambda driver: None),)


class TakesANameOverAgain(Mutant):
    """Lets a transaction take over its name from an open one of the same client."""

    case = "TX-07"

    def hold(self, name, limits, deadline):
        self._transactions.pop(name, None)
        return _hold(self, name, limits, deadline)

    patches = ((ClientSession, "_hold_transaction", hold),)


class ForgetsSteps(Mutant):
    """Commits again under a number that was committed."""

    case = "TX-08"
    patches = ((MemoryTransactions, "_store_mark", lambda driver: None),)


class ForgetsStepsWhenClosed(Mutant):
    case = "TX-09"

    def close(self, timeout):
        _close(self, timeout)
        self._store.marks.clear()

    patches = ((MemoryTransactions, "close", close),)


class BeginsAnything(Mutant):
    """Ignores invalid arguments of a transaction."""

    case = "TX-10"
    patches = ((mqplug._client.transaction, "check_transaction", lambda name, topic, consumer, number, limits: limits),)


class CommitsAtClose(Mutant):
    """Commits open transactions when a client closes."""

    case = "TX-12"

    def close(self, timeout):
        _commit(self, (), timeout)
        _close(self, timeout)

    patches = ((MemoryTransactions, "close", close),)


class SendsInAForkedChild(Mutant):
    case = "TX-13"
    patches = ((StepQueue, "check_open", lambda queue: None),)


class LeavesWithoutACommit(Mutant):
    """Ends an asyncio block without a commit."""

    case = "TX-16"

    async def leave(self, kind, error, trace):
        await self.abort()

    patches = ((AsyncTransaction, "__aexit__", leave),)


class MovesNoPositions(Mutant):
    case = "TX-17"
    patches = ((MemoryTransactions, "commit", lambda driver, moves, timeout: _commit(driver, (), timeout)),)


class CommitsWithoutGaps(Mutant):
    """Commits the position without the later acked ranges."""

    case = "TX-17"

    def commit(self, moves, timeout):
        bare = [
            GroupMove(each.group, {log: type(at)(at.position) for log, at in each.positions.items()}, each.member)
            for each in moves
        ]
        _commit(self, bare, timeout)

    patches = ((MemoryTransactions, "commit", commit),)


def _end_step(acks):
    with acks._assignment.committing:
        acks._consumer.acks.end_step()


class GivesNothingBack(Mutant):
    """Never delivers messages again that were acked in an aborted step."""

    case = "TX-18"
    patches = ((StepAcks, "give_back", _end_step),)


class CommitsInTheStep(Mutant):
    """Stores the acks of a step with any commit."""

    case = "TX-19"
    patches = ((Acknowledgements, "begin_step", lambda acks, step: setattr(acks, "step", None)),)


class IgnoresHandOvers(Mutant):
    """Commits positions of partitions that another member has by then."""

    case = "TX-20"
    patches = (
        (StepAcks, "_check_held", lambda acks: None),
        (_producer, "_check_member", lambda move: None),
    )


class ForgetsNotes(Mutant):
    """Does not store a step's note."""

    case = "TX-24"
    patches = ((MemoryTransactions, "annotate", lambda driver, note: None),)


class ShowsWhatWasFlushed(Mutant):
    """Stores flushed messages before the commit."""

    case = "TX-25"

    def hand_over(self, timeout):
        units, self._units = self._units, []
        for unit in units:
            _store_now(self, unit)

    patches = ((MemoryTransactions, "hand_over", hand_over),)


class KeepsItsPartitioner(Mutant):
    """Keeps the partitioner of a name's first step, whatever later steps choose."""

    case = "TX-26"
    patches = ((TransactionSession, "choose_by", lambda holder, router: None),)


class SeeksInAStep(Mutant):
    case = "TX-21"
    patches = ((Acknowledgements, "check_no_step", lambda acks, operation: None),)


class SendsRepeatedSteps(Mutant):
    """Sends again in a step whose number was committed."""

    case = "TX-22"

    def begin(self, mark, timeout):
        _begin(self, mark, timeout)

    patches = ((MemoryTransactions, "begin", begin),)
