"""Commits of a member's positions: bounded, and never while the native client polls.

In confluent-kafka 2.16 the calls of other threads wait until a poll that runs a rebalance callback has returned. The
callback waits for the commits under way, and a commit that waited inside the client could store an old position late.
So commits and polls take turns here, where a wait can be ended.

The native synchronous commit waits for as long as no coordinator answers, up to a minute. A worker thread makes it, so
that the caller need not wait for it. The thread that polls, on which rebalance callbacks run, commits asynchronously
instead and asks in short slices until the group has the positions. If it gives up, the native client goes on: it joins
the group again, so that other members get the partitions, only after the commit was answered or has failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from threading import Event, Lock, get_ident
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mqplug import Error, NotAssigned, Timeout
from mqplug.spi import Deadline
from mqplug_kafka._cluster.errors import TRANSIENT_CODES, error_from_native, native
from mqplug_kafka._cluster.worker import NativeWorker

T = TypeVar("T")

COMMIT_RETRY_PAUSE_S = 0.05
TURN_SLICE_S = 0.02  # between two looks whether the poll under way runs a callback
COMMIT_RETRY_LIMIT_S = 2.0  # a refused commit is repeated for this long
CONFIRM_SLICE_S = 0.1  # of a native call on the caller's thread: Ctrl-C waits no longer

_RETRIED_CODES = TRANSIENT_CODES | {
    KafkaError.ILLEGAL_GENERATION,  # while the group rebalances; permanent for an excluded member
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
}
_UNANSWERED_CODES = TRANSIENT_CODES | {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}


class Committer:
    """Commits for one native consumer, one after the other."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._worker = NativeWorker("mqplug-kafka-commit")
        self._turn = Lock()
        self._no_commit_waits = Event()  # a poll lets waiting commits go first
        self._no_commit_waits.set()
        self._refusal: Callable[[], Error] | None = None  # raised by other threads' commits while partitions go away
        self._in_callback = False
        self._poller: int | None = None  # the thread that has the turn for a poll now

    def move_to(self, consumer: Consumer) -> None:
        """Commit through another native consumer. The caller has the turn."""
        self._consumer = consumer

    @contextmanager
    def polling(self, timeout: float) -> Iterator[bool]:
        """Take the turn for a poll. Yields False if a commit did not end in time."""
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
        """Wrap a rebalance callback, inside a poll. Other threads' commits raise the refusal, or wait without one."""
        self._refusal, self._in_callback = refusal, True
        try:
            yield
        finally:
            self._refusal, self._in_callback = None, False

    def commit(self, offsets: list[TopicPartition], timeout: float) -> None:
        """Store offsets. Raise ``Timeout`` if they were not confirmed in time."""
        deadline = Deadline(timeout)
        if self._poller == get_ident():
            self._repeat(offsets, deadline, self._attempt_here)
            return
        self._no_commit_waits.clear()
        future = self._worker.run(lambda: self._repeat(offsets, deadline, self._attempt_in_turn))
        try:
            future.result(timeout)
        except FutureTimeout as error:
            if isinstance(error, Timeout):
                raise  # the attempt itself raised a timeout
            raise _unconfirmed(offsets, timeout) from None

    def between_polls(self, call: Callable[[], T]) -> T:
        """Make a short native call. Raise ``NotAssigned`` while a rebalance callback runs.

        In confluent-kafka 2.16 such a call keeps the interpreter's lock, and waits for the end of the callback: the
        process would stand still for ever.
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
        """End the thread after the commits under way."""
        self._worker.stop()

    def _repeat(self, offsets: list[TopicPartition], deadline: Deadline, attempt: Attempt) -> None:
        """Attempt the commit until it succeeds, or refusals have lasted for ``COMMIT_RETRY_LIMIT_S``."""
        retries = Deadline(deadline.remaining(COMMIT_RETRY_LIMIT_S))
        while (refusal := attempt(offsets, deadline)) is not None:
            if retries.remaining() <= COMMIT_RETRY_PAUSE_S:
                raise refusal
            time.sleep(COMMIT_RETRY_PAUSE_S)

    def _attempt_in_turn(self, offsets: list[TopicPartition], deadline: Deadline) -> Error | None:
        self._no_commit_waits.clear()
        try:
            while not self._turn.acquire(timeout=COMMIT_RETRY_PAUSE_S):
                if (refusal := self._refusal) is not None:
                    raise refusal()
                if deadline.expired:
                    raise handing_over()
            try:
                return self._attempt(offsets)
            finally:
                self._turn.release()
        finally:
            self._no_commit_waits.set()

    def _attempt(self, offsets: list[TopicPartition]) -> Error | None:
        """Commit once, on the worker's thread. Return a transient refusal, raise any other."""
        try:
            for each in self._consumer.commit(offsets=offsets, asynchronous=False):
                if each.error is not None:
                    return _refusal(KafkaException(each.error))
        except KafkaException as error:
            return _refusal(error)
        return None

    def _attempt_here(self, offsets: list[TopicPartition], deadline: Deadline) -> Error | None:
        """Commit once, on the thread that polls, and wait until the group has these positions. Return a refusal."""
        self._consumer.commit(offsets=offsets, asynchronous=True)
        while (stored := self._stored(offsets)) is None:
            if deadline.expired:
                raise _unconfirmed(offsets, deadline.timeout)
        return None if stored else excluded()

    def _stored(self, offsets: list[TopicPartition]) -> bool | None:
        """Return whether the group has these positions; None without an answer. Commits are answered before."""
        wanted = {(each.topic, each.partition): (each.offset, each.metadata or "") for each in offsets}
        try:
            found = _committed(self._consumer, [TopicPartition(*name) for name in wanted])
        except KafkaException as error:
            if native(error).code() in _UNANSWERED_CODES:
                return None
            raise error_from_native(error, "commit") from error
        return wanted == {(each.topic, each.partition): (each.offset, each.metadata or "") for each in found}


def _committed(consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
    found = consumer.committed(partitions, timeout=CONFIRM_SLICE_S)
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return found


def handing_over() -> Error:
    """Return the error of a commit while partitions are handed over: the callback stores the acked positions."""
    return Timeout("partitions are being handed over: this commit stored nothing", fix="Commit again")


def excluded() -> Error:
    """Return the error of a commit after the partitions were lost: other members may have them."""
    return NotAssigned(
        "the group went on without this member: this commit stored nothing",
        fix="Receive again: messages without a stored ack are delivered again",
    )


def _unconfirmed(offsets: list[TopicPartition], timeout: float | None) -> Error:
    within = "" if timeout is None else f" within {timeout:.3g} s"
    return Timeout(
        f"the commit of {len(offsets)} positions was not confirmed{within}",
        fix="Commit again, and check that the brokers are up",
    )


Attempt = Callable[[list[TopicPartition], Deadline], Error | None]


def _refusal(error: KafkaException) -> Error:
    refusal = error_from_native(error, "commit")
    if native(error).code() in _RETRIED_CODES:
        return refusal
    raise refusal from error
