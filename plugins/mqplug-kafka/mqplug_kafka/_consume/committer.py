"""Storing a member's positions: bounded, and never while the native client polls.

In confluent-kafka 2.16 all calls of other threads wait until a poll that ran a rebalance callback has returned.
The callback waits for the commits under way, and a commit that waited in there could store an old position late. So
commits and polls take turns, here, where waiting can be given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from threading import Event, Lock, get_ident

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mqplug import Error, NotAssigned, Timeout
from mqplug_kafka._cluster.errors import TRANSIENT_CODES, error_from_native, native
from mqplug_kafka._cluster.worker import NativeWorker

COMMIT_RETRY_PAUSE_S = 0.05
COMMIT_RETRY_LIMIT_S = 2.0  # seconds that a refused commit is repeated for

_RETRIED_CODES = TRANSIENT_CODES | {
    KafkaError.ILLEGAL_GENERATION,  # while the group rebalances; a member that was shut out gets it for good
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
}


class Committer:
    """Commits for one native consumer, one commit after the other."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._worker = NativeWorker("mqplug-kafka-commit")
        self._turn = Lock()
        self._unwanted = Event()  # whether no commit waits for its turn: a poll lets commits go first
        self._unwanted.set()
        self._refusal: Callable[[], Error] | None = None  # what commits of other threads get while partitions go away
        self._callback: int | None = None  # the thread that runs a rebalance callback now

    @contextmanager
    def polling(self, timeout: float) -> Iterator[bool]:
        """Wraps a poll; False if a commit did not end in time."""
        end = time.monotonic() + timeout
        self._unwanted.wait(timeout)
        mine = self._turn.acquire(timeout=max(0.0, end - time.monotonic()))
        try:
            yield mine
        finally:
            if mine:
                self._turn.release()

    @contextmanager
    def rebalancing(self, refusal: Callable[[], Error] | None = None) -> Iterator[None]:
        """Wraps a callback, inside a poll. With a refusal, commits of other threads fail by it instead of waiting."""
        self._callback, self._refusal = get_ident(), refusal
        try:
            yield
        finally:
            self._callback, self._refusal = None, None

    def commit(self, offsets: list[TopicPartition], timeout: float) -> None:
        """Store offsets; ``Timeout`` if they were not confirmed in time."""
        end = time.monotonic() + timeout
        if self._callback == get_ident():
            self._repeat(offsets, end, self._attempt)
            return
        self._unwanted.clear()
        future = self._worker.run(lambda: self._repeat(offsets, end, self._attempt_in_turn))
        try:
            future.result(timeout)
        except FutureTimeout as error:
            if isinstance(error, Timeout):
                raise  # the attempt's own answer is a timeout, too
            raise Timeout("the commit was not confirmed in time", fix="See that the brokers are well") from None

    def stop(self) -> None:
        """End after what was begun."""
        self._worker.stop()

    def _repeat(self, offsets: list[TopicPartition], end: float, attempt: Attempt) -> None:
        """Attempt it until it is done, or the refusals have lasted too long."""
        give_up = min(end, time.monotonic() + COMMIT_RETRY_LIMIT_S)
        while (refusal := attempt(offsets, end)) is not None:
            if time.monotonic() + COMMIT_RETRY_PAUSE_S >= give_up:
                raise error_from_native(refusal, "commit") from refusal
            time.sleep(COMMIT_RETRY_PAUSE_S)

    def _attempt_in_turn(self, offsets: list[TopicPartition], end: float) -> KafkaException | None:
        self._unwanted.clear()
        try:
            while not self._turn.acquire(timeout=COMMIT_RETRY_PAUSE_S):
                if (refusal := self._refusal) is not None:
                    raise refusal()
                if time.monotonic() >= end:
                    raise handing_over()
            try:
                return self._attempt(offsets, end)
            finally:
                self._turn.release()
        finally:
            self._unwanted.set()

    def _attempt(self, offsets: list[TopicPartition], end: float) -> KafkaException | None:
        """One native commit, which waits for up to 45 s, whatever happens; a refusal that passes is returned."""
        try:
            for each in self._consumer.commit(offsets=offsets, asynchronous=False):
                if each.error is not None:
                    return _refusal(KafkaException(each.error))
        except KafkaException as error:
            return _refusal(error)
        return None


def handing_over() -> Error:
    """What a commit gets while partitions are given back: the callback stores what was acked."""
    return Timeout("partitions change hands: nothing was stored yet", fix="Commit again")


def shut_out() -> Error:
    """What a commit gets while the group's partitions are lost: others may have them."""
    return NotAssigned(
        "the group went on without this member: nothing was stored",
        fix="Receive again: what is not stored comes again",
    )


Attempt = Callable[[list[TopicPartition], float], KafkaException | None]


def _refusal(error: KafkaException) -> KafkaException:
    if native(error).code() in _RETRIED_CODES:
        return error
    raise error_from_native(error, "commit") from error
