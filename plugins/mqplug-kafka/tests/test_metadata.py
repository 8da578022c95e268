"""Acks of single messages in the metadata of a commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqplug_kafka._groups import ROOM, pack, unpack

RUNS = st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), max_size=50)


def ranges(offset, runs):
    """Ascending ranges behind an offset, from gaps and lengths."""
    found = []
    for gap, length in runs:
        first = offset + gap
        offset = first + length
        found.append(((first,), (offset - 1,)))
    return tuple(found)


@given(st.integers(0, 2**62), RUNS)
def test_ranges_come_back(offset, runs):
    """What fits is read back as it was."""
    acked = ranges(offset, runs)
    assert unpack(offset, pack(offset, acked)) == acked


def test_what_does_not_fit_is_left_out_from_the_far_end():
    """The nearest ranges are stored, within what a broker takes."""
    acked = ranges(0, [(1, 1)] * 5000)
    text = pack(0, acked)
    kept = unpack(0, text)
    assert ROOM - 10 < len(text) <= ROOM
    assert kept == acked[: len(kept)]


def test_foreign_metadata_is_no_ack():
    """What another program wrote there is left alone."""
    for metadata in (None, "", "hello", "mqplug1:", "mqplug1:3+x", "mqplug2:1+1", "mqplug1:1+1,"):
        assert unpack(5, metadata) == ()


def test_without_gaps_nothing_is_written():
    """A group that acks in order has plain commits."""
    assert pack(7, ()) == ""
