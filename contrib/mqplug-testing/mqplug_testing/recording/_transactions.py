"""Records the steps of a transaction's driver: their sends, and with the commit the positions that it stores."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug.spi import GroupMove, TransactionDriver, TransactionMark
from mqplug.spi.proxies import TransactionProxy
from mqplug_testing.recording._recording import Recording, record_call
from mqplug_testing.recording._sending import RecordedProducer


class RecordedTransactions(RecordedProducer, TransactionProxy):
    """A transaction's driver whose calls are recorded."""

    def __init__(self, inner: TransactionDriver, recording: Recording, member: str) -> None:
        super().__init__(inner, recording, member)

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        with self._recording.call(self._member, "begin_transaction", topic=None if mark is None else mark.topic):
            return self.inner.begin(mark, timeout)

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        known = {
            "group": moves[0].group if moves else None,
            "positions": tuple(position for move in moves for position in move.positions.values()),
        }
        with self._recording.call(self._member, "commit_transaction", lasting=True, **known):
            self.inner.commit(moves, timeout)

    def abort(self, timeout: float) -> None:
        record_call(self._recording, self._member, "abort_transaction", self.inner.abort, timeout)
