"""The text of startingOffsets and endingOffsets."""

from __future__ import annotations

import json

import pytest

import mqplug
from mqplug import EARLIEST, LATEST, ConfigError, Position
from mqplug_spark._options.bounds import Bound, Offset, Point, Side, Time, parse_bound


def bound(option: str, text: str) -> Bound:
    """The bound that one option means."""
    side: Side = "starting" if option.startswith("starting") else "ending"
    return parse_bound(side, {option.lower(): text}, LATEST)


def points(value: object, option: str = "startingOffsets") -> object:
    """The points of an option that is JSON with one point."""
    return bound(option, json.dumps({"orders": {"0": value}})).each


@pytest.mark.parametrize(
    ("value", "point"),
    [(-2, EARLIEST), (-1, LATEST), (0, Offset(0)), (2**63, Offset(2**63)), ("-2 h", Time(7_200_000, True))],
)
def test_numbers_are_offsets(value: object, point: Point) -> None:
    """A number is an offset, -1 the latest and -2 the earliest; a text may be a relative time."""
    assert points(value) == {"orders": {0: point}}


def test_a_position_is_read_from_its_text(mq: mqplug.Client) -> None:
    """The text of a position means that position."""
    high = mq.watermarks("orders")[0].high
    assert points(str(high)) == {"orders": {0: high}}


def test_an_id_is_the_point_before_its_message(mq: mqplug.Client) -> None:
    """The text of a message id means the point just before that message."""
    with mq.producer("orders") as out:
        out.send(b"first", partition=0)
        second = out.send(b"second", partition=0)
    assert points(str(second)) == {"orders": {0: Position(second.log, second.coordinates)}}


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
        points(value)


def test_an_end_is_never_the_earliest() -> None:
    """-2 cannot be an end."""
    with pytest.raises(ConfigError, match="endingOffsets: orders\\[0\\] cannot be '-2'"):
        points(-2, "endingOffsets")


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
        bound(option, text).check_topics(["orders"])


def test_a_time_wins_over_times_and_they_over_offsets() -> None:
    """As in spark-sql-kafka, startingTimestamp overrides startingOffsetsByTimestamp, which overrides the offsets."""
    given = {"startingoffsets": "earliest"}
    assert parse_bound("starting", given, LATEST) == Bound("startingOffsets", EARLIEST)
    given["startingoffsetsbytimestamp"] = '{"orders": {"0": 5, "1": "-1 week"}}'
    times = {"orders": {0: Time(5), 1: Time(604_800_000, relative=True)}}
    assert parse_bound("starting", given, LATEST) == Bound("startingOffsetsByTimestamp", each=times)
    given["startingtimestamp"] = "7"
    assert parse_bound("starting", given, LATEST) == Bound("startingTimestamp", Time(7))
    assert parse_bound("ending", given, LATEST) == Bound("endingOffsets", LATEST)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("-10 minutes", 600_000), ("- 1 hour", 3_600_000), ("-90S", 90_000), ("-2d", 172_800_000), ("-5 ms", 5)],
)
def test_relative_times(text: str, milliseconds: int) -> None:
    """A relative time is a minus sign, a number and a unit."""
    for option in ("startingTimestamp", "startingOffsets", "endingTimestamp", "endingOffsets"):
        assert bound(option, text).everywhere == Time(milliseconds, relative=True)


@pytest.mark.parametrize("text", ["1700000000", "9999999999"])
def test_a_time_in_seconds_is_refused(text: str) -> None:
    """A time in 1970 that would be a recent one in seconds is refused, and the error says what to write."""
    with pytest.raises(ConfigError, match=f"startingTimestamp.* looks like seconds.*{text}000"):
        bound("startingTimestamp", text)
    assert bound("startingTimestamp", f"{text}000").everywhere == Time(int(text) * 1000)


@pytest.mark.parametrize("text", ["yesterday", "-5", "1.5", "-10 fortnights", "", "9" * 20, "-9999999999 weeks"])
def test_a_wrong_time_is_named(text: str) -> None:
    """An invalid time raises ConfigError with its option."""
    with pytest.raises(ConfigError, match=r"startingTimestamp.* must be a (time|duration), not"):
        bound("startingTimestamp", text)
