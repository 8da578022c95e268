"""Resolution of starts, ids and positions from callers, with checks that they fit the logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from mqplug._base.deadline import Deadline
from mqplug._model.errors import InvalidMessageId, NotAssigned, Unsupported
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.message import Message
from mqplug._model.position import (
    EARLIEST,
    After,
    Ago,
    AtTime,
    Before,
    Earliest,
    Last,
    Latest,
    Position,
    PositionLost,
    Start,
)
from mqplug._plugins.backend import Backend
from mqplug.spi._actions import GroupPosition, GroupStart, SymbolicStart

ResetTarget = Start | MessageId | Mapping[int, Position | GroupPosition]
AnyPosition = TypeVar("AnyPosition", bound=Position | GroupPosition)


def check_start(start: object) -> Start:
    """Return the start. Raise ``TypeError`` if it is none."""
    if isinstance(start, MessageId):
        raise TypeError("a start cannot be a MessageId: use before(id) or after(id)")
    if not isinstance(start, Earliest | Latest | Before | After | AtTime | Ago | Last | Position):
        raise TypeError(
            f"a start must be EARLIEST, LATEST, before(id), after(id), at_time(t), ago(...), last(n) or a Position, "
            f"not {type(start).__name__}{_meant(start)}"
        )
    return start


def _meant(start: object) -> str:
    """Return a hint for a value that is not a start."""
    match start:
        case Message():
            return ": use before(message.id) or after(message.id)"
        case str() if start.startswith("m1~"):
            return ": MessageId.parse(text) reads the text of an id"
        case str() if start.startswith("p1~"):
            return ": Position.parse(text) reads the text of a position"
        case str() if start.upper() in {"EARLIEST", "LATEST"}:
            return f": use mqplug.{start.upper()}, without quotes"
        case str():
            return ": MessageId.parse and Position.parse read the text of an id or a position"
        case datetime():
            return ": use at_time(moment)"
        case timedelta():
            return ": use ago(hours=1), or at_time(now - span)"
        case Mapping():
            return ": pass one position at a time"
    return ""


def check_log(log: Log, logs: Sequence[Log], *, whole: bool = False) -> None:
    """Raise ``InvalidMessageId`` for an id or position of another backend, topic or incarnation.

    With ``whole`` the logs are those of whole topics, otherwise the ones that a consumer holds.
    """
    if log in logs:
        return
    of_topic = [each for each in logs if _topic(each) == _topic(log)]
    if any(each.partition == log.partition for each in of_topic):
        raise InvalidMessageId(
            f"this id or position belongs to a deleted topic {log.topic!r}, which was created again since",
            topic=log.topic,
            fix="Use ids and positions from the current topic",
        )
    if of_topic and whole:
        raise InvalidMessageId(
            f"the topic {log.topic!r} has no partition {log.partition}, to which this id or position belongs",
            topic=log.topic,
            fix="Use ids and positions from the current topic",
        )
    if of_topic:
        raise NotAssigned(f"partition {log.partition} of {log.topic!r} is not held by this consumer", topic=log.topic)
    for each in logs:
        if (each.backend, each.topic) == (log.backend, log.topic):
            raise InvalidMessageId(
                f"this id or position belongs to the topic {log.topic!r} of the {log.backend} cluster {log.cluster!r}; "
                f"this client is connected to {each.cluster!r}",
                topic=log.topic,
                fix="Use it with a client of that cluster",
            )
    text = f"this id or position belongs to topic {log.topic!r}, and this consumer holds no partition"
    if logs:
        text = (
            f"this id or position belongs to {log.backend} topic {log.topic!r}; "
            f"expected one of {logs[0].backend} topic {logs[0].topic!r}"
        )
    raise InvalidMessageId(text, fix="Use an id or position from the same topic of the same cluster")


def _topic(log: Log) -> tuple[str, str, str]:
    return log.backend, log.cluster, log.topic


def by_log(backend: Backend, places: Mapping[int, AnyPosition], logs: Sequence[Log]) -> dict[Log, AnyPosition]:
    """Return positions by log, from positions by partition. Raise unless each belongs to one of the topic's logs."""
    if not isinstance(places, Mapping):
        raise TypeError(f"positions must be a mapping of partition to Position, not {type(places).__name__}")
    found: dict[Log, AnyPosition] = {}
    for partition, place in places.items():
        position: object = place.position if isinstance(place, GroupPosition) else place
        if not isinstance(position, Position):
            raise TypeError(f"partition {partition} needs a Position, not {type(position).__name__}")
        check_log(position.log, logs, whole=True)
        if position.log.partition != partition:
            raise ValueError(f"partition {partition} needs one of its own positions, not {position!r}")
        check_place(backend, position)
        found[position.log] = place
    return found


