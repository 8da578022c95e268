"""Notes about a group, as texts of its subscription's properties, and back.

A broker does not report acks inside a batch, and forgets them when it unloads the topic. Their text names the entry up
to which all was acked at the time, and each batch with a mask of its acked messages: ``5:2;5:3=1d;5:9=4``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

import attrs

from mqplug.spi import Numbers

Entry = tuple[int, int]  # ledger and number
Skipped = tuple[Numbers, Numbers]
"""The range that a group skips: from the end of the log at the time to a position beyond it."""

BATCH_ACKS_PROPERTY = "mqplug.acks"  # acks of partly acked batches
ATTEMPTS_PROPERTY = "mqplug.attempts"  # how often messages with overdue acks were handed out
BEYOND_PROPERTY = "mqplug.beyond"  # a group's position beyond the end, and the end at that time
SEEK_PROPERTY = "mqplug.seek"  # a new text for each seek
POSITION_PROPERTIES = {ATTEMPTS_PROPERTY, BATCH_ACKS_PROPERTY, BEYOND_PROPERTY}
"""Notes that are true only until the group is moved."""

MAX_TEXT = 64 * 1024
MAX_ATTEMPTS = 500  # messages that are noted
NOTHING_ACKED: Entry = (-1, -1)
_BEYOND = re.compile(r"(\d+):(\d+)\.\.(\d+):(\d+):(-?\d+)")


@attrs.frozen
class BatchAcks:
    """A mask for each batch: bit n says that message n is acked."""

    masks: Mapping[Entry, int] = attrs.field(factory=dict)
    mark: Entry = NOTHING_ACKED
    """The entry up to which the group had acked everything. If it is further back now, the group was moved."""

    @classmethod
    def parse(cls, text: str) -> BatchAcks:
        """Read the text. A text in another form, which another program wrote, means no acks."""
        with suppress(ValueError):
            first, *others = text.split(";")
            pairs = (each.split("=") for each in others)
            return cls({_entry(entry): int(mask, 16) for entry, mask in pairs}, _entry(first))
        return cls()

    def text(self) -> str:
        """Write the text, without the last batches if it would become too long: these are redelivered whole."""
        text = _name(self.mark)
        for entry, mask in sorted(self.masks.items()):
            if len(text) > MAX_TEXT:
                break
            text += f";{_name(entry)}={mask:x}"
        return text

    def joined(self, masks: Mapping[Entry, int]) -> BatchAcks:
        """Return these acks combined with others."""
        both = dict(self.masks)
        for entry, mask in masks.items():
            both[entry] = both.get(entry, 0) | mask
        return attrs.evolve(self, masks=both)

    def after(self, mark: Entry) -> BatchAcks:
        """Return the acks of batches after a mark."""
        return BatchAcks({entry: mask for entry, mask in self.masks.items() if entry > mark}, mark)

    def ranges(self) -> list[tuple[Numbers, Numbers]]:
        """Return the first and the last coordinates of each run of acked messages."""
        runs = ((entry, run) for entry, mask in sorted(self.masks.items()) for run in _runs(mask))
        return [((*entry, first), (*entry, last)) for entry, (first, last) in runs]


def in_mask(masks: Mapping[Entry, int], place: Numbers) -> bool:
    """Return whether the masks say that the message of a batch is acked."""
    return place[2] >= 0 and bool(masks.get((place[0], place[1]), 0) >> place[2] & 1)


def _runs(mask: int) -> Iterable[tuple[int, int]]:
    """Return the first and the last bit of each run of set bits."""
    at = 0
    while mask >> at:
        rest = mask >> at
        at += (rest & -rest).bit_length() - 1
        rest = mask >> at
        length = (~rest & (rest + 1)).bit_length() - 1
        yield at, at + length - 1
        at += length


def _name(entry: Entry) -> str:
    return f"{entry[0]}:{entry[1]}"


def _entry(text: str) -> Entry:
    ledger, number = text.split(":")
    return int(ledger), int(number)


def skipped_to_text(skipped: Skipped) -> str:
    """Return the text of a position beyond the end: ``5:9..7:0:-1``."""
    (ledger, entry, *_), beyond = skipped
    return f"{ledger}:{entry}..{':'.join(map(str, beyond[:3]))}"


def skipped_from_text(text: str) -> Skipped | None:
    """Return the range that the group skips according to a text; None from any other text."""
    noted = _BEYOND.fullmatch(text)
    if noted is None:
        return None
    ledger, entry, *beyond = map(int, noted.groups())
    return (ledger, entry, -1), tuple(beyond)


def attempts_to_text(attempts: Mapping[Numbers, int]) -> str:
    """Return the text of attempts, only of the last messages: ``5:3:0=2;5:9:-1=4``."""
    return ";".join(f"{':'.join(map(str, at))}={attempts[at]}" for at in sorted(attempts)[-MAX_ATTEMPTS:])


def attempts_from_text(text: str) -> dict[Numbers, int]:
    """Return how often each message was handed out."""
    found: dict[Numbers, int] = {}
    for each in filter(None, text.split(";")):
        place, _, count = each.partition("=")
        found[tuple(map(int, place.split(":")))] = int(count)
    return found
