"""Runs of messages of one entry, found without a look at each message's id.

An id costs as much as the message: a native object, and a call for each of its numbers. A batch tells how many messages
it has, and a reader receives those of an entry in order: it may go back when it connects again, but it never skips one.
So if the first and the last message of a run lie as far apart as the run is long, all between follow each other. This
does not hold for the member of a group, which is not sent what is acked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import attrs

from mqplug.spi import Numbers
from mqplug_pulsar._format import message_ids


@attrs.frozen
class EntryRun:
    """Messages of one entry that follow each other. A message without a batch is a run of its own."""

    first: Numbers
    """The coordinates of the first message."""
    detail: Numbers
    """What all their ids have as detail."""
    size: int

    @property
    def behind(self) -> Numbers:
        """The position behind the last message."""
        return message_ids.position_behind(_plus(self.first, self.size - 1), self.detail)

    def coordinates(self) -> Sequence[Numbers]:
        """Return the coordinates of each message."""
        if self.size == 1:
            return (self.first,)
        ledger, entry, index = self.first
        return list(zip(repeat(ledger), repeat(entry), range(index, index + self.size), strict=False))


def entry_runs(messages: Sequence[Any]) -> list[EntryRun]:
    """Return the runs of the messages that a native reader received, in order."""
    runs = []
    row = 0
    while row < len(messages):
        native = messages[row].message_id()
        first, detail = message_ids.coordinates(native), message_ids.detail(native)
        size = min(detail[0] - first[2], len(messages) - row) if detail else 1
        if size > 1 and message_ids.coordinates(messages[row + size - 1].message_id()) != _plus(first, size - 1):
            size = 1
        runs.append(EntryRun(first, detail, size))
        row += size
    return runs


def _plus(place: Numbers, messages: int) -> Numbers:
    return (*place[:2], place[2] + messages, *place[3:])
