"""Acks of single messages, as text in the metadata of a commit: ``mqplug1:3+5`` skips 3 offsets, then 5 are acked."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

MAX_METADATA_BYTES = 4096  # bytes of metadata that a broker takes by default: offset.metadata.max.bytes
MAX_RANGES = 200
"""So many ranges fit, whatever their lengths, as long as all lie within ``SPAN`` offsets of the position."""
MAX_SPAN_OFFSETS = 2**36
METADATA_PREFIX = "mqplug1:"
_RUNS = re.compile(rf"{METADATA_PREFIX}(\d+\+\d+(?:,\d+\+\d+)*)", re.ASCII)
_log = logging.getLogger("mqplug.kafka")

Ranges = Sequence[tuple[Sequence[int], Sequence[int]]]


def pack_acked(offset: int, acked: Ranges) -> str:
    """Acked ranges as text. The nearest come first; what does not fit is said in the log, and is delivered again."""
    text, separator = "", METADATA_PREFIX
    for number, ((first, *_), (last, *_)) in enumerate(acked):
        run = f"{separator}{first - offset}+{last - first + 1}"
        if len(text) + len(run) > MAX_METADATA_BYTES:
            _log.warning("%d of %d ranges of acks do not fit into a commit", len(acked) - number, len(acked))
            break
        text, separator, offset = text + run, ",", last + 1
    return text


def unpack_acked(offset: int, metadata: str | None) -> tuple[tuple[tuple[int], tuple[int]], ...]:
    """The acked ranges; none where another program wrote the metadata."""
    found = _RUNS.fullmatch(metadata or "")
    ranges = []
    for run in found[1].split(",") if found else ():
        skip, length = map(int, run.split("+"))
        first, offset = offset + skip, offset + skip + length
        ranges.append(((first,), (offset - 1,)))
    return tuple(ranges)
