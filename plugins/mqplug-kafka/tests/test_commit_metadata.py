"""Acks of single messages, stored in the metadata of a commit."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from hypothesis import HealthCheck, given, settings, strategies as st
from kafka_driver import Seam, new_name

import mqplug
from mqplug import spi
from mqplug_kafka._admin.commit_metadata import (
    MAX_METADATA_BYTES,
    MAX_RANGES,
    MAX_SPAN_OFFSETS,
    cut_acked,
    pack_acked,
    unpack_acked,
)

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
RUNS = st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), max_size=50)


def ranges(offset, runs):
    """Return ascending ranges after an offset, built from gaps and lengths."""
    found = []
    for gap, length in runs:
        first = offset + gap
        offset = first + length
        found.append(((first,), (offset - 1,)))
    return tuple(found)


@BUSY
@given(st.integers(0, 2**62), RUNS)
def test_ranges_come_back(offset, runs):
    """Ranges that fit into the metadata are read back unchanged."""
    acked = ranges(offset, runs)
    assert unpack_acked(offset, pack_acked(offset, acked)) == acked


def test_what_does_not_fit_is_left_out_from_the_far_end(caplog):
    """The nearest ranges are stored, up to the broker's limit, and the log says how many were dropped."""
    acked = ranges(0, [(1, 1)] * 5000)
    text = pack_acked(0, acked)
    assert f"of {len(acked)} acked ranges exceed" in caplog.text
    kept = unpack_acked(0, text)
    assert MAX_METADATA_BYTES - 10 < len(text) <= MAX_METADATA_BYTES
    assert kept == acked[: len(kept)]


LENGTHS = st.lists(
    st.integers(1, MAX_SPAN_OFFSETS // MAX_RANGES // 2), min_size=2 * MAX_RANGES, max_size=2 * MAX_RANGES
)


@settings(BUSY, max_examples=25)  # each has a few hundred numbers
@given(st.integers(0, 2**62), LENGTHS)
def test_so_many_ranges_always_fit(offset, lengths):
    """The number of ranges that the capabilities promise fits into a commit, whatever their lengths within the span."""
    acked = ranges(offset, zip(lengths[::2], lengths[1::2], strict=True))
    assert unpack_acked(offset, pack_acked(offset, acked)) == acked


def test_the_worst_ranges_fit():
    """Ranges whose numbers have the most digits that the span allows fit into a commit."""
    room, numbers = MAX_SPAN_OFFSETS, [1] * (2 * MAX_RANGES)
    for power in range(1, 12):
        more = min(len(numbers), room // 10**power)
        numbers[:more] = [10**power] * more
        room = MAX_SPAN_OFFSETS - sum(numbers)
    acked = ranges(0, zip(numbers[::2], numbers[1::2], strict=True))
    assert len(pack_acked(0, acked)) > 0.9 * MAX_METADATA_BYTES
    assert unpack_acked(0, pack_acked(0, acked)) == acked


def test_foreign_metadata_is_no_ack():
    """Metadata that another program wrote acks nothing."""
    foreign = (
        None,
        "",
        "hello",
        "mqplug1:",
        "mqplug1:3+x",
        "mqplug2:1+1",
        "mqplug1:1+1,",
        "mqplug1:1+0",
        "mqplug1:-1+2",
    )
    for metadata in (*foreign, f"mqplug1:1+{'9' * 4000}", f"mqplug1:{'9' * 20}+1", "mqplug1:٣+1"):
        assert unpack_acked(5, metadata) == ()


def test_without_gaps_nothing_is_written():
    """A group that acks in order commits empty metadata."""
    assert pack_acked(7, ()) == ""


def test_ranges_end_where_the_log_ends():
    """A range after the end of the log is dropped, and one that crosses the end is cut."""
    acked = (((3,), (4,)), ((6,), (9,)), ((11,), (2**70,)))
    assert cut_acked(acked, 100) == (((3,), (4,)), ((6,), (9,)), ((11,), (99,)))
    assert cut_acked(acked, 8) == (((3,), (4,)), ((6,), (7,)))
    assert cut_acked(acked, 3) == cut_acked(acked, 0) == ()


def test_as_many_gaps_as_are_promised_are_stored(mq, topic):
    """The broker stores and returns the largest metadata that the promised number of acked ranges can need."""
    group, log = new_name(), mq.partitions(topic)[0]
    mq.consumer(topic, group=group).close()
    step = MAX_SPAN_OFFSETS // MAX_RANGES
    gaps = tuple(((start + step // 2,), (start + step - 1,)) for start in range(0, MAX_RANGES * step, step))
    place = spi.GroupPosition(mqplug.Position(log, (0,)), gaps)
    with Seam(mq, topic, group) as member:
        member.join(1)
        member.driver.commit({log: place}, 20)
    partition = TopicPartition(topic, 0)
    (stored,) = mq._connection.group_offsets.ask(group, [partition], 20).result(20)
    assert (stored.offset, unpack_acked(0, stored.metadata)) == (0, gaps)
