"""The session of a transaction name in one client: its sends, and the begin, commit and abort of one step at a time.

The queue takes records while a step is open, and keeps them until the step ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from mqplug._base.deadline import Deadline
from mqplug._model.errors import (
    Closed,
    ConcurrentUse,
    Error,
    Fenced,
    NotCommitted,
    PluginError,
    QueueFull,
    SendFailed,
    Timeout,
)
from mqplug._model.outcome import OutcomeUnknown
from mqplug._plugins.backend import NO_TIMEOUT_S
from mqplug._produce.producer_session import ProducerSession
from mqplug._produce.queue import RETIRE_AFTER_MESSAGES, SendQueue

if TYPE_CHECKING:
    from mqplug._plugins.backend import Backend
    from mqplug._produce.collecting import RowHandle
    from mqplug._produce.handle import SingleSend
    from mqplug._produce.lingering import WholeRow
    from mqplug._produce.pump import AwaitedSend
    from mqplug._produce.queue import SendUnit, WhenFull
    from mqplug._produce.routing import Route, Router
    from mqplug.spi._actions import GroupMove, TransactionMark
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import TransactionDriver


class StepQueue(SendQueue):
    """The records of successive steps. Room appears only at the end of a step, so senders do not wait for it."""

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
        """Hand over the collected runs, and take nothing more."""
        with self.lock:
            self._step_open = False
            self._retire_at = self.max_messages = -1  # makes each sender check whether a step is open
            self._hand_over_all_collected()

    def hand_over(self) -> None:
        """Hand over the collected runs."""
        with self.lock:
            self._hand_over_all_collected()

    def forget_settled(self) -> None:
        """Make room by removing the settled records."""
        with self.lock:
            self._sweep()

    def failure(self) -> Error | None:
        """Return the errors of this step's failed records as one error, or None."""
        with self.lock:
            self._sweep()
            if self._outcomes.failed + self._outcomes.unknown == self._failed_before:
                return None
        return self.unseen("commit") or NotCommitted("a message of the transaction failed, as its handle reported")

    def settle_rest(self, error: Error, *, proven: bool) -> None:
        """Settle all unsettled records of the step, and forget the failures, which the caller reports."""
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
        """Raise ``NotCommitted`` while the step is open, because outcomes are known at its end. Otherwise wait."""
        if self._step_open and wanted.awaited is not None:
            raise NotCommitted("the transaction of this message is still open: it has no id yet", operation="send")
        self.pump.wait(wanted, deadline)

    def collect(
        self, topic: str, partition: int, row: WholeRow, size: int, deadline: Deadline,
        when_full: WhenFull = "raise", single: SingleSend | None = None,
    ) -> RowHandle:  # fmt: skip
        """Collect a record, as ``SendQueue.collect`` does. Raise ``QueueFull`` at once."""
        try:
            return super().collect(topic, partition, row, size, deadline, "raise", single)
        except QueueFull as error:
            raise _step_too_large(error) from None

    def accept(self, unit: SendUnit, deadline: Deadline, when_full: WhenFull = "raise") -> None:
        """Hand over a record or a run, as ``SendQueue.accept`` does. Raise ``QueueFull`` at once."""
        try:
            super().accept(unit, deadline, "raise")
        except QueueFull as error:
            raise _step_too_large(error) from None


def _step_too_large(error: QueueFull) -> QueueFull:
    error.fix = "Commit smaller steps, or pass larger queue_messages= and queue_bytes="
    error.retryable = False
    return error


