"""The events of a run: each call as its caller saw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from mqplug.spi import Mode

Coordinates = tuple[int, ...]
"""Coordinates of an id, or of a position: a position lies before all ids that are not less."""

CallOutcome = Literal["ok", "failed", "unknown"]
"""The outcome of a call; ``failed`` means that it provably had no effect."""


@attrs.frozen
class SeekTarget:
    """The target of a start or a seek.

    ``place`` holds the coordinates of an id or a position; ``number`` is a time in milliseconds, or a number of
    messages before the end.
    """

    kind: Literal["earliest", "latest", "before", "after", "position", "time", "last"]
    partition: int | None = None
    place: Coordinates = ()
    number: int = 0


@attrs.frozen
class RecordSent:
    """A record was sent. ``number`` is its index among those of its producer, ``id`` the id that the producer got."""

    producer: str
    number: int
    value: str
    partition: int | None = None
    id: Coordinates | None = None
    key: str | None = None


@attrs.frozen
class ConsumerOpened:
    """A consumer was opened; ``landed`` holds its positions then, if known."""

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
    """A consumer was notified that it now holds these partitions."""

    consumer: str
    partitions: tuple[int, ...]


@attrs.frozen
class PartitionsRevoked:
    """A consumer was notified that it loses these partitions."""

    consumer: str
    partitions: tuple[int, ...]


@attrs.frozen
class MessageReceived:
    """A consumer received one message."""

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
    """A consumer called seek; ``landed`` holds the positions of the moved partitions afterwards."""

    consumer: str
    to: SeekTarget
    missing: Literal["error", "next"] = "error"
    landed: tuple[tuple[int, Coordinates], ...] = ()


@attrs.frozen
class MessageAcked:
    """A member acked a message; with ``through``, also all that it had received before in this partition."""

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
    """The administrator read the watermarks: (partition, low, high)."""

    marks: tuple[tuple[int, Coordinates, Coordinates], ...] = ()


@attrs.frozen
class PositionsRead:
    """The administrator read the stored positions of a group: (partition, position)."""

    group: str
    places: tuple[tuple[int, Coordinates], ...] = ()


@attrs.frozen
class LagRead:
    """The administrator read the lag of a group: (partition, messages)."""

    group: str
    lags: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class MessagesTrimmed:
    """The administrator trimmed a partition before a position."""

    partition: int
    before: Coordinates


@attrs.frozen
class PartitionsAdded:
    """Partitions were added; ``partitions`` is the new total."""

    partitions: int


@attrs.frozen
class BackendDisturbed:
    """The backend or a worker process was disturbed on purpose, and recovered."""

    what: str


@attrs.frozen
class AllMessagesRead:
    """At the end, a consumer without a group read all partitions, from EARLIEST to the high watermark of that time."""

    consumer: str


@attrs.frozen
class GroupDrained:
    """At the end, after all other members had left, a member received everything outstanding for its group."""

    consumer: str
    group: str


@attrs.frozen
class UnexpectedError:
    """An actor got an error that no caller should ever see, or did not return in time."""

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
"""The word for each action, in a history file and in a printed event."""


@attrs.frozen
class Event:
    """One call, or one notification of a callback.

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
        """Whether the call succeeded."""
        return self.outcome == "ok"

    def __str__(self) -> str:
        fields = {field.name: getattr(self.did, field.name) for field in attrs.fields(type(self.did))}
        fields_text = " ".join(f"{name}={_short(value)}" for name, value in fields.items() if value not in {None, ()})
        end = "" if self.ok else f": {self.outcome}, {self.error}"
        when = f"{self.began / 1e6:.3f}-{self.ended / 1e6:.3f}s"
        return f"#{self.number} {when} {self.actor}: {TAGS[type(self.did)]} {fields_text}{end}"


def _short(value: object) -> str:
    """Return a value in its most readable form."""
    if isinstance(value, SeekTarget):
        parts = [value.kind, *([f"[{value.partition}]"] if value.partition is not None else [])]
        return "".join(parts) + (f"({_short(value.place)})" if value.place else f"({value.number or ''})")
    if isinstance(value, tuple) and value and all(isinstance(each, int) for each in value):
        return ":".join(map(str, value))
    if isinstance(value, tuple):
        return "{" + ", ".join(" ".join(map(_short, each)) for each in value) + "}"
    return str(value)
