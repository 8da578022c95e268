"""The driver interface's types, errors and batches for the socket: values as JSON, messages as pages.

Each JSON value has its type's name in front. Only the types listed here are created from received JSON. Nothing is
pickled. Whole pages are sent as they are stored, other messages as a page of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs

import mqplug
from mqplug import Batch, Bounds, ConnectError, Corrupt, Error, Log, MessageId, PluginError, Position, Watermarks, spi
from mqplug.spi import Headers, Numbers
from mqplug_rocksmq._driver.batches import PageBatch
from mqplug_rocksmq._driver.translation import position_at
from mqplug_rocksmq._format.page import Page, PageColumns, encode_page
from mqplug_rocksmq._format.slices import Slice
from mqplug_rocksmq._processes.frames import FrameHeader

_RECORDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        spi.AddPartitions, spi.AlterTopic, spi.AtTime, spi.ConsumerOptions, spi.CreateTopic, spi.DeleteGroup,
        spi.DeleteTopic, spi.DescribeGroup, spi.DescribeGroupMembers, spi.DescribeTopic, spi.DescribeTopics,
        spi.DiscardStaged, spi.Earliest, spi.GroupDescription, spi.GroupInfo, spi.GroupMember, spi.GroupPosition,
        spi.Ingest, spi.Ingested, spi.Last, spi.Latest, spi.ListGroups,
        spi.ListTopics, spi.Settlement, spi.Staged, spi.TopicInfo,
        spi.TransactionMark, spi.Trim,
        Bounds, Watermarks,
    )
}  # fmt: skip
_FIELDS: Final = {name: tuple(field.name for field in attrs.fields(kind)) for name, kind in _RECORDS.items()}
_PLAIN: Final = frozenset({bool, int, float, str, type(None)})
_ERROR_FIELDS: Final = ("message", "fix", "backend", "topic", "operation", "retryable", "log", "low", "capability")
_MAX_PAGE_EXCESS = 4  # a page is sent whole if at least one in four of its messages is wanted


def to_wire(value: Any) -> Any:
    """Return a value as JSON. Raise ``TypeError`` for types that cannot be sent over the socket."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return [kind.__name__, *map(to_wire, value)]
    if kind is Log:
        return _log_words(value)
    if kind is Position:
        return ["position", to_wire(value.log), *value.coordinates]
    if kind is MessageId:
        return ["id", to_wire(value.log), *value.coordinates]
    if _RECORDS.get(kind.__name__) is kind:
        return [kind.__name__, *[to_wire(getattr(value, name)) for name in _FIELDS[kind.__name__]]]
    if isinstance(value, Mapping):
        return ["map", *([to_wire(key), to_wire(each)] for key, each in value.items())]
    raise TypeError(f"{kind.__name__} does not cross the socket")


def from_wire(words: Any) -> Any:
    """Return the value that was sent as *words*. Raise ``ValueError`` if they are not a valid value."""
    if type(words) in _PLAIN:
        return words
    try:
        kind, *rest = words
        return _made(kind, rest)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"not understood: {str(words)[:100]}") from error


def _made(kind: str, rest: list[Any]) -> Any:
    if maker := _MAKERS.get(kind):
        return maker(rest)
    return _RECORDS[kind](**{name: from_wire(field) for name, field in zip(_FIELDS[kind], rest, strict=True)})


@lru_cache(maxsize=4096)
def _log_words(log: Log) -> list[Any]:
    return ["log", log.backend, log.cluster, log.topic, log.partition, log.incarnation]


def _log(rest: list[Any]) -> Log:
    if [*map(type, rest)] != [str, str, str, int, str]:
        raise TypeError("not a log")
    return _known_log(*rest)


_known_log = lru_cache(maxsize=4096)(Log)


def _place(kind: Callable[[Log, tuple[int, ...]], Any]) -> Callable[[list[Any]], Any]:
    def make(rest: list[Any]) -> Any:
        log, *coordinates = rest
        if {*map(type, coordinates)} != {int}:
            raise TypeError("coordinates are numbers")
        return kind(_log(log[1:]), tuple(coordinates))

    return make


_MAKERS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "tuple": lambda rest: tuple(map(from_wire, rest)),
    "list": lambda rest: [*map(from_wire, rest)],
    "map": lambda rest: {from_wire(key): from_wire(each) for key, each in rest},
    "log": _log,
    "position": _place(Position),
    "id": _place(MessageId),
}


