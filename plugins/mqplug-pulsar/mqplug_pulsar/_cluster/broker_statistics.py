"""Reads the broker's internal statistics: the ledgers of a log, and the cursor and acks of a group."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any
from urllib.parse import quote

import attrs

from mqplug.spi import Numbers
from mqplug_pulsar._format.note_texts import (
    BATCH_ACKS_PROPERTY,
    BEYOND_PROPERTY,
    BatchAcks,
    Entry,
    Skipped,
    skipped_from_text,
)

_FIRST = itemgetter(0)
_RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


@attrs.frozen
class Ledgers:
    """The non-empty ledgers of one log, as (number, entries), and the log's first and end position."""

    filled: tuple[tuple[int, int], ...]
    low: Numbers
    high: Numbers

    @classmethod
    def read(cls, stats: Mapping[str, Any]) -> Ledgers:
        """Read the broker's answer. Only the last confirmed entry counts the entries of the open ledger."""
        last_ledger, last_entry = (int(number) for number in stats["lastConfirmedEntry"].split(":"))
        table = {int(each["ledgerId"]): int(each["entries"]) for each in stats["ledgers"]}
        if last_ledger in table:
            table[last_ledger] = max(table[last_ledger], last_entry + 1)
        filled = tuple((ledger, entries) for ledger, entries in sorted(table.items()) if entries > 0)
        if not filled:
            end = max((min(table, default=0), 0), (last_ledger, last_entry + 1))
            return cls((), (*end, -1), (*end, -1))
        return cls(filled, (filled[0][0], 0, -1), (*filled[-1], -1))

    def entries_from(self, position: Numbers) -> int:
        """Return the number of entries after a position."""
        ledger, entry = position[:2]
        return sum(
            entries if number > ledger else max(0, entries - entry)
            for number, entries in self.filled
            if number >= ledger
        )

    def entry_at(self, ledger: int, entry: int) -> tuple[int, int]:
        """Return this entry, or the first one of the next ledger if it is past the last one of a closed ledger."""
        if entry < dict(self.filled).get(ledger, 0):
            return (ledger, entry)
        later = (number for number, _ in self.filled if number > ledger)
        return next(((number, 0) for number in later), (ledger, entry))

    def back(self, entries: int) -> Numbers:
        """Return the position ``entries`` entries before the end, or ``low`` if there are fewer."""
        for ledger, there in reversed(self.filled):
            if entries <= there:
                return (ledger, there - entries, -1)
            entries -= there
        return self.low


@attrs.frozen
class Cursor:
    """A group's position on one log: all entries up to the mark and in the ranges are acked."""

    mark: Entry
    next: Entry  # the first after the mark
    ranges: tuple[tuple[Entry, Entry], ...]  # (first, last) entries
    properties: Mapping[str, str]
    ledgers: Ledgers

    @classmethod
    def read(cls, cursor: Mapping[str, Any], properties: Mapping[str, str], ledgers: Ledgers) -> Cursor:
        """Read the broker's answers about the cursor and the subscription's properties."""
        ledger, entry = _mark(cursor)
        ranges = [tuple(map(int, match)) for match in _RANGE.findall(cursor.get("individuallyDeletedMessages", ""))]
        acked = tuple(((a, b + 1), (c, d)) for a, b, c, d in ranges)
        return cls((ledger, entry), ledgers.entry_at(ledger, entry + 1), acked, properties, ledgers)

    def has_acked(self, entry: Entry) -> bool:
        """Return whether a whole entry is acked."""
        index = bisect_right(self.ranges, entry, key=_FIRST)
        return entry <= self.mark or (index > 0 and entry <= self.ranges[index - 1][1])

    def next_unacked(self, entry: Entry) -> Entry:
        """Return the first entry that is not fully acked, beginning with this one."""
        found = self.ledgers.entry_at(*max(entry, self.next))
        while (index := bisect_right(self.ranges, found, key=_FIRST)) and found <= self.ranges[index - 1][1]:
            ledger, last = self.ranges[index - 1][1]
            found = self.ledgers.entry_at(ledger, last + 1)
        return found

    @property
    def acks(self) -> BatchAcks:
        """The acks of partly acked batches."""
        acks = BatchAcks.parse(self.properties.get(BATCH_ACKS_PROPERTY, ""))
        return acks.after(self.mark) if acks.mark <= self.mark else BatchAcks()

    @property
    def skipped(self) -> Skipped | None:
        """The range that the group skips because it was moved beyond the end, where the broker keeps no position.

        None if it was not moved there, has reached that position, or was moved elsewhere since.
        """
        noted = skipped_from_text(self.properties.get(BEYOND_PROPERTY, ""))
        if noted is None:
            return None
        end, beyond = noted
        after_mark = (self.mark[0], self.mark[1] + 1)
        return noted if end[:2] <= max(after_mark, self.next) < beyond else None

    @property
    def position(self) -> Numbers:
        """The position after the mark; inside a batch or beyond the end if a note says so."""
        if self.skipped is not None:
            return self.skipped[1]
        acked = self.acks.masks.get(self.next, 0)
        if acked & 1:
            return (*self.next, (~acked & (acked + 1)).bit_length() - 1)
        return (self.mark[0], self.mark[1] + 1, -1)


@attrs.frozen
class AckProgress:
    """The progress of a group's acks at the broker."""

    cursor: Cursor | None
    written: tuple[int, int]
    """The ledger and entry where the broker last wrote the group's position."""
    consumed: int = 0
    """A counter of acked entries."""

    @classmethod
    def read(cls, internal: Mapping[str, Any], group: str) -> AckProgress:
        """Read the broker's internal statistics of the topic."""
        cursor = cursor_of_group(internal, group)
        if cursor is None:
            return cls(None, (-1, -1))
        written = (int(cursor.get("cursorLedger", -1)), int(cursor.get("cursorLedgerLastEntry", -1)))
        consumed = int(cursor.get("messagesConsumedCounter", 0))
        return cls(Cursor.read(cursor, {}, Ledgers.read(internal)), written, consumed)

    def left(self, entries: Collection[Entry]) -> list[Entry]:
        """Return the unacked ones of these entries."""
        return [entry for entry in entries if self.cursor is None or not self.cursor.has_acked(entry)]

    def written_after(self, before: AckProgress) -> bool:
        """Return whether the broker has written a position since. The first entry of a ledger repeats an older one."""
        return self.written > before.written and self.written[1] > 0


def cursor_of_group(internal: Mapping[str, Any], group: str) -> Mapping[str, Any] | None:
    """Return a group's cursor in the broker's internal statistics; None if there is no such group."""
    cursors = internal["cursors"]
    found: Mapping[str, Any] | None = cursors.get(group) or cursors.get(quote(group, safe=""))
    return found


def _mark(cursor: Mapping[str, Any]) -> Entry:
    ledger, entry = cursor["markDeletePosition"].split(":")
    return int(ledger), int(entry)
