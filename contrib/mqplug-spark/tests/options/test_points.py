"""The text of startingOffsets, endingOffsets, and the options with times."""

from __future__ import annotations

import json
import time

import pytest
from clusters import Cluster, over, send
from reads import numbers_of, reader_of

from mqplug import ConfigError, Position, Record

OVER_ROCKSMQ = over("rocksmq")


def check(option: str, text: str) -> None:
    """Check an option of a read of the topic ``orders``. No backend is contacted."""
    reader_of({"url": "kafka://localhost", "subscribe": "orders", option: text})


def check_point(value: object, option: str = "startingOffsets") -> None:
    """Check an option that is JSON with one point."""
    check(option, json.dumps({"orders": {"0": value}}))


def read(cluster: Cluster, topic: str, **options: str) -> list[int]:
    """Return the numbers that are read."""
    return [number for _, number in numbers_of({"url": cluster.url, "subscribe": topic, **options})]


def from_point(cluster: Cluster, topic: str, value: object) -> list[int]:
    """Return the numbers that are read from a point of the first partition."""
    return read(cluster, topic, startingOffsets=json.dumps({topic: {"0": value, "1": -1}}))


def send_at(cluster: Cluster, topic: str, *timestamps: int) -> None:
    """Send the numbers from 0 with these timestamps."""
    with cluster.client.producer(topic) as out:
        out.send_many([Record(b"%d" % n, timestamp=each, partition=0) for n, each in enumerate(timestamps)])


def now_ms() -> int:
    """Return the time in milliseconds."""
    return time.time_ns() // 1_000_000


@OVER_ROCKSMQ
def test_numbers_are_offsets(cluster: Cluster, topic: str) -> None:
    """A number is an offset, -1 the latest and -2 the earliest."""
    send(cluster, topic, 5)
    found = {value: from_point(cluster, topic, value) for value in (-2, -1, 0, 3)}
    assert found == {-2: [0, 1, 2, 3, 4], -1: [], 0: [0, 1, 2, 3, 4], 3: [3, 4]}


def test_an_offset_may_have_64_bits() -> None:
    """The highest offset of a log is a valid point."""
    check_point(2**63)


@OVER_ROCKSMQ
def test_positions_and_ids_are_read_from_their_texts(cluster: Cluster, topic: str) -> None:
    """The text of a position means that position, and that of a message id the point just before its message."""
    sent = send(cluster, topic, 5)
    assert from_point(cluster, topic, str(Position(sent[2].log, sent[2].coordinates))) == [2, 3, 4]
    assert from_point(cluster, topic, str(sent[3])) == [3, 4]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-3, "orders\\[0\\] cannot be '-3'.*-2 for the earliest"),
        (1.5, "orders\\[0\\] cannot be '1.5'"),
        (True, "orders\\[0\\] cannot be 'true'"),
        (None, "orders\\[0\\] cannot be 'null'"),
        ({"0": 1}, "orders\\[0\\] cannot be"),
        ("p1~nonsense", "'p1~nonsense' is not the text of a position"),
        ("m1~nonsense", "'m1~nonsense' is not the text of a message id"),
    ],
)
def test_a_wrong_point_is_named(value: object, says: str) -> None:
    """An invalid point raises ConfigError with its topic and partition."""
    with pytest.raises(ConfigError, match=says):
        check_point(value)


def test_an_end_is_never_the_earliest() -> None:
    """-2 cannot be an end."""
    with pytest.raises(ConfigError, match="endingOffsets: orders\\[0\\] cannot be '-2'"):
        check_point(-2, "endingOffsets")


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("startingOffsets", "newest", "startingOffsets must be earliest, latest, or JSON such as"),
        ("endingOffsets", "earliest", "endingOffsets must be latest, or JSON such as"),
        ("startingOffsets", "{'orders'", "startingOffsets is not JSON"),
        ("startingOffsets", "[]", "startingOffsets must be earliest"),
        ("startingOffsets", '{"orders": 5}', "the topic 'orders' must be a JSON object, not '5'"),
        ("startingOffsets", "{}", "does not name the topic 'orders'"),
        ("startingOffsets", '{"orders": {}, "audit": {}}', "names the topic 'audit', which is not read"),
        ("startingOffsets", '{"orders": {"0": 1, "0": 2}}', "startingOffsets names '0' twice"),
        ("startingOffsets", '{"orders": {"00": 1}}', "'00' is not a partition of 'orders'"),
        ("startingOffsets", '{"orders": {"-1": 1}}', "'-1' is not a partition of 'orders'"),
    ],
)
def test_a_wrong_text_is_named(option: str, text: str, says: str) -> None:
    """A malformed text raises ConfigError with the option and the place."""
    with pytest.raises(ConfigError, match=says):
        check(option, text)


@OVER_ROCKSMQ
def test_a_time_wins_over_times_and_they_over_offsets(cluster: Cluster, topic: str) -> None:
    """As in spark-sql-kafka, startingTimestamp overrides startingOffsetsByTimestamp, which overrides the offsets."""
    send_at(cluster, topic, 1000, 2000, 3000)
    given = {"startingOffsets": "earliest"}
    assert read(cluster, topic, **given) == [0, 1, 2]
    given["startingOffsetsByTimestamp"] = json.dumps({topic: {"0": 2000, "1": "-1 week"}})
    assert read(cluster, topic, **given, startingOffsetsByTimestampStrategy="latest") == [1, 2]
    given["startingTimestamp"] = "3000"
    assert read(cluster, topic, **given, startingOffsetsByTimestampStrategy="latest") == [2]


@OVER_ROCKSMQ
@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("-10 minutes", 600_000), ("- 1 hour", 3_600_000), ("-90S", 90_000), ("-2d", 172_800_000), ("-70000 ms", 70_000)],
)
def test_relative_times(cluster: Cluster, topic: str, text: str, milliseconds: int) -> None:
    """A relative time is a minus sign, a number and a unit. It is a start or an end, for one partition or for all."""
    then = now_ms() - milliseconds
    send_at(cluster, topic, then - 60_000, then + 60_000)
    for option in ("startingTimestamp", "startingOffsets"):
        assert read(cluster, topic, **{option: text}, startingOffsetsByTimestampStrategy="latest") == [1]
    for option in ("endingTimestamp", "endingOffsets"):
        assert read(cluster, topic, **{option: text}) == [0]
    assert from_point(cluster, topic, text) == [1]


@pytest.mark.parametrize("text", ["1700000000", "9999999999"])
def test_a_time_in_seconds_is_refused(text: str) -> None:
    """A time in 1970 that would be a recent one in seconds is refused, and the error says what to write."""
    with pytest.raises(ConfigError, match=f"startingTimestamp.* looks like seconds.*{text}000"):
        check("startingTimestamp", text)
    check("startingTimestamp", f"{text}000")


@pytest.mark.parametrize("text", ["yesterday", "-5", "1.5", "-10 fortnights", "", "9" * 20, "-9999999999 weeks"])
def test_a_wrong_time_is_named(text: str) -> None:
    """An invalid time raises ConfigError with its option."""
    with pytest.raises(ConfigError, match=r"startingTimestamp.* must be a (time|duration), not"):
        check("startingTimestamp", text)
