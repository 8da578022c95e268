"""What is found in a history that no backend may do."""

from __future__ import annotations

from typing import Final

import attrs

from mqplug.testing.history._events.events import Coordinates, Event

KINDS: Final = {
    "lost": "a message that was stored is not there",
    "forgotten": "a message that nobody of the group acked never came",
    "acked by nobody": "a group's position lies behind a message that nobody acked",
    "invented": "a message that nobody sent, or that was provably not stored",
    "two payloads": "one id names two messages",
    "two ids": "the producer was told another id than the readers see",
    "duplicated": "one send was stored twice",
    "reordered": "what one producer sent is not stored in that order",
    "skipped": "a consumer passed a stored message over",
    "rewound": "a consumer went back, or got a message twice, without a seek or a hand-over",
    "ack came back": "a message came again after its ack was stored",
    "seek landed wrong": "what came after a seek, or at the start, is not what was asked for",
    "position went down": "a group's stored position went down without a seek",
    "watermark went down": "a watermark went down",
    "wrong watermark": "a watermark, or a lag, denies what is stored",
    "broke": "an error that no caller should see, or a call that never ended",
    "unfinished": "the end of the run could not be checked",
}
"""Each kind of anomaly, the worst first."""


@attrs.frozen
class Anomaly:
    """Something that may not be; ``events`` are those that show it, the first one is the witness."""

    kind: str = attrs.field(validator=attrs.validators.in_(KINDS))
    text: str
    events: tuple[Event, ...]
    partition: int | None = None
    id: Coordinates | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it the same anomaly in a part of the same history."""
        witness = self.events[0].number if self.events else None
        return self.kind, witness, self.partition, self.id

    def __str__(self) -> str:
        where = "" if self.partition is None else f" [{self.partition}]"
        which = "" if self.id is None else f" {':'.join(map(str, self.id))}"
        return f"{self.kind}{where}{which}: {self.text}"
