"""The pages of ingested runs, resealed as pages of their log, which a repair makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mqplug import Corrupt
from mqplug_rocksmq._care.findings import SurveyReport
from mqplug_rocksmq._care.salvage import UnreadableKeys, read_around_damage
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._format.keys import IngestedRun, page_key, read_page_key
from mqplug_rocksmq._format.page import Page, reseal


def ingested_pages(pages: Pages, runs: Iterable[IngestedRun], report: SurveyReport) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of ingested runs with their offsets in the log, resealed for it."""
    for run in runs:
        start = page_key(run.segment, run.start)
        for each in read_around_damage(pages, "data", start, page_key(run.segment, run.start + run.messages)):
            if isinstance(each, UnreadableKeys):
                report.add(f"pages cannot be read: {each.error.message}")
            else:
                at = read_page_key(each[0])[1]
                yield run.base + at - run.start, _moved(each[1], run, at)


def _moved(raw: bytes, run: IngestedRun, at: int) -> bytes:
    try:
        before = Page(raw).before
    except Corrupt:
        return raw  # the survey finds that too
    return reseal(raw, run.before if at == run.start else before + run.base - run.start)
