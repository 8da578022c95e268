"""Batches for the socket: whole pages as they are stored, other messages as a page of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mqplug import Batch, Corrupt, Log
from mqplug.spi import Headers, Numbers
from mqplug_rocksmq._driver.batches import PageBatch
from mqplug_rocksmq._driver.translation import position_at
from mqplug_rocksmq._format.page import Page, PageColumns, encode_page
from mqplug_rocksmq._format.slices import Slice
from mqplug_rocksmq._processes.codec import from_wire, to_wire
from mqplug_rocksmq._processes.frames import FrameHeader

_MAX_PAGE_EXCESS = 4  # a page is sent whole if at least one in four of its messages is wanted


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
    found = [bytes(part.as_page().raw) for part in batch.slices]  # of an owner: they are bytes
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
    """Return the batches that were sent. Raise ``Corrupt`` if a page was changed on its way."""
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
    behind = position_at(log, header["next"])
    page = Page(raw) if raw else None
    if page is not None and page.count != len(offsets):
        raise Corrupt(f"a batch has {page.count} messages, but {len(offsets)} ids")
    return Batch(log, behind, len(offsets), PickedColumns(page, offsets, header.get("attempts")))


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
