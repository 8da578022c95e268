"""SEEK: to messages that retention took."""

from __future__ import annotations

from mqplug import (
    PositionLost,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("SEEK-07", hooks=("trim_before",))
def test_exclusive_at_a_trimmed_message(bench: Bench) -> None:
    """An exclusive seek to a trimmed id is ``PositionLost``; ``missing="next"`` delivers the first one left."""
    trimmed = bench.trimmed()
    reader = bench.reader(trimmed.topic)
    with bench.raises(PositionLost) as caught:
        reader.seek(trimmed.gone[0], inclusive=False)
    bench.equal(getattr(caught.value, "low", None), trimmed.low)
    for gone in (trimmed.gone[0], trimmed.gone[-1]):
        reader.seek(gone, inclusive=False, missing="next")
        bench.delivers(reader, trimmed.left)


@case("SEEK-08", hooks=("trim_before",))
def test_inclusive_at_a_trimmed_message(bench: Bench) -> None:
    """An inclusive seek to a trimmed id is ``PositionLost``; ``missing="next"`` delivers the first one left."""
    trimmed = bench.trimmed()
    reader = bench.reader(trimmed.topic)
    for gone in (trimmed.gone[0], trimmed.gone[-1]):
        with bench.raises(PositionLost) as caught:
            reader.seek(gone)
        bench.equal(getattr(caught.value, "low", None), trimmed.low)
        reader.seek(gone, missing="next")
        bench.delivers(reader, trimmed.left)
