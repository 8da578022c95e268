"""Received messages."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from mqplug._model.errors import InvalidTimestamp
from mqplug._model.position import from_milliseconds

Headers = tuple[tuple[str, bytes | None], ...]
"""Pairs of a name and bytes or None, in order; names may repeat."""


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Protocol

    import pyarrow

    from mqplug._model.id_text import Numbers
    from mqplug._model.ids import MessageId
    from mqplug._model.log import Log

    class Rows(Protocol):
        """The columns of a batch, of which a message is a row. A batch, as its messages know it."""

        delivery: Any

        @property
        def log(self) -> Log: ...
        @property
        def coordinates(self) -> Sequence[Numbers]: ...
        @property
        def details(self) -> Sequence[Numbers]: ...
        @property
        def keys(self) -> Sequence[bytes | None]: ...
        @property
        def values(self) -> Sequence[bytes | None]: ...
        @property
        def headers(self) -> Sequence[Headers]: ...
        @property
        def timestamps(self) -> Sequence[int]: ...
        @property
        def log_times(self) -> Sequence[int]: ...
        @property
        def attempts(self) -> Sequence[int]: ...
        def __len__(self) -> int: ...
        def id(self, index: int) -> MessageId: ...
        def row(self, index: int) -> Rows: ...
        def arrow_columns(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]: ...

    _Base = object  # for type checkers: the tuple is an implementation detail
else:
    _Base = tuple
    _Row = namedtuple("_Row", ("batch", "index", "value"))
    _Row.value.__doc__ = "The payload; None is a tombstone."


class Message(_Base):
    """One received message: a lightweight, immutable view of a row of its batch.

    It is implemented as a tuple, so old-style formatting needs ``"%s" % (message,)``; f-strings and logging do not.
    """

    # A tuple is filled and read without Python code, and its fields cannot be set. To users it is not a sequence.
    __slots__ = ()
    __iter__ = __contains__ = __getitem__ = None
    __lt__ = __le__ = __gt__ = __ge__ = None
    __ne__ = object.__ne__

    if TYPE_CHECKING:
        _batch: Rows
        _index: int

        def __init__(self, row: tuple[Rows, int] | tuple[Rows, int, bytes | None]) -> None: ...

        @property
        def value(self) -> bytes | None:
            """The payload; None is a tombstone."""

    else:
        _batch, _index, value = _Row.batch, _Row.index, _Row.value

    @property
    def id(self) -> MessageId:
        """The id, which names this message forever."""
        return self._batch.id(self._index)

    @property
    def topic(self) -> str:
        """The topic from which it was read."""
        return self._batch.log.topic

    @property
    def partition(self) -> int:
        """The partition from which it was read."""
        return self._batch.log.partition

    @property
    def key(self) -> bytes | None:
        """The key, or None; an empty key is not None."""
        return self._batch.keys[self._index]

    @property
    def headers(self) -> Headers:
        """Pairs of name and value, in the order in which they were sent."""
        return self._batch.headers[self._index]

    @property
    def timestamp(self) -> datetime:
        """The time of the message, in UTC: the producer's if it set one, otherwise the log's.

        Raises ``InvalidTimestamp`` for a time outside the years 1 to 9999, which another library's producer may set.
        """
        return self._moment(self._batch.timestamps[self._index])

    @property
    def log_time(self) -> datetime:
        """The time that ``at_time`` searches, in UTC. Raises ``InvalidTimestamp`` as ``timestamp`` does."""
        return self._moment(self._batch.log_times[self._index])

    @property
    def attempt(self) -> int:
        """The number of this delivery; 1 for the first one that this consumer knows of."""
        return self._batch.attempts[self._index]

    def _moment(self, milliseconds: int) -> datetime:
        try:
            return from_milliseconds(milliseconds)
        except OverflowError:
            raise InvalidTimestamp(
                f"{self!r} has a time of {milliseconds} ms since 1970, which is outside the years 1 to 9999",
                milliseconds=milliseconds,
                topic=self.topic,
            ) from None

    def __repr__(self) -> str:
        log, value = self._batch.log, self.value
        size = "tombstone" if value is None else f"{len(value)} bytes"
        where = ":".join(map(str, self._batch.coordinates[self._index]))
        return f"Message({log.backend} {log.topic}[{log.partition}] {where}, {size})"

    def __eq__(self, other: object) -> bool:
        """Return whether the ids and the contents are equal."""
        if not isinstance(other, Message):
            return NotImplemented
        return self.id == other.id and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self.id)

    def _content(self) -> tuple[Any, ...]:
        return self.key, self.value, self.headers, self._batch.timestamps[self._index]

    def __reduce__(self) -> tuple[Any, ...]:
        return _alone, (self._batch.row(self._index),)


class UnreadMessage(Message):
    """A message whose value is decoded on first read, with all values of its batch."""

    __slots__ = ()

    @property
    def value(self) -> bytes | None:
        return self._batch.values[self._index]


def messages_of(batch: Rows, holders: Iterable[Rows], rows: Iterable[int]) -> Iterator[Message]:
    """Return the messages of these rows, for as many as there are ``holders``, each of which is the batch."""
    try:
        return map(Message, zip(holders, rows, batch.values, strict=False))
    except Exception:  # noqa: BLE001 - an error in decoding is raised when a value is read
        return map(UnreadMessage, zip(holders, rows, strict=False))


def _alone(batch: Rows) -> Message:
    return UnreadMessage((batch, 0))
