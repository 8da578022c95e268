"""Resolved and computed positions: of one store, of other stores, and of a store with a new owner."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocksmq_stores import line, python

import mqplug
from mqplug import EARLIEST, LATEST, Position

OWNER = """
import mqplug
with mqplug.connect("rocksmq", path=str(path)) as mq:
    mq.create_topic("orders", partitions=2)
    with mq.producer("orders") as out:
        out.send_many([mqplug.Record(b"x", partition=0) for _ in range(10)])
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_another_store(tmp_path: Path) -> None:
    """A position of another store is refused by resolve, advance and distance; positions stop at the largest offset."""
    with (
        mqplug.connect("rocksmq", path=str(tmp_path / "one")) as mq,
        mqplug.connect("rocksmq", path=str(tmp_path / "two")) as other,
    ):
        for each in (mq, other):
            each.create_topic("orders")
        low, elsewhere = (each.watermarks("orders")[0].low for each in (mq, other))
        for call in (
            lambda: mq.resolve("orders", elsewhere),
            lambda: mq.advance(elsewhere, 1),
            lambda: mq.distance(elsewhere, elsewhere),
        ):
            with pytest.raises(mqplug.InvalidMessageId):
                call()
        end = mq.advance(low, 2**64)
        assert mq.resolve("orders", end) == {0: end}
        assert mq.advance(end, 1) == end


def test_an_owner_that_ends(path: Path) -> None:
    """A client continues to resolve and compute when its store's owner ends, and positions stay the same."""
    with python(OWNER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            known = mq.resolve("orders", LATEST)
            owner.kill()
            owner.wait()
            low = mq.resolve("orders", EARLIEST)[0]
            assert mq.resolve("orders", LATEST) == known
            assert mq.advance(low, mq.distance(low, known[0])) == known[0] == Position(low.log, (10,))
