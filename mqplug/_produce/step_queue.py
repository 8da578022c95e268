"""The queue of a transaction's sends: it takes records while a step is open, and keeps them until the step ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqplug._model.errors import Closed, Error, NotCommitted, QueueFull
from mqplug._produce.queue import RETIRE_AFTER_MESSAGES, SendQueue

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug._produce.collected_run import Row, RowHandle
    from mqplug._produce.handle import SingleSend
    from mqplug._produce.pump import AwaitedSend
    from mqplug._produce.queue import SendUnit, WhenFull


class StepQueue(SendQueue):
    """The records of one step after the other. Nothing makes room before the end of a step, so no sender waits."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._step_open = False
        self._failed_before = 0
        self.seal()

    def begin(self, messages: int, size: int) -> None:
        """Take records of a new step, up to these limits."""
        with self.lock:
            self.max_messages, self.max_bytes = messages, size
            self._retire_at = min(RETIRE_AFTER_MESSAGES, messages)
            self._retire_at_bytes = size
            self._failed_before = self._outcomes.failed + self._outcomes.unknown
            self._step_open = True

    def seal(self) -> None:
        """Hand over what was collected, and take nothing more."""
        with self.lock:
            self._step_open = False
            self._retire_at = self.max_messages = -1  # each sender then checks first whether a step is open
            self._hand_over_all_collected()

    def hand_over(self) -> None:
        """Hand over what was collected."""
        with self.lock:
            self._hand_over_all_collected()

    def forget_settled(self) -> None:
        """Make room: keep nothing of what is settled."""
        with self.lock:
            self._sweep()

    def failure(self) -> Error | None:
        """Return the errors of this step's records that failed already, as one; None if there are none."""
        with self.lock:
            self._sweep()
            if self._outcomes.failed + self._outcomes.unknown == self._failed_before:
                return None
        return self.unseen("commit") or NotCommitted("a message of the transaction failed, as its handle said")

    def settle_rest(self, error: Error, *, proven: bool) -> None:
        """Settle all records of the step that are not settled, and forget the failures: the caller tells of them."""
        with self.lock:
            for unit in self._waiting:
                if unit.awaited is not None:
                    (unit.failed if proven else unit.unknown)(error)
            self._sweep()
        self.unseen("commit")

    def check_open(self) -> None:
        """Raise unless a step is open."""
        super().check_open()
        if not self._step_open:
            raise Closed("the step of this transaction is over", operation="send", fix="Begin another transaction")

    def wait(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        """Raise ``NotCommitted`` while the step is open: nothing is known before its end. Otherwise wait for it."""
        if self._step_open and wanted.awaited is not None:
            raise NotCommitted("the transaction of this message is still open: it has no id yet", operation="send")
        self.pump.wait(wanted, deadline)

    def collect(
        self, topic: str, partition: int, row: Row, size: int, deadline: Deadline,
        when_full: WhenFull = "raise", single: SingleSend | None = None,
    ) -> RowHandle:  # fmt: skip
        """Collect a record, as ``SendQueue.collect``; ``QueueFull`` at once."""
        try:
            return super().collect(topic, partition, row, size, deadline, "raise", single)
        except QueueFull as error:
            raise _step_too_large(error) from None

    def accept(self, unit: SendUnit, deadline: Deadline, when_full: WhenFull = "raise") -> None:
        """Hand a record or a run over, as ``SendQueue.accept``; ``QueueFull`` at once."""
        try:
            super().accept(unit, deadline, "raise")
        except QueueFull as error:
            raise _step_too_large(error) from None


def _step_too_large(error: QueueFull) -> QueueFull:
    error.fix = "Commit smaller steps, or pass larger queue_messages= and queue_bytes="
    error.retryable = False
    return error
