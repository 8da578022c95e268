"""The pages of grafts as if they were their log's own: a repair makes them so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mqplug import Corrupt
from mqplug_rocksmq._care.findings import Report
from mqplug_rocksmq._care.salvage import Hole, sweep
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._format.keys import Graft, page_key, read_page_key
from mqplug_rocksmq._format.page import Page, reseal


def grafted(pages: Pages, grafts: Iterable[Graft], report: Report) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of grafts, with their offsets in the log, sealed as they would be there."""
    for graft in grafts:
        start = page_key(graft.segment, graft.start)
        for each in sweep(pages, "data", start, page_key(graft.segment, graft.start + graft.messages)):
            if isinstance(each, Hole):
                report.add(f"pages cannot be read: {each.error.message}")
            else:
                at = read_page_key(each[0])[1]
                yield graft.base + at - graft.start, _moved(each[1], graft, at)


def _moved(raw: bytes, graft: Graft, at: int) -> bytes:
    try:
        before = Page(raw).before
    except Corrupt:
        return raw  # whoever takes it finds that too
    return reseal(raw, graft.before if at == graft.start else before + graft.base - graft.start)