class TransactionSession(ProducerSession):
    """An open transaction name. Any thread may use it, but only one step is open at a time."""

    _new_queue: Callable[..., StepQueue] = StepQueue

    def __init__(
        self,
        backend: Backend,
        driver: TransactionDriver,
        name: str,
        router: Router,
        limits: tuple[int, int],
        able: Capabilities,
        on_closed: Callable[[ProducerSession], None],
    ) -> None:
        super().__init__(backend, driver, None, router, limits, able, on_closed)
        self.queue: StepQueue = self.queue
        self.name = name
        self._transactions = driver
        self._step = Lock()
        """Held from the begin of a step to its end, by any thread."""
        self._fenced: Fenced | None = None
        self.in_doubt = False
        """Whether the outcome of the last commit is unknown."""

    def where(self, operation: str) -> dict[str, Any]:
        """Return backend and operation, for an error."""
        return {"backend": self._backend.name, "operation": operation}

    def check_usable(self) -> None:
        """Raise if the client was closed or forked, or another client holds the name."""
        self.fork.check()
        if self.closed:
            raise Closed(f"the transaction {self.name!r} was closed", **self.where("transaction"), fix="Connect again")
        if self._fenced is not None:
            raise self._taken_over(self._fenced)

    def look_up(self, topic: str, deadline: Deadline) -> Route:
        """Look a topic up, and return its route."""
        route = self._router.find(topic, deadline)
        self.learn(route)
        self.routes.setdefault(topic, self.routes[route.topic])
        return route

    def begin(
        self, mark: TransactionMark | None, limits: tuple[int, int], deadline: Deadline
    ) -> TransactionMark | None:
        """Begin a step. If its number or a higher one was committed before, return that step's mark."""
        self.check_usable()
        if not self._step.acquire(blocking=False):
            raise ConcurrentUse(
                f"a step of the transaction {self.name!r} is already open", **self.where("transaction"),
                fix="End that step first, or use another name",
            )  # fmt: skip
        try:
            with self._calling("transaction"):
                repeated = self._transactions.begin(mark, deadline.remaining(NO_TIMEOUT_S))
        except BaseException:
            self._step.release()
            raise
        self.in_doubt = False
        self.queue.begin(*limits)
        return repeated

    def choose_by(self, router: Router) -> None:
        """Let this router choose the partitions of later records."""
        if router.partitioner != self._router.partitioner:
            self._router = router
            self.routes.clear()

    def hand_over_sent(self, deadline: Deadline) -> None:
        """Make the backend take the records of the open step. If it raises, the step must be aborted."""
        self.queue.hand_over()
        with self._calling("flush"):
            self._transactions.hand_over(deadline.remaining(NO_TIMEOUT_S))
        self.queue.forget_settled()

    def commit(self, moves: Sequence[GroupMove], note: str, deadline: Deadline) -> None:
        """Commit the open step. If it raises and is not ``in_doubt``, the step must be aborted."""
        self.queue.seal()
        self.check_usable()
        if (failure := self.queue.failure()) is not None:
            raise self._fenced_or(failure)
        self.in_doubt = True
        try:
            with self._calling("commit"):
                if note:
                    self._transactions.annotate(note)
                self._transactions.commit(moves, deadline.remaining(NO_TIMEOUT_S))
        except BaseException as error:
            self.in_doubt = not _proves_abort(error)
            if not self.in_doubt:
                raise
            doubt = _unknown(error, self.name).at(**self.where("commit"))
            self.queue.settle_rest(doubt, proven=False)
            self._step.release()
            if not isinstance(error, Exception):
                raise  # such as Ctrl-C
            raise doubt from (error if doubt is not error else error.__cause__)
        self.in_doubt = False
        self.queue.settle_rest(OutcomeUnknown("the driver did not report the id of the stored message"), proven=False)
        self._step.release()

    def abort(self, deadline: Deadline) -> None:
        """Abort the open step. Its records are certainly not stored, even if this raises."""
        try:
            self.queue.seal()
            self.queue.settle_rest(NotCommitted("the transaction of this message was aborted"), proven=True)
            if not self.closed and not self.fork.crossed:
                with self._calling("abort"):
                    self._transactions.abort(deadline.remaining(NO_TIMEOUT_S))
        except Fenced:
            pass  # the newer holder aborted it
        finally:
            self._step.release()

    def settle_doubt(self, deadline: Deadline) -> None:
        """Find out the outcome of the last commit, if it is unknown."""
        if not self.in_doubt or self.closed:
            return
        if not self._step.acquire(timeout=deadline.remaining(NO_TIMEOUT_S)):
            raise Timeout(f"the outcome of the transaction {self.name!r} is not known yet", **self.where("receive"))
        try:
            if self.in_doubt:
                with self._calling("transaction"):
                    self._transactions.begin(None, deadline.remaining(NO_TIMEOUT_S))
                    self._transactions.abort(deadline.remaining(NO_TIMEOUT_S))
        except Fenced:
            pass  # the newer holder found out
        finally:
            self._step.release()
        self.in_doubt = False

    @contextmanager
    def _calling(self, operation: str) -> Iterator[None]:
        """Add backend and operation to the driver's errors, and remember if another client took the name over."""
        try:
            with self._backend.context(operation):
                yield
        except Fenced as error:
            self._fenced = error
            raise self._taken_over(error) from error.__cause__

    def _fenced_or(self, failure: Error) -> Error:
        """Return the reason why records failed."""
        results = failure.results if isinstance(failure, SendFailed) else [failure]
        fenced = next((each for each in results if isinstance(each, Fenced)), None)
        if fenced is not None:
            self._fenced = fenced
            return self._taken_over(fenced)
        if not isinstance(failure, SendFailed):
            failure = SendFailed(f"the transaction was aborted: {failure.message}", results=results)
        return failure.at(**self.where("commit"))

    def _taken_over(self, cause: Fenced) -> Fenced:
        error = Fenced(
            f"another client took the transaction {self.name!r} over: {cause.message}", **self.where("transaction"),
            fix="Open a new client to take the name back, and make sure that only one uses it",
        )  # fmt: skip
        error.__cause__ = cause
        return error

    def _close(self, deadline: Deadline) -> None:
        if self._step.locked():
            self.queue.seal()
            self.queue.settle_rest(NotCommitted("the client was closed before the commit"), proven=not self.in_doubt)
        super()._close(deadline)

    def __repr__(self) -> str:
        return f"<Transactions {self.name!r} {self._backend.name}{', closed' if self.closed else ''}>"


def _proves_abort(error: BaseException) -> bool:
    """Return whether this error of a commit proves that nothing was committed."""
    return isinstance(error, Error) and not isinstance(error, OutcomeUnknown | Timeout | PluginError)


def _unknown(error: BaseException, name: str) -> OutcomeUnknown:
    if isinstance(error, OutcomeUnknown):
        return error
    said = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return OutcomeUnknown(
        f"the transaction {name!r} may or may not be committed: {said}",
        fix="Begin the next transaction of this name, which first finds out the outcome of this one",
    )
