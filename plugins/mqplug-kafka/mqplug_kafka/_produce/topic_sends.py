"""The records of one topic on their way from one producer, in order; those refused with their batch are sent again.

A broker refuses a batch as a whole, if it is too large for the topic or if one of its records is invalid. None of its
records is stored then, so they may be sent again in smaller batches. To keep the order inside each partition, nothing
more of the topic is handed to the native client until all reports are in. Refused records that a later one of their
partition has overtaken have failed: as invalid if they are so by themselves, else as part of a refused batch. The
others are sent again, and when they are settled, the held ones follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import RLock

import attrs

from mqplug import Closed, Error, OutcomeUnknown
from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import INVALID_RECORD_CODES, invalid_record, not_stored, refused_with_batch
from mqplug_kafka._cluster.native_options import ALONE
from mqplug_kafka._cluster.shared_producer import SharedProducer
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.hand_over import way_to
from mqplug_kafka._produce.native_producers import NativeProducers
from mqplug_kafka._produce.record_checks import is_itself_invalid, unstorable
from mqplug_kafka._produce.run_outcome import Refused

SMALLEST_GUESS_BYTES = 1024  # where the limit is not known and this is too large, each record goes alone
NOTHING = (0, 0)


@attrs.define(eq=False)
class HandOver:
    """A record or a run that the native client has. It passes its outcome on to the topic's sends."""

    sends: TopicSends
    number: int
    batch_bytes: int

    def refused_one(self) -> None:
        """As ``SendsAgain.refused_one``."""
        self.sends.holds = True

    def reported(self, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        """As ``SendsAgain.reported``."""
        self.sends.reported(self, stored, refused)


class TopicSends:
    """The records of one producer for one topic."""

    def __init__(
        self, topic: str, connection: KafkaConnection, current_logs: CurrentLogs, natives: NativeProducers
    ) -> None:
        self._topic = topic
        self._limits = connection.limits
        self._future_max = connection.settings.future_max
        self._current_logs = current_logs
        self._natives = natives
        self._native = natives.largest
        self._lock = RLock()
        self._last = 0  # the number of the last hand-over
        self._on_the_way: set[int] = set()  # the numbers of the hand-overs without an outcome
        self._stored: dict[int, tuple[int, int]] = {}  # by partition, the hand-over and row of the last stored record
        self._in_doubt = NOTHING  # the last hand-over that failed midway
        self._refused: list[tuple[HandOver, Refused]] = []
        self._held: deque[tuple[Run | Sending, Callable[[], None]]] = deque()
        self.holds = not self._limits.is_known(topic)
        """Whether records are held. Then ``go_on`` must be called."""
        self._asked = self.holds
        if self.holds:
            self._limits.ask(topic)
            current_logs.prepare(self._native, topic, 0)  # connects in the meantime
        else:
            self._native = natives.of(self._limits.of(topic).batch_bytes)

    # handing over ------------------------------------------------------------------------------------------

    def send(self, sending: Sending) -> None:
        """Hand a record to the native client, or hold it."""
        with self._lock:
            if self._native.outdated:
                self._renew()
            if self.holds:
                self._held.append((sending, lambda: self._send(sending, self._native)))
            else:
                self._send(sending, self._native)

    def send_run(self, run: Run) -> None:
        """Hand a run to the native client, or hold it."""
        with self._lock:
            if self._native.outdated:
                self._renew()
            if self.holds:
                self._held.append((run, lambda: self._send_run(run)))
            else:
                self._send_run(run)

    def _renew(self) -> None:
        """Use a native client with the renewed certificates, as soon as the former has reported on all records."""
        if self._on_the_way or self.holds:
            self.holds = True
        else:
            self._native = self._natives.of(self._limits.of(self._topic).batch_bytes)

    def _send(self, sending: Sending, native: SharedProducer) -> None:
        if (error := unstorable(sending, self._future_max)) is not None:
            sending.failed(error)
            return
        self._current_logs.prepare(native, self._topic, sending.partition)
        hand_over = self._new_hand_over(native)
        try:
            way_to(native.native).send(sending, self._current_logs, hand_over)
        except BaseException:
            self._given_up(hand_over)
            raise

    def _send_run(self, run: Run) -> None:
        self._current_logs.prepare(self._native, self._topic, run.partition)
        hand_over = self._new_hand_over(self._native)
        try:
            taken = way_to(self._native.native).send_run(run, self._current_logs, self._future_max, hand_over)
        except BaseException:
            self._given_up(hand_over)
            raise
        if not taken:
            self._on_the_way.discard(hand_over.number)
            for each in run.sendings():
                self._send(each, self._native)

    def _new_hand_over(self, native: SharedProducer) -> HandOver:
        self._last += 1
        self._on_the_way.add(self._last)
        return HandOver(self, self._last, native.batch_bytes)

    # outcomes ----------------------------------------------------------------------------------------------

    def reported(self, hand_over: HandOver, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        """Take the outcome of a hand-over: the last row that may be stored, by partition, and the refused records."""
        with self._lock:
            for partition, row in stored.items():
                self._stored[partition] = max(self._stored.get(partition, NOTHING), (hand_over.number, row))
            self._refused.extend((hand_over, each) for each in refused)
            self._on_the_way.discard(hand_over.number)

    def _given_up(self, hand_over: HandOver) -> None:
        """Forget a hand-over that failed midway. Its records may be stored: nothing before them is sent again."""
        self._in_doubt = (hand_over.number, 0)
        self._on_the_way.discard(hand_over.number)

    # sending again -----------------------------------------------------------------------------------------

    def go_on(self, timeout: float) -> None:
        """Send again what was refused, or hand over what was held, if nothing is on its way any more."""
        with self._lock:
            if self._on_the_way or not self.holds:
                return
            if self._refused and not self._asked:
                self._limits.ask(self._topic)
                self._asked = True
        if self._asked and not self._limits.await_answer(self._topic, timeout):
            return
        with self._lock:
            if self._on_the_way or not self.holds:  # another thread was quicker
                return
            self._asked = False
            refused, self._refused = self._refused, []
            self._send_again([each for each in sorted(refused, key=_order) if not self._has_failed(*each)])
            if not self._on_the_way:
                self._release()

    def _has_failed(self, hand_over: HandOver, refused: Refused) -> bool:
        """Return whether a refused record cannot be sent again. If so, settle it."""
        sending, error = refused.sending, refused.error
        invalid = error.code() in INVALID_RECORD_CODES
        if hand_over.batch_bytes <= ALONE or (not invalid and _size(sending) >= hand_over.batch_bytes):
            sending.failed(self._invalid(refused) if invalid else not_stored(error))
            return True  # it was alone in its batch
        stored = max(self._stored.get(refused.partition, NOTHING), self._in_doubt)
        if stored > (hand_over.number, refused.row):
            self._give_up(refused)
            return True
        return False

    def _give_up(self, refused: Refused) -> None:
        """Settle a refused record that is not sent again."""
        is_invalid = is_itself_invalid(refused.error, refused.sending, self._limits.of(self._topic))
        refused.sending.failed(self._invalid(refused) if is_invalid else refused_with_batch(refused.error))

    def _invalid(self, refused: Refused) -> Error:
        return invalid_record(refused.error, refused.sending, self._limits.of(self._topic).compacted)

    def _send_again(self, refused: Sequence[tuple[HandOver, Refused]]) -> None:
        if not refused:
            return
        invalid = any(each.error.code() in INVALID_RECORD_CODES for _, each in refused)
        fits = not invalid and self._narrow(min(hand_over.batch_bytes for hand_over, _ in refused))
        native = self._natives.of(self._limits.of(self._topic).batch_bytes if fits else ALONE)
        waiting = deque(refused)
        try:
            while waiting:
                self._send(waiting[0][1].sending, native)
                waiting.popleft()
        except BaseException:
            interrupted = waiting.popleft()[1].sending
            interrupted.unknown(OutcomeUnknown("the hand-over to the native client was interrupted"))
            self._refused.extend(waiting)
            raise

    def _narrow(self, refused_bytes: int) -> bool:
        """Use smaller batches from now on. Return whether these fit for sure; else their size is a guess."""
        limits = self._limits.of(self._topic)
        if limits.batch_bytes is None or limits.batch_bytes >= refused_bytes:
            self._limits.guess(self._topic, refused_bytes // 4 if refused_bytes > SMALLEST_GUESS_BYTES else ALONE)
            return False
        return not limits.guessed

    def _release(self) -> None:
        """Hand over what was held."""
        self._native = self._natives.of(self._limits.of(self._topic).batch_bytes)
        self.holds = False
        while self._held:
            unit, hand = self._held.popleft()
            try:
                hand()
            except BaseException:
                unit.unknown(OutcomeUnknown("the hand-over to the native client was interrupted"))
                raise

    def close(self) -> None:
        """Send nothing more."""
        with self._lock:
            for unit, _ in self._held:
                unit.failed(Closed("the producer was closed before the record was sent"))
            self._held.clear()
            for _, each in self._refused:
                self._give_up(each)
            self._refused.clear()


def _order(refused: tuple[HandOver, Refused]) -> tuple[int, int]:
    hand_over, record = refused
    return hand_over.number, record.row


def _size(sending: Sending) -> int:
    headers = sum(len(name.encode()) + len(value or b"") for name, value in sending.headers)
    return len(sending.value or b"") + len(sending.key or b"") + headers
