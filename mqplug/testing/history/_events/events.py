"""What happened in a run: each call as its caller saw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from mqplug.spi import Mode

Coordinates = tuple[int, ...]
"""Coordinates of an id, or of a position: a position lies before all ids that are not less."""

CallOutcome = Literal["ok", "failed", "unknown"]
"""``failed`` means that it was provably not done."""


@attrs.frozen
class SeekTarget:
    """Where a consumer was to begin, or to go on.

    ``place`` is that of an id or a position; ``number`` is a time in milliseconds, or how many messages before the end.
    """

    kind: Literal["earliest", "latest", "before", "after", "position", "time", "last"]
    partition: int | None = None
    place: Coordinates = ()
    number: int = 0


@attrs.frozen
class RecordSent:
    """A record was sent. ``number`` is its place among those of its producer, ``id`` what the producer was told."""

    producer: str
    number: int
    value: str
    partition: int | None = None
    id: Coordinates | None = None
    key: str | None = None


@attrs.frozen
class ConsumerOpened:
    """A consumer was opened; ``landed`` is where it stood then, if it was told."""

    consumer: str
    group: str | None = None
    mode: Mode = "ordered"
    start: SeekTarget = SeekTarget("earliest")
    landed: tuple[tuple[int, Coordinates], ...] = ()


@attrs.frozen
class ConsumerClosed:
    """A consumer was closed."""

    consumer: str


@attrs.frozen
class PartitionsAssigned:
    """A consumer was told that it holds these partitions from now on."""

    consumer: str
    partitions: tuple[int, ...]


@attrs.frozen
class PartitionsRevoked:
    """A consumer was told that these partitions go."""

    consumer: str
    partitions: tuple[int, ...]


@attrs.frozen
class MessageReceived:
    """A consumer got one message."""

    consumer: str
    partition: int
    id: Coordinates
    value: str
    attempt: int = 1
    log_time: int = 0


@attrs.frozen
class ReceiveFailed:
    """A consumer asked for messages, and got an error."""

    consumer: str


@attrs.frozen
class ConsumerSought:
    """A consumer was moved; ``landed`` is where each partition that moved stood afterwards."""

    consumer: str
    to: SeekTarget
    missing: Literal["error", "next"] = "error"
    landed: tuple[tuple[int, Coordinates], ...] = ()


@attrs.frozen
class MessageAcked:
    """A member acked a message; ``through``: and all that it had got before in this partition."""

    consumer: str
    partition: int
    id: Coordinates
    through: bool = False


@attrs.frozen
class MessageNacked:
    """A member nacked a message."""

    consumer: str
    partition: int
    id: Coordinates


@attrs.frozen
class AcksCommitted:
    """A member stored its acks."""

    consumer: str


@attrs.frozen
class WatermarksRead:
    """Somebody asked for watermarks: (partition, low, high)."""

    marks: tuple[tuple[int, Coordinates, Coordinates], ...] = ()


@attrs.frozen
class PositionsRead:
    """Somebody asked where a group stands: (partition, position)."""

    group: str
    places: tuple[tuple[int, Coordinates], ...] = ()


@attrs.frozen
class LagRead:
    """Somebody asked how much a group has before it: (partition, messages)."""

    group: str
    lags: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class MessagesTrimmed:
    """Somebody had messages before a position removed."""

    partition: int
    before: Coordinates


@attrs.frozen
class PartitionsAdded:
    """Partitions were added: so many there are now."""

    partitions: int


@attrs.frozen
class BackendDisturbed:
    """Something was done to the backend on purpose, and undone in the end."""

    what: str


@attrs.frozen
class AllMessagesRead:
    """In the end a consumer without a group read all partitions, from EARLIEST to the high of then."""

    consumer: str


@attrs.frozen
class GroupDrained:
    """In the end, when the others had left, a member took all that was left to its group."""

    consumer: str
    group: str


@attrs.frozen
class UnexpectedError:
    """An actor met an error that no caller should ever see, or did not come back in time."""

    what: str


RunAction = (
    RecordSent | ConsumerOpened | ConsumerClosed | PartitionsAssigned | PartitionsRevoked | MessageReceived
    | ReceiveFailed | ConsumerSought | MessageAcked | MessageNacked | AcksCommitted | WatermarksRead | PositionsRead
    | LagRead | MessagesTrimmed | PartitionsAdded | BackendDisturbed | AllMessagesRead | GroupDrained | UnexpectedError
)  # fmt: skip

TAGS: Final[Mapping[type, str]] = {
    RecordSent: "Sent",
    ConsumerOpened: "Opened",
    ConsumerClosed: "Left",
    PartitionsAssigned: "Assigned",
    PartitionsRevoked: "Revoked",
    MessageReceived: "Received",
    ReceiveFailed: "Waited",
    ConsumerSought: "Sought",
    MessageAcked: "Acked",
    MessageNacked: "GaveBack",
    AcksCommitted: "Committed",
    WatermarksRead: "Marked",
    PositionsRead: "Stood",
    LagRead: "Lagged",
    MessagesTrimmed: "Trimmed",
    PartitionsAdded: "Grew",
    BackendDisturbed: "Troubled",
    AllMessagesRead: "ReadWhole",
    GroupDrained: "Drained",
    UnexpectedError: "Broke",
}
"""The word for each action in a history file, and where an event is printed."""


@attrs.frozen
class Event:
    """One call, or what a callback was told.

    Times are microseconds since the run began. Events are numbered in the order in which they ended.
    """

    number: int
    actor: str
    began: int
    ended: int
    did: RunAction
    outcome: CallOutcome = "ok"
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return self.outcome == "ok"

    def __str__(self) -> str:
        fields = {field.name: getattr(self.did, field.name) for field in attrs.fields(type(self.did))}
        told = " ".join(f"{name}={_short(value)}" for name, value in fields.items() if value not in {None, ()})
        end = "" if self.ok else f": {self.outcome}, {self.error}"
        when = f"{self.began / 1e6:.3f}-{self.ended / 1e6:.3f}s"
        return f"#{self.number} {when} {self.actor}: {TAGS[type(self.did)]} {told}{end}"


def _short(value: object) -> str:
    """A value as it is read most easily."""
    if isinstance(value, SeekTarget):
        parts = [value.kind, *([f"[{value.partition}]"] if value.partition is not None else [])]
        return "".join(parts) + (f"({_short(value.place)})" if value.place else f"({value.number or ''})")
    if isinstance(value, tuple) and value and all(isinstance(each, int) for each in value):
        return ":".join(map(str, value))
    if isinstance(value, tuple):
        return "{" + ", ".join(" ".join(map(_short, each)) for each in value) + "}"
    return str(value)
