"""Puts faults around a consumer's driver: it goes silent, fails, and loses or repeats messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from threading import Event
from typing import Final

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerDriver, Deadline, GroupPosition, Settlement
from mqplug.spi.proxies import ConsumerProxy
from mqplug_testing.faults._calls import carry_out, close
from mqplug_testing.faults._rules import FaultPicker, TopicPartition

POLL_EFFECTS: Final = frozenset({"fail", "delay"})
MESSAGE_EFFECTS: Final = frozenset({"drop", "duplicate"})


class FaultyConsumer(ConsumerProxy):
    """A consumer's driver with faults in each poll, each message and each call."""

    def __init__(self, inner: ConsumerDriver, picker: FaultPicker, places: Sequence[TopicPartition]) -> None:
        super().__init__(inner)
        self._picker = picker
        self._places = places
        self._by_message = picker.concerns("poll", MESSAGE_EFFECTS)
        self._silent = Deadline(0)
        self._woken = Event()

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        if not self._silent.expired:
            self._woken.wait(self._silent.remaining(timeout))
            self._woken.clear()
            self.inner.tend(0.0)  # keeps its membership while it is silent
            return []
        rule = self._picker.pick("poll", self._places, POLL_EFFECTS)
        if rule is not None and rule.action == "fail":
            raise rule.make_error()
        if rule is not None:
            self._silent = Deadline(rule.delay)
            return []
        batches = self.inner.poll(most, timeout)
        return [self._with_faults(batch) for batch in batches] if self._by_message else batches

    def _with_faults(self, batch: Batch) -> Batch:
        rows: list[int] = []
        place = [(batch.log.topic, batch.log.partition)]
        for row in range(len(batch)):
            rule = self._picker.pick("poll", place, MESSAGE_EFFECTS)
            times = 1 if rule is None else {"drop": 0, "duplicate": 2}[rule.action]
            rows += [row] * times
        return (
            batch if len(rows) == len(batch) and len(set(rows)) == len(rows) else batch.take(rows, batch.next_position)
        )

    def wake(self) -> None:
        self._woken.set()
        self.inner.wake()

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        rule = self._picker.pick("seek", _places(positions))
        carry_out(rule, partial(self.inner.seek, positions), timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        rule = self._picker.pick("commit", _places(positions))
        carry_out(rule, partial(self.inner.commit, positions), timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        rule = self._picker.pick("settle", _places(settled))
        return carry_out(rule, partial(super().settle, settled), timeout)

    def close(self, timeout: float) -> None:
        close(self._picker.pick("close", self._places), self.inner.close, timeout)


def _places(logs: Mapping[Log, object]) -> list[TopicPartition]:
    return [(log.topic, log.partition) for log in logs]
