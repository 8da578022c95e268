"""Checks the rules of a transaction's driver: sends lie between begin and end, and the end settles all of them."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug.spi import GroupMove, Run, Sending, TransactionDriver, TransactionMark
from mqplug.spi.proxies import TransactionProxy
from mqplug_testing.debug._producer import WatchedProducer
from mqplug_testing.debug._rules import Rules


class WatchedTransactions(WatchedProducer, TransactionProxy):
    """A transaction's driver with checks."""

    def __init__(self, inner: TransactionDriver, rules: Rules) -> None:
        super().__init__(inner, rules)
        self._is_open = False

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        self._check("begin", is_open=False)
        with self._call("begin"):
            repeated = self.inner.begin(mark, timeout)
        self._is_open = True
        return repeated

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        self._check("commit", is_open=True)
        self._is_open = False
        with self._call("commit_step"):
            self.inner.commit(moves, timeout)
        self._check_settled("commit")

    def abort(self, timeout: float) -> None:
        self._is_open = False
        with self._call("abort"):
            self.inner.abort(timeout)
        self._check_settled("abort")

    def send(self, sendings: Sequence[Sending]) -> None:
        self._check("send", is_open=True)
        super().send(sendings)

    def send_run(self, run: Run) -> None:
        self._check("send_run", is_open=True)
        super().send_run(run)

    def _check(self, call: str, *, is_open: bool) -> None:
        if self._is_open != is_open:
            state = "no transaction is open" if is_open else "a transaction is open"
            self._calls.rules.breach("in-transaction", f"{call} was called while {state}")

    def _check_settled(self, call: str) -> None:
        if left := self._outcomes.unsettled:
            self._calls.rules.breach("settled-by-end", f"{call} returned while {left} records are not settled")
