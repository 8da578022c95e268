"""Computes with positions, as the backend says: it moves them along their log, and counts between them. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mqplug._consume.start_positions import check_place
from mqplug._model.errors import InvalidMessageId
from mqplug._model.ids import MessageId
from mqplug._model.position import Position

if TYPE_CHECKING:
    from mqplug.spi._drivers import AdvancingConnection, Connection


def advance(connection: Connection, position: Position, count: int) -> Position:
    """Return the position ``count`` messages further along. The arguments were checked."""
    return _own(connection, position).advance(position, count)


def distance(connection: Connection, start: Position, until: Position) -> int:
    """Return how many messages lie between two positions at most. The arguments were checked."""
    forward = start < until
    capable = _own(connection, start)
    check_place(connection, until)
    return capable.distance(start, until) if forward else 0


def check_position(name: str, value: object) -> None:
    """Raise ``TypeError`` unless this is a position."""
    if isinstance(value, Position):
        return
    hint = ": say resolve(topic, before(id)) or resolve(topic, after(id))" if isinstance(value, MessageId) else ""
    hint = ": Position.parse(text) reads the text of a position" if isinstance(value, str) else hint
    raise TypeError(f"{name} is a Position, not {type(value).__name__}{hint}")


def _own(connection: Connection, position: Position) -> AdvancingConnection:
    """Return the connection. Raise ``InvalidMessageId`` unless the position is one of its backend and cluster."""
    capable = cast("AdvancingConnection", connection)
    if not capable.owns(position.log):
        raise InvalidMessageId(
            f"{position!r} belongs to another backend or cluster",
            topic=position.log.topic, fix="Use positions that came from a client of the same cluster",
        )  # fmt: skip
    check_place(connection, position)
    return capable
