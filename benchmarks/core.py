"""The core alone: over a backend that costs next to nothing, and beside bare loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mqplug
from benchmarks._importing import importing
from benchmarks._paired import Contest
from benchmarks._receiving import receiving
from benchmarks._sending import sending
from benchmarks._synthetic import PLUGIN, Source


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """What is measured; ready as long as the context lasts."""
    mqplug.register("synthetic", PLUGIN)
    with mqplug.connect("synthetic", batches=5 if quick else 300) as mq:
        source = mq.unwrap(Source)
        assert source is not None
        yield [*receiving(mq, source), *sending(mq, 2_000 if quick else 50_000), *importing()]
