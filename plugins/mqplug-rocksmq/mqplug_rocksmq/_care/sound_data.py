"""Finds which data of a store is sound: a survey, which reads everything once.

Sound data goes to a sink, defects go to a report. A check is a survey without a sink, a repair one whose sink writes a
new database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from mqplug_rocksmq._care.damage import SurveyReport, UnreadableKeys, read_around_damage
from mqplug_rocksmq._care.page_chain import PageChain, ingested_pages
from mqplug_rocksmq._care.small_values import LogName, SmallValues
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._engine.witness import WitnessRecord
from mqplug_rocksmq._format.keys import PAGE_KEY_BYTES, StoredPosition, page_key, read_page_key
from mqplug_rocksmq._store.topics import Topic, TopicRetention


class SoundDataSink(Protocol):
    """Receives sound data: the pages of a log, then its record; positions of groups, then everything else."""

    def page(self, log: int, base: int, raw: bytes) -> None: ...

    def log(self, log: int, chain: PageChain) -> None: ...

    def place(self, log: int, group: str, place: StoredPosition) -> None: ...

    def rest(self, contents: SmallValues) -> None: ...


def survey(
    pages: Pages, recorded: WitnessRecord | None, report: SurveyReport, sink: SoundDataSink | None = None
) -> None:
    """Read everything once. Pass sound data to *sink*, and add findings to *report*."""
    contents = SmallValues.read(pages, report)
    _compare(contents, recorded, report)
    doubtful = not report.sound
    for log, stored in _by_log(pages, contents, report):
        if log in contents.ingested_runs:
            stored = merge(stored, ingested_pages(pages, contents.ingested_runs[log], report), key=itemgetter(0))  # noqa: PLW2901
        _survey_log(log, stored, contents, report, sink, doubtful=doubtful)
    _check_groups(contents, report, sink)
    report.topics = len(contents.topics)
    if sink:
        sink.rest(contents)
    report.store = contents.store


def _compare(contents: SmallValues, recorded: WitnessRecord | None, report: SurveyReport) -> None:
    if contents.store is None:
        report.add("the id of the store is missing")
    if recorded is None:
        report.add("the witness, which records how much is on disk, is missing or damaged")
    elif recorded.changes > contents.changes:
        report.add(f"{recorded.changes - contents.changes} changes that were safely on disk are gone")
    if contents.counter <= max([*contents.owners, *contents.records, *contents.segments], default=-1):
        report.add("the number of the next log is already in use")


def _by_log(
    pages: Pages, contents: SmallValues, report: SurveyReport
) -> Iterator[tuple[int, Iterator[tuple[int, bytes]]]]:
    """Yield each known log, and each log that has pages, with the pages of its own segment."""
    ahead = iter(sorted({*contents.owners, *contents.records, *contents.ingested_runs}))
    number = next(ahead, None)
    for log, stored in groupby(_readable(pages, report, contents.segments), lambda page: page[0]):
        while number is not None and number < log:
            yield number, iter(())
            number = next(ahead, None)
        if number == log:
            number = next(ahead, None)
        yield log, ((base, raw) for _, base, raw in stored)
    while number is not None:
        yield number, iter(())
        number = next(ahead, None)


def _readable(pages: Pages, report: SurveyReport, left_out: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yield all readable pages, except those of the segments *left_out*."""

    def onward(key: bytes) -> bytes:
        segment = int.from_bytes(key[:4], "big")
        return page_key(segment + 1, 0) if segment in left_out else key

    for each in read_around_damage(pages, "data", onward=onward):
        if isinstance(each, UnreadableKeys):
            report.add(f"pages cannot be read: {each.error.message}")
        elif len(each[0]) != PAGE_KEY_BYTES:
            report.add(f"the key of a page cannot be understood: {each[0]!r}")
        elif (place := read_page_key(each[0]))[0] not in left_out:
            yield *place, each[1]


def _survey_log(
    log: int,
    stored: Iterator[tuple[int, bytes]],
    contents: SmallValues,
    report: SurveyReport,
    sink: SoundDataSink | None,
    *,
    doubtful: bool,
) -> None:
    owner = contents.owners.get(log) or _adopt(log, contents, report)
    record, marks = contents.records.get(log), contents.marks.get(log, {})
    chain = PageChain(owner.topic, owner.partition, record, marks, doubtful=doubtful)
    for base, raw in stored:
        kept = chain.take(base, raw)
        if sink and kept is not None:
            sink.page(log, base, kept)
    chain.finish()
    report.findings += chain.findings
    report.pages += chain.pages
    report.messages += chain.messages
    contents.records[log] = chain.record
    if sink:
        sink.log(log, chain)


def _adopt(log: int, contents: SmallValues, report: SurveyReport) -> LogName:
    """Create a topic for a log that has none."""
    owner = contents.owners[log] = LogName(f"recovered-{log}", 0)
    report.add("these messages belong to no topic", owner.topic, 0)
    contents.topics[owner.topic] = Topic(owner.topic, (log,), TopicRetention(None))
    return owner


def _check_groups(contents: SmallValues, report: SurveyReport, sink: SoundDataSink | None) -> None:
    groups = set()
    for log, places in contents.places.items():
        for group, place in places.items():
            owner = contents.owners.get(log)
            if owner is None:
                report.add(f"the group {group!r} has a position in a log that does not exist")
                continue
            groups.add(group)
            if what := _wrong(place, contents.records[log].next):
                report.add(f"the position of the group {group!r} {what}", *owner)
                place = StoredPosition(min(place.offset, contents.records[log].next))  # noqa: PLW2901
            if sink:
                sink.place(log, group, place)
    report.groups = len(groups)


def _wrong(place: StoredPosition, following: int) -> str | None:
    if place.offset > following:
        return f"is {place.offset}, after all messages ever stored"
    edges = [place.offset, *(edge for acked in place.acked for edge in acked)]
    if edges != sorted(edges) or edges[-1] > following:
        return "has acked ranges that contradict each other"
    return None