def error_to_wire(error: Exception) -> dict[str, Any]:
    """Return an error as JSON, for the other side to raise."""
    if isinstance(error, Error):
        known = {name: getattr(error, name) for name in _ERROR_FIELDS if hasattr(error, name)}
        return {"kind": type(error).__name__, **{name: to_wire(each) for name, each in known.items()}}
    if type(error) in {TypeError, ValueError}:
        return {"kind": type(error).__name__, "message": str(error)}
    return {"kind": PluginError.__name__, "message": f"the owner process of the store failed: {error!r}"}


def error_from_wire(words: Mapping[str, Any]) -> Exception:
    """Return the error that was sent as *words*."""
    name, message = str(words.get("kind")), str(words.get("message"))
    if name in {"TypeError", "ValueError"}:
        return TypeError(message) if name == "TypeError" else ValueError(message)
    kind = getattr(mqplug, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Error)):
        kind = ConnectError
    error = kind.__new__(kind, message)
    Error.__init__(error, message)  # its other fields are among the words
    for field in _ERROR_FIELDS:
        if field in words:
            setattr(error, field, from_wire(words[field]))
    return error


def pack_batches(batches: Iterable[Batch], *, attempts: bool) -> tuple[list[FrameHeader], list[bytes]]:
    """Return batches as headers, and the pages that they refer to. *attempts*: include each message's attempt."""
    headers: list[FrameHeader] = []
    pages: list[bytes] = []
    for batch in batches:
        if isinstance(batch, PageBatch) and not attempts and _whole(batch.slices):
            headers.append(_as_stored(batch, pages))
        else:
            headers.append(_encoded(batch, pages, attempts=attempts))
    return headers, pages


def _whole(slices: Sequence[Slice]) -> bool:
    return all(len(part) * _MAX_PAGE_EXCESS >= part.page.count for part in slices)


def _as_stored(batch: PageBatch, pages: list[bytes]) -> FrameHeader:
    found = [bytes(part.as_page().raw) for part in batch.slices]  # no copies: in an owner, pages are bytes
    slices = [(part.base, part.start, part.stop, len(raw)) for part, raw in zip(batch.slices, found, strict=True)]
    pages += found
    return {"log": to_wire(batch.log), "slices": slices}


def _encoded(batch: Batch, pages: list[bytes], *, attempts: bool) -> FrameHeader:
    header: FrameHeader = {"log": to_wire(batch.log), "next": batch.next_position.coordinates[0]}
    if not len(batch):
        return header
    page = encode_page(PageColumns(batch.timestamps, batch.values, batch.keys, batch.headers)).seal(0)
    pages.append(page)
    header |= {"length": len(page), "offsets": [each[0] for each in batch.coordinates]}
    return header | {"attempts": list(batch.attempts)} if attempts else header


def unpack_batches(headers: Sequence[FrameHeader], body: bytes | memoryview) -> list[Batch]:
    """Return the sent batches. Raise ``Corrupt`` if a page was changed in transit."""
    batches: list[Batch] = []
    at = 0
    for header in headers:
        log = from_wire(header["log"])
        if "slices" in header:
            slices = []
            for base, start, stop, length in header["slices"]:
                slices.append(Slice(base, Page(body[at : at + length]), start, stop))
                at += length
            batches.append(PageBatch(log, slices))
        else:
            length = header.get("length", 0)
            batches.append(_decoded(log, header, body[at : at + length]))
            at += length
    return batches


def _decoded(log: Log, header: FrameHeader, raw: bytes | memoryview) -> Batch:
    offsets: list[int] = header.get("offsets", [])
    following = position_at(log, header["next"])
    page = Page(raw) if raw else None
    if page is not None and page.count != len(offsets):
        raise Corrupt(f"a batch has {page.count} messages, but {len(offsets)} ids")
    return Batch(log, following, len(offsets), PickedColumns(page, offsets, header.get("attempts")))


class PickedColumns:
    """The columns of a page whose messages have these offsets."""

    __slots__ = ("_attempts", "_offsets", "_page")

    def __init__(self, page: Page | None, offsets: list[int], attempts: list[int] | None) -> None:
        self._page = page
        self._offsets = offsets
        self._attempts = attempts

    def coordinates(self) -> Sequence[Numbers]:
        return [(offset,) for offset in self._offsets]

    def details(self) -> None:
        return None

    def keys(self) -> Sequence[bytes | None]:
        return self._page.keys() if self._page else []

    def values(self) -> Sequence[bytes | None]:
        return self._page.values() if self._page else []

    def headers(self) -> Sequence[Headers]:
        return (self._page.headers() or [()] * self._page.count) if self._page else []

    def timestamps(self) -> Sequence[int]:
        return self._page.times() if self._page else []

    def log_times(self) -> Sequence[int]:
        return self.timestamps()

    def attempts(self) -> list[int] | None:
        return self._attempts
