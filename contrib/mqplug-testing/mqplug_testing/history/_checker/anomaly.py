"""Anomalies: behaviour that no backend may show, and its kinds."""

from __future__ import annotations

from typing import Final

import attrs

from mqplug_testing.history._events import Coordinates, Event

KINDS: Final = {
    "lost": "a stored message is missing",
    "forgotten": "a message that no member of the group acked was never delivered",
    "acked by nobody": "a group's position passed a message that no member acked",
    "invented": "a message that no producer sent, or that was provably not stored",
    "two payloads": "one id names two messages",
    "two ids": "the producer got another id than the readers see",
    "duplicated": "one send was stored twice",
    "reordered": "the messages of one producer are not stored in the order of its sends",
    "skipped": "a consumer skipped a stored message",
    "rewound": "a consumer went back, or got a message twice, without a seek or a hand-over",
    "ack came back": "a message was delivered again after its ack was stored",
    "seek landed wrong": "the first message after a seek or a start is not the requested one",
    "position went down": "a group's stored position went down without a seek",
    "watermark went down": "a watermark went down",
    "wrong watermark": "a watermark or a lag contradicts the stored messages",
    "broke": "a call never returned, or raised an error that no caller should see",
    "unfinished": "the final reads failed, so the end of the run is not checked",
}
"""The kinds of anomalies, the worst first."""


@attrs.frozen
class Anomaly:
    """An anomaly with the ``events`` that show it; the first one is the witness."""

    kind: str = attrs.field(validator=attrs.validators.in_(KINDS))
    text: str
    events: tuple[Event, ...]
    partition: int | None = None
    id: Coordinates | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of the anomaly in every part of the same history."""
        witness = self.events[0].number if self.events else None
        return self.kind, witness, self.partition, self.id

    def __str__(self) -> str:
        where = "" if self.partition is None else f" [{self.partition}]"
        which = "" if self.id is None else f" {':'.join(map(str, self.id))}"
        return f"{self.kind}{where}{which}: {self.text}"