def check_place(backend: Backend, place: MessageId | Position) -> None:
    """Raise ``InvalidMessageId`` for coordinates that no message of this backend can have."""
    if not backend.connection.is_possible(place.coordinates):
        raise InvalidMessageId(
            f"{place!r} cannot exist: {place.log.backend} has no such coordinates",
            topic=place.log.topic,
            fix="Use ids and positions from mqplug, unchanged",
        )


def position_of(
    backend: Backend, start: Before | After | Position, logs: Sequence[Log], *, whole: bool = False
) -> Position:
    """Return the position of a start with an id. Raise ``InvalidMessageId`` if it belongs to another log."""
    place = start if isinstance(start, Position) else start.id
    check_log(place.log, logs, whole=whole)
    check_place(backend, place)
    match start:
        case Before(message_id):
            return Position(message_id.log, message_id.coordinates)
        case After(message_id):
            return backend.connection.after(message_id)
        case _:
            return start


def resolve(
    backend: Backend,
    start: Start,
    logs: Sequence[Log],
    deadline: Deadline,
    *,
    whole: bool = False,
) -> dict[Log, Position]:
    """Return a position for each log that the start names. ``whole`` has the meaning that it has in ``check_log``."""
    if isinstance(start, Before | After | Position):
        position = position_of(backend, start, logs, whole=whole)
        return {position.log: position}
    return dict(backend.resolve(symbolic(backend, start), logs, deadline))


def symbolic(backend: Backend, start: Start) -> SymbolicStart:
    """Return a start without ids, in the form that drivers take."""
    if isinstance(start, Ago | AtTime) and not backend.connection.capabilities.seek_time:
        raise Unsupported("seek_time", operation="seek", fix="Start at an id, at EARLIEST or at LATEST")
    if isinstance(start, Ago):
        return start.resolved()
    if isinstance(start, Before | After | Position):
        raise TypeError(f"{start!r} names one partition")
    return start


def everywhere(backend: Backend, start: Start, logs: Sequence[Log], deadline: Deadline) -> dict[Log, Position]:
    """Return a position for every log. If the start names one partition, the others begin at EARLIEST."""
    found = resolve(backend, start, logs, deadline)
    others = [log for log in logs if log not in found]
    return found | dict(backend.resolve(EARLIEST, others, deadline))


def group_start(backend: Backend, start: Start, logs: Sequence[Log], deadline: Deadline) -> GroupStart:
    """Return the start of a group in the form that drivers take: with positions instead of ids."""
    if isinstance(start, Before | After | Position):
        return everywhere(backend, start, logs, deadline)
    return symbolic(backend, start)


def refuse_lost(backend: Backend, positions: Mapping[Log, Position], deadline: Deadline) -> None:
    """Raise ``PositionLost`` if retention removed the messages at a position. Poll raises for later removals."""
    marks = backend.watermarks(list(positions), None, deadline)
    for log, position in positions.items():
        low = marks[log].low
        if position < low:
            raise PositionLost(
                f"retention removed messages after {position!r}: the log begins at {low!r}",
                log=log, low=low, backend=backend.name, topic=log.topic,
                fix="Pass missing='next' to continue with the first retained message",
            )  # fmt: skip


def retained(backend: Backend, positions: Mapping[Log, Position], deadline: Deadline) -> dict[Log, Position]:
    """Return the positions. Replace one that retention removed by that of the first retained message."""
    marks = backend.watermarks(list(positions), None, deadline)
    return {log: max(position, marks[log].low) for log, position in positions.items()}
