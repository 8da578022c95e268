"""What the owner of a store answers to other processes: each request is one read-only call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mqplug import Error
from mqplug_rocksmq._frames import Header, pack
from mqplug_rocksmq._reading import Trimmed
from mqplug_rocksmq._store import Store

MAX_BYTES: Final = 16 << 20
Answer = tuple[Header, bytes]


def answer(store: Store, request: Header) -> bytes:
    """Return the frame that answers a request; what goes wrong is an answer too."""
    try:
        return pack(*_CALLS[request["call"]](store, request))
    except Trimmed as trimmed:
        return pack({"trimmed": trimmed.low})
    except Error as error:
        return pack(refusal(error))
    except (KeyError, TypeError, ValueError) as error:
        return pack({"error": "ConnectError", "message": f"a request was not understood: {error!r}"})


def news(store: Store, offsets: Mapping[int, int], request: Header) -> bytes | None:
    """Return the frame that ends a wait if there is more to read; it brings the first messages along."""
    extents = store.watermarks(list(offsets))
    for (log, offset), extent in zip(offsets.items(), extents, strict=True):
        if extent.high > offset:
            try:
                header, body = _read(store, {**request, "log": log, "offset": offset})
            except Trimmed:
                return pack({"more": True})
            return pack({"more": True, "log": log, "offset": offset, **header}, body)
    return None


def refusal(error: Error) -> Header:
    """Return an error as it is sent."""
    return {"error": type(error).__name__, "message": error.message, "fix": error.fix, "topic": error.topic}


def _hello(store: Store, _: Header) -> Answer:
    return {"id": store.id}, b""


def _names(store: Store, _: Header) -> Answer:
    return {"names": store.topics.names()}, b""


def _topic(store: Store, request: Header) -> Answer:
    topic = store.topics.get(request["name"])
    kept = {"milliseconds": topic.retention.milliseconds, "size": topic.retention.size}
    return {"logs": topic.logs, "retention": kept}, b""


def _watermarks(store: Store, request: Header) -> Answer:
    return {"watermarks": store.watermarks(request["logs"])}, b""


def _bounds(store: Store, request: Header) -> Answer:
    return {"bounds": store.bounds(request["log"])}, b""


def _first_at(store: Store, request: Header) -> Answer:
    return {"offset": store.first_at(request["log"], request["time"])}, b""


def _nth_last(store: Store, request: Header) -> Answer:
    return {"offset": store.nth_last(request["log"], request["count"])}, b""


def _read(store: Store, request: Header) -> Answer:
    room = min(request["bytes"], MAX_BYTES)
    slices = store.read(request["log"], request["offset"], request["messages"], room)
    places = [(part.base, part.start, part.stop, len(part.page.raw)) for part in slices]
    return {"pages": places}, b"".join(part.page.raw for part in slices)


def _groups(store: Store, request: Header) -> Answer:
    return {"names": store.groups.names(request["log"])}, b""


def _place(store: Store, request: Header) -> Answer:
    return {"place": store.groups.place(request["group"], request["log"])}, b""


_CALLS: dict[str, Callable[[Store, Header], Any]] = {
    "hello": _hello,
    "names": _names,
    "topic": _topic,
    "watermarks": _watermarks,
    "bounds": _bounds,
    "first_at": _first_at,
    "nth_last": _nth_last,
    "read": _read,
    "groups": _groups,
    "place": _place,
}
