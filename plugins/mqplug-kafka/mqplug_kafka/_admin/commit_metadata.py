"""Single acks as text in the metadata of a commit: ``mqplug1:3+5`` skips 3 offsets, then 5 are acked."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

MAX_METADATA_BYTES = 4096  # the broker's default for offset.metadata.max.bytes
MAX_RANGES = 200
"""A number of ranges that always fits if all lie within ``MAX_SPAN_OFFSETS`` of the position, at any lengths."""
MAX_SPAN_OFFSETS = 2**36
METADATA_PREFIX = "mqplug1:"
_RUN = r"\d{1,19}\+[1-9]\d{0,18}"  # offsets have up to 19 digits, and no range is empty
_RUNS = re.compile(f"{METADATA_PREFIX}({_RUN}(?:,{_RUN})*)", re.ASCII)
_log = logging.getLogger("mqplug.kafka")

Ranges = Sequence[tuple[Sequence[int], Sequence[int]]]


def pack_acked(offset: int, acked: Ranges) -> str:
    """Return acked ranges as text, nearest first. Ranges that do not fit are logged, and are delivered again."""
    text, separator, position = "", METADATA_PREFIX, offset
    for number, ((first, *_), (last, *_)) in enumerate(acked):
        run = f"{separator}{first - offset}+{last - first + 1}"
        if len(text) + len(run) > MAX_METADATA_BYTES:
            _log.warning(
                "commit at offset %d: %d of %d acked ranges exceed %d bytes of metadata and will be delivered again",
                position, len(acked) - number, len(acked), MAX_METADATA_BYTES,
            )  # fmt: skip
            break
        text, separator, offset = text + run, ",", last + 1
    return text


AckedRanges = tuple[tuple[tuple[int], tuple[int]], ...]


def cut_acked(acked: AckedRanges, high: int) -> AckedRanges:
    """Return the parts of the ranges before the end of the log: nothing after it can have been acked."""
    return tuple((first, (min(last[0], high - 1),)) for first, last in acked if first[0] < high)


def unpack_acked(offset: int, metadata: str | None) -> AckedRanges:
    """Return the acked ranges; none if another program wrote the metadata."""
    found = _RUNS.fullmatch(metadata or "")
    ranges = []
    for run in found[1].split(",") if found else ():
        skip, length = map(int, run.split("+"))
        first, offset = offset + skip, offset + skip + length
        ranges.append(((first,), (offset - 1,)))
    return tuple(ranges)
