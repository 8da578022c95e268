"""What is sent to one partition, in order. It waits here until its native producer is open."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any

import _pulsar

import mqplug
from mqplug import Log
from mqplug_pulsar._cluster.errors import PRODUCE, error_from_exception, error_from_result, named
from mqplug_pulsar._produce.sent import Sent


class PartitionProducer:
    """The native producer of one partition, and what was sent with it and is not settled."""

    def __init__(self, log: Log, on_settled: Callable[[], None]) -> None:
        self.log = log
        self.failed = False
        """Whether it can send nothing more: another one is needed."""
        self._on_settled = on_settled
        self._lock = Lock()
        self._native: Any = None
        self._waiting: list[Sent] = []
        self._unsettled: set[Sent] = set()
        self._late: list[Sent] = []  # some of their reports came after the last one, or are yet to come
        self._closed = False
        self._ending = False
        self._topic_error: mqplug.Error | None = None

    # sending -----------------------------------------------------------------------------------------------

    def send(self, sent: Sent) -> None:
        """Hand this to the native producer, or keep it until that is open."""
        with self._lock:
            if self._native is None:
                self._waiting.append(sent)
            else:
                self._hand_over(sent)

    def opened(self, opening: Future[Any]) -> None:
        """Hand what waits to the opened native producer, or settle it as failed."""
        error = opening.exception() if not opening.cancelled() else mqplug.Closed("the connection was closed")
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if error is None and not self._closed:
                self._native = opening.result()
                for sent in waiting:
                    self._hand_over(sent)
                return
            self.failed = True
        if error is None:
            close_quietly(opening.result())
        for sent in waiting:
            sent.failed(_opening_error(error or mqplug.Closed("the producer was closed"), self.log.topic))
        self._on_settled()

    def _hand_over(self, sent: Sent) -> None:
        self._unsettled.add(sent)
        sent.hand_over(self._native)

    # reports -----------------------------------------------------------------------------------------------

    def reported(self, sent: Sent) -> None:
        """Settle what was sent if all reports are in, and ring. Runs on the native client's thread."""
        self.take(sent)
        self._on_settled()

    def take(self, sent: Sent) -> None:
        """Settle what was sent if all reports are in. No error must reach the native client's thread."""
        try:
            if not sent.is_complete:
                self._late.append(sent)
            elif not self._ending:
                self._settle(sent)
        except Exception as error:  # noqa: BLE001
            sent.unknown(mqplug.OutcomeUnknown(f"the report on the message could not be read: {error}"))

    def settle_late(self) -> bool:
        """Settle what had not all its reports when the last one came. Return whether something still has not."""
        if self._late and not self._ending:
            late, self._late = self._late, []
            for sent in late:
                self.take(sent)
        return bool(self._late)

    def error_of(self, result: Any) -> tuple[bool, mqplug.Error]:
        """Return whether this result proves that a message was not stored, and its error."""
        if self._topic_error is not None and result == _pulsar.Result.AlreadyClosed:
            return True, self._topic_error
        proven, error = error_from_result(result)
        return proven, named(error, PRODUCE) if proven else error

    def _settle(self, sent: Sent) -> None:
        sent.settle()
        self._unsettled.discard(sent)

    # ending ------------------------------------------------------------------------------------------------

    @property
    def is_cut_off(self) -> bool:
        """Whether something is on its way, but the native producer has no broker for it."""
        return bool(self._unsettled) and not self.failed and not self._native.is_connected()

    @property
    def native_topic(self) -> str:
        """The native topic of its open native producer."""
        topic: str = self._native.topic()
        return topic

    def end(self, still_gone: Callable[[], bool]) -> None:
        """Close the native producer of a topic that was deleted, and settle what is on its way.

        Only what certainly is not stored has failed: the topic must still be gone when nothing more can be sent to it.
        """
        with self._lock:
            if not self.is_cut_off:  # there is a topic again
                return
            self.failed = self._ending = True
        close_quietly(self._native)
        if still_gone():
            self._topic_error = mqplug.TopicNotFound(
                "the topic was deleted", topic=self.log.topic, fix="Create it with create_topic"
            )
        self._ending = False
        for sent in tuple(self._unsettled):
            self._settle(sent)
        self._on_settled()

    def close(self) -> None:
        """Close the native producer."""
        with self._lock:
            self._closed = True
        if self._native is not None and not self.failed:
            self._native.close()


def close_quietly(native: Any) -> None:
    """Close a native producer, whatever it says to it."""
    with suppress(_pulsar.PulsarException):
        native.close()


def _opening_error(error: BaseException, topic: str) -> mqplug.Error:
    """Return the error of what was not handed over, and so is not stored."""
    if isinstance(error, mqplug.Error):
        return error
    if isinstance(error, _pulsar.PulsarException):
        return named(error_from_exception(error, topic), PRODUCE)
    made = mqplug.Error(f"the native client could not open a producer: {error}", topic=topic)
    made.__cause__ = error
    return made
