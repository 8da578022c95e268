"""The suite of the core, on a backend that costs almost nothing, compared with bare loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mqplug
from benchmarks._contests import Contest
from benchmarks._core_receiving import receiving_contests
from benchmarks._core_sending import sending_contests
from benchmarks._import_time import import_contests
from benchmarks._synthetic_backend import PLUGIN, SyntheticSource


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; they can run within the block."""
    mqplug.register("synthetic", PLUGIN)
    with mqplug.connect("synthetic", batches=5 if quick else 300) as mq:
        source = mq.unwrap(SyntheticSource)
        assert source is not None
        yield [*receiving_contests(mq, source), *sending_contests(mq, 2_000 if quick else 50_000), *import_contests()]
