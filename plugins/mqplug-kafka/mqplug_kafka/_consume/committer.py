"""Commits of a member's positions: bounded, and never while the client polls.

In confluent-kafka 2.16 a client call of one thread waits until the call of another thread returns, such as a poll that
runs a rebalance callback. The callback waits for the running commits, and a commit that waited inside the client could
store an old position late. So commits and polls take turns here, where a wait can be ended.

The client's synchronous commit waits as long as no coordinator answers, up to a minute, and blocks all polls. So
commits are asynchronous, and the group is asked in short slices, with polls in between, until it has the positions: a
coordinator answers requests in order, so its answer also means that it has answered the commit. A worker thread asks,
so that Ctrl-C ends the wait. Only a callback asks on its own thread, because its poll blocks every other thread.

After a broken connection the client sends a commit again, until shortly after it has a new one. A later commit could
overtake it, and the group would go back. So a commit is sent only when no earlier one can still be in flight: its
outcome was reported to a poll, or the group has it and answered faster than the client repeats a request, or some time
has passed since that answer. The time is short if the answer took no longer than usual, as on a slow network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from threading import Event, Lock, get_ident
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mqplug import Error, NotAssigned, Timeout
from mqplug.spi import Deadline
from mqplug_kafka._cluster.errors import TRANSIENT_CODES, client_error, code_of, typed_error
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._cluster.worker import Worker

T = TypeVar("T")

COMMIT_RETRY_PAUSE_S = 0.05
TURN_SLICE_S = 0.02  # between two checks whether the running poll is in a callback
COMMIT_RETRY_LIMIT_S = 2.0  # how long to repeat a commit that only the member's own polls may make valid
CONFIRM_SLICE_S = 0.1  # how long the first request after a commit waits for its answer; each further one doubles it
CONFIRM_SLICE_MAX_S = 1.0  # at most this long, because polls wait
CALLBACK_SLICE_MAX_S = 0.2  # at most this long, because Ctrl-C waits
SETTLE_S = 1.5  # after a coordinator answers again: the client repeats requests within 0.3 s
FAST_S = 0.05  # an answer within this time came over an unbroken connection: repeats wait for 0.08 s at least
USUAL_FACTOR = 3  # an answer within this many times the usual one probably did, too
USUAL_PAUSE_S = 0.2  # otherwise a repeat follows within this time: the client repeats two requests within 0.04 s

_RETRIED_CODES = TRANSIENT_CODES | {
    KafkaError.ILLEGAL_GENERATION,  # while the group rebalances; permanent for an excluded member
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._DESTROY_BROKER,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
}
_UNANSWERED_CODES = TRANSIENT_CODES | {
    KafkaError._DESTROY_BROKER,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}


class Committer:
    """Commits for one client's consumer, one after the other."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._worker = Worker("mqplug-kafka-commit")
        self._turn = Lock()
        self._no_commit_waits = Event()  # a poll waits for it, so that waiting commits go first
        self._no_commit_waits.set()
        self._refusal: Callable[[], Error] | None = None  # raised by other threads' commits during a revocation
        self._in_callback = False
        self._poller: int | None = None  # the thread that now has the turn for a poll
        self._settled_at = 0.0  # from this time on, no earlier commit can be in flight
        self._unreported = 0  # commits whose outcome was not yet reported to a poll
        self._usual_s = 0.0  # how long an answer takes
        self._error: KafkaError | None = None  # why the group refused a commit, as reported to a poll

    def move_to(self, consumer: Consumer) -> None:
        """Commit through another client's consumer. The caller has the turn."""
        self._consumer = consumer
        self._settled_at = 0.0
        self._unreported = 0

    def note_answer(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Note the answer to a commit. Used as ``on_commit``."""
        self._unreported = max(0, self._unreported - 1)
        if not self._unreported:
            self._settled_at = 0.0
        self._error = error or next((each.error for each in partitions if each.error is not None), self._error)

    @contextmanager
    def polling(self, timeout: float) -> Iterator[bool]:
        """Take the turn for a poll. Yield False if a commit did not end in time."""
        end = time.monotonic() + timeout
        self._no_commit_waits.wait(timeout)
        mine = self._turn.acquire(timeout=max(0.0, end - time.monotonic()))
        try:
            if mine:
                self._poller = get_ident()
            yield mine
        finally:
            if mine:
                self._poller = None
                self._turn.release()

    @contextmanager
    def rebalancing(self, refusal: Callable[[], Error] | None = None) -> Iterator[None]:
        """Wrap a rebalance callback, inside a poll. Other threads' commits raise the refusal, if given, or wait."""
        self._refusal, self._in_callback = refusal, True
        try:
            yield
        finally:
            self._refusal, self._in_callback = None, False

    def commit(self, offsets: list[TopicPartition], timeout: float) -> None:
        """Store offsets. Raise ``Timeout`` if they were not confirmed in time."""
        deadline = Deadline(timeout)
        abandoned = Event()
        if self._poller == get_ident():
            self._repeat(offsets, deadline, CALLBACK_SLICE_MAX_S, abandoned)
            return
        future = self._worker.run(lambda: self._repeat(offsets, deadline, CONFIRM_SLICE_MAX_S, abandoned))
        try:
            future.result(timeout)
        except FutureTimeout as error:
            if isinstance(error, Timeout):
                raise  # the attempt itself raised a timeout
            raise self._last_refusal() or _unconfirmed(offsets, timeout) from None
        finally:
            abandoned.set()  # sent later, after the partitions were handed over, it would move the group back

    def between_polls(self, call: Callable[[], T]) -> T:
        """Make a short client call. Raise ``NotAssigned`` while a rebalance callback runs.

        In confluent-kafka 2.16 such a call holds the interpreter's lock and waits for the end of the callback: the
        process would hang forever.
        """
        self._no_commit_waits.clear()
        try:
            while not self._turn.acquire(timeout=TURN_SLICE_S):
                if self._in_callback:
                    raise NotAssigned("partitions are being handed over", fix="Receive again, then repeat the step")
            try:
                return call()
            finally:
                self._turn.release()
        finally:
            self._no_commit_waits.set()

    def stop(self) -> None:
        """End the thread after the running commits."""
        self._worker.stop()

    def _repeat(self, offsets: list[TopicPartition], deadline: Deadline, slice_max_s: float, abandoned: Event) -> None:
        """Attempt the commit until it succeeds, or until refusals have lasted for too long."""
        self._error = None
        retries: Deadline | None = None
        while (refusal := self._attempt(offsets, deadline, slice_max_s, abandoned)) is not None:
            retries = retries or Deadline(deadline.remaining(COMMIT_RETRY_LIMIT_S))
            limit = deadline if self._passes(refusal) else retries
            if limit.remaining() <= COMMIT_RETRY_PAUSE_S:
                raise refusal
            time.sleep(COMMIT_RETRY_PAUSE_S)

    def _last_refusal(self) -> Error | None:
        return None if self._error is None else _refusal(KafkaException(self._error))

    def _passes(self, refusal: Error) -> bool:
        """Return whether a refusal is only temporary. A rebalance cannot end while its callback commits."""
        code = code_of(refusal)
        return code in TRANSIENT_CODES or (code == KafkaError.REBALANCE_IN_PROGRESS and self._poller != get_ident())

    @contextmanager
    def _committing(self, deadline: Deadline) -> Iterator[None]:
        """Take the turn for a commit. A callback already has it, inside the poll of this thread."""
        if self._poller == get_ident():
            yield
            return
        self._no_commit_waits.clear()
        try:
            while not self._turn.acquire(timeout=COMMIT_RETRY_PAUSE_S):
                if (refusal := self._refusal) is not None:
                    raise refusal()
                if deadline.expired:
                    raise revoking()
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._no_commit_waits.set()

    def _attempt(
        self, offsets: list[TopicPartition], deadline: Deadline, slice_max_s: float, abandoned: Event
    ) -> Error | None:
        """Commit once, and wait until the group has these positions. Return a temporary refusal, raise any other.

        While an earlier commit may be in flight, send nothing.
        """
        sent, slice_s = False, CONFIRM_SLICE_S
        while True:
            with self._committing(deadline):
                sending = not sent and time.monotonic() >= self._settled_at
                if abandoned.is_set():
                    raise revoking()
                if sending:
                    sent, self._settled_at = True, math.inf
                    self._unreported += 1
                    self._consumer.commit(offsets=offsets, asynchronous=True)
                stored, pause_s = self._stored_and_pause(offsets, slice_s)
                if stored is None:
                    self._settled_at = math.inf
                elif self._settled_at == math.inf:
                    # The client repeats a commit that was refused for a time, and reports it only then.
                    self._settled_at = time.monotonic() + (pause_s if sending and stored else SETTLE_S)
            first = {each.partition: each.offset for each in offsets[:3]}
            logger.debug("commit of %s: sent %s, stored %s, unreported %d", first, sending, stored, self._unreported)
            if stored:
                return None
            if stored is False and sent and time.monotonic() >= self._settled_at:
                return self._last_refusal() or excluded()
            if deadline.expired:
                raise _unconfirmed(offsets, deadline.timeout)
            slice_s = min(2 * slice_s, slice_max_s, max(CONFIRM_SLICE_S, deadline.remaining()))
            time.sleep(COMMIT_RETRY_PAUSE_S)

    def _stored_and_pause(self, offsets: list[TopicPartition], timeout: float) -> tuple[bool | None, float]:
        """Return whether the group has these positions, or None without an answer, and for how long the client may
        still repeat a commit that was sent just before.
        """
        began = time.monotonic()
        stored = self._stored(offsets, timeout)
        took = time.monotonic() - began
        as_usual = took <= USUAL_FACTOR * self._usual_s
        if stored is not None:
            self._usual_s += (took - self._usual_s) / (8 if self._usual_s else 1)
        return stored, 0.0 if took <= FAST_S else USUAL_PAUSE_S if as_usual else SETTLE_S

    def _stored(self, offsets: list[TopicPartition], timeout: float) -> bool | None:
        """Return whether the group has these positions; None without an answer."""
        wanted = {(each.topic, each.partition): (each.offset, each.metadata or "") for each in offsets}
        try:
            found = _committed(self._consumer, [TopicPartition(*name) for name in wanted], timeout)
        except KafkaException as error:
            if client_error(error).code() in _UNANSWERED_CODES:
                return None
            raise typed_error(error, "commit") from error
        return wanted == {(each.topic, each.partition): (each.offset, each.metadata or "") for each in found}


def _committed(consumer: Consumer, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
    found = consumer.committed(partitions, timeout=timeout)
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return found


def revoking() -> Error:
    """Return the error of a commit during a hand-over. The callback stores the acked positions."""
    return Timeout("partitions are being handed over: this commit stored nothing", fix="Commit again")


def excluded() -> Error:
    """Return the error of a commit after the partitions were lost: other members may have them."""
    return NotAssigned(
        "the group has continued without this member: this commit stored nothing",
        fix="Receive again: messages without a stored ack are delivered again",
    )


def _unconfirmed(offsets: list[TopicPartition], timeout: float | None) -> Error:
    within = "" if timeout is None else f" within {timeout:.3g} s"
    return Timeout(
        f"the commit of {len(offsets)} positions was not confirmed{within}",
        fix="Commit again, and check that the brokers are up",
    )


def _refusal(error: KafkaException) -> Error:
    """Return the temporary refusal of a commit. Raise any other."""
    refusal = typed_error(error, "commit")
    if client_error(error).code() in _RETRIED_CODES:
        return refusal
    raise refusal from error
