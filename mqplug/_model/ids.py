"""Message ids, and what they have in common with positions."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from mqplug._model.id_text import Numbers, decode_text, encode_text
from mqplug._model.log import Log


class Place:
    """A place in a log: the base of ids and positions. Places of one kind in one log are totally ordered."""

    __slots__ = ("_coordinates", "_log")

    def __init__(self, log: Log, coordinates: Numbers) -> None:
        self._log = log
        self._coordinates = coordinates

    if TYPE_CHECKING:

        @property
        def log(self) -> Log:
            """The log."""
            ...

        @property
        def coordinates(self) -> Numbers:
            """The coordinates in the log."""
            ...

    else:  # read without Python code
        log, coordinates = property(attrgetter("_log")), property(attrgetter("_coordinates"))

    def __repr__(self) -> str:
        where = ":".join(map(str, self.coordinates))
        return f"{type(self).__name__}({self.log.backend} {self.log.topic}[{self.log.partition}] {where})"

    def __hash__(self) -> int:
        return hash((self._log, self._coordinates))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._log is other._log and self._coordinates == other._coordinates

    def __lt__(self, other: Self) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._coordinates < _same_log(self._log, other._log, other._coordinates)

    def __le__(self, other: Self) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._coordinates <= _same_log(self._log, other._log, other._coordinates)

    def __gt__(self, other: Self) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._coordinates > _same_log(self._log, other._log, other._coordinates)

    def __ge__(self, other: Self) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._coordinates >= _same_log(self._log, other._log, other._coordinates)


class MessageId(Place):
    """The name of one stored message: its log and its coordinates, which grow along the log.

    Ids of one log are totally ordered. Across logs, ``<`` raises ``TypeError`` and ``==`` is False. ``str(id)`` is the
    text form; ``MessageId.parse(text)`` reads it back. ``detail`` has the other numbers that a driver needs to seek
    exactly; comparison ignores it.
    """

    __slots__ = ("_detail",)

    def __init__(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self._log = log
        self._coordinates = coordinates
        self._detail = detail

    if TYPE_CHECKING:

        @property
        def detail(self) -> Numbers:
            """Other numbers that the driver needs to seek to it."""
            ...

    else:
        detail = property(attrgetter("_detail"))

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Return the id with this text. Raises ``InvalidMessageId`` unless this is exactly the text of an id."""
        return cls(*decode_text("m", text))

    def __str__(self) -> str:
        return encode_text("m", self.log, self.coordinates, self.detail)

    def __reduce__(self) -> tuple[Any, ...]:
        return MessageId, (self._log, self._coordinates, self._detail)


def _same_log(mine: Log, other: Log, coordinates: Numbers) -> Numbers:
    if mine is not other:
        raise TypeError(f"{mine!r} and {other!r} are different logs: their ids and positions have no common order")
    return coordinates
