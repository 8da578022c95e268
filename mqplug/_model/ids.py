"""Message ids."""

from __future__ import annotations

from typing import Any

from mqplug._model.log import Log
from mqplug._model.text import Numbers, decode_text, encode_text


class MessageId:
    """The name of one stored message: its log and its coordinates, which grow along the log.

    Ids of one log are totally ordered. Across logs, ``<`` raises ``TypeError`` and ``==`` is False. ``str(id)`` is the
    text form; ``MessageId.parse(text)`` reads it back. ``detail`` has the other numbers that a driver needs to seek
    exactly; comparison ignores it.
    """

    __slots__ = ("coordinates", "detail", "log")

    log: Log
    coordinates: Numbers
    detail: Numbers

    def __init__(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        _set_log(self, log)
        _set_coordinates(self, coordinates)
        _set_detail(self, detail)

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Return the id with this text. Raises ``InvalidMessageId`` unless this is exactly the text of an id."""
        return cls(*decode_text("m", text))

    def __str__(self) -> str:
        return encode_text("m", self.log, self.coordinates, self.detail)

    def __repr__(self) -> str:
        where = ":".join(map(str, self.coordinates))
        return f"MessageId({self.log.backend} {self.log.topic}[{self.log.partition}] {where})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a MessageId is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a MessageId is immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return MessageId, (self.log, self.coordinates, self.detail)

    def __hash__(self) -> int:
        return hash((self.log, self.coordinates))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self.log is other.log and self.coordinates == other.coordinates

    def __lt__(self, other: MessageId) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self.coordinates < _same_log(self.log, other.log, other.coordinates)

    def __le__(self, other: MessageId) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self.coordinates <= _same_log(self.log, other.log, other.coordinates)

    def __gt__(self, other: MessageId) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self.coordinates > _same_log(self.log, other.log, other.coordinates)

    def __ge__(self, other: MessageId) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self.coordinates >= _same_log(self.log, other.log, other.coordinates)


# the setters of an immutable object's fields, looked up once because ids are created often
_set_log, _set_coordinates, _set_detail = (
    MessageId.__dict__[name].__set__ for name in ("log", "coordinates", "detail")
)


def _same_log(mine: Log, other: Log, coordinates: Numbers) -> Numbers:
    if mine is not other:
        raise TypeError(f"{mine!r} and {other!r} are different logs: their ids and positions have no common order")
    return coordinates
