"""Puts faults around a transaction's driver: a step fails to begin or end, or the answer to its commit is lost."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Error
from mqplug.spi import GroupMove, TransactionDriver, TransactionMark
from mqplug.spi.proxies import TransactionProxy
from mqplug_testing.faults._calls import after_call, before_call
from mqplug_testing.faults._producer import FaultyProducer
from mqplug_testing.faults._rules import FaultPicker


class FaultyTransactions(FaultyProducer, TransactionProxy):
    """A transaction's driver with a fault for each call, and each message, that a rule strikes."""

    def __init__(self, inner: TransactionDriver, picker: FaultPicker) -> None:
        super().__init__(inner, picker)

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        rule = self._picker.pick("begin_transaction", [(mark.topic, None)] if mark else ())
        repeated = self.inner.begin(mark, before_call(rule, timeout))
        try:
            after_call(rule)
        except Error:
            self.inner.abort(timeout)  # the core did not see it begin
            raise
        return repeated

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        rule = self._picker.pick("commit_transaction")
        try:
            left = before_call(rule, timeout)
        except Error:
            self.inner.abort(timeout)  # an error proves that nothing was committed
            raise
        self.inner.commit(moves, left)
        after_call(rule)

    def abort(self, timeout: float) -> None:
        rule = self._picker.pick("abort_transaction")
        try:
            before_call(rule, timeout)
        finally:
            self.inner.abort(timeout)
        after_call(rule)
