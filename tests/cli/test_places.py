"""Places in a log as arguments of the command line."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

import mqplug
from mqplug_cli import run_command

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def store():
    """A client of a store in memory with the topic "orders"."""
    with mqplug.connect("memory://places") as mq:
        mq.create_topic("orders")
        yield mq
        mq.delete_topic("orders")


@pytest.fixture
def read_from(store, capfdbinary):
    """Return a function that returns the values that ``mqplug consume`` reads from a place."""

    def call(place):
        assert run_command(["consume", "memory://places", "orders", "--from", place]) in {0, 3}
        return capfdbinary.readouterr().out.split()

    return call


def send_at(mq, *times):
    """Send the numbers from 0 with these timestamps. Return their ids."""
    with mq.producer("orders") as out:
        return out.send_many([mqplug.Record(b"%d" % number, timestamp=each) for number, each in enumerate(times)])


def test_words_and_the_last_messages(store, read_from):
    """A place is the start, the end, or before the last messages."""
    send_at(store, *[NOON] * 7)
    assert read_from("earliest") == read_from("beginning") == [b"%d" % number for number in range(7)]
    assert read_from("latest") == read_from("end") == []
    assert read_from("-5") == [b"2", b"3", b"4", b"5", b"6"]


def test_times_ago(store, read_from):
    """A place is a time before now, in each unit."""
    now = datetime.now(UTC)
    ages = {"@-1w": 7 * 86_400, "@-2d": 2 * 86_400, "@-3h": 3 * 3600, "@-10m": 600, "@-90s": 90}
    send_at(store, *(now - timedelta(seconds=each + 40) for each in ages.values()), now)
    for number, place in enumerate(ages, 1):
        assert read_from(place) == [b"%d" % each for each in range(number, 6)]


def test_times_of_a_calendar_and_of_a_clock(store, read_from):
    """A place is a time with its zone, or the milliseconds since 1970."""
    send_at(store, NOON - timedelta(milliseconds=1), NOON)
    assert read_from("@2026-01-31T12:00:00Z") == read_from("@1769860800000") == [b"1"]


def test_a_date_without_a_zone_is_local(store, read_from, monkeypatch):
    """A time without a zone is in the machine's zone."""
    begin = datetime(2026, 1, 31, tzinfo=UTC) - timedelta(hours=2)
    send_at(store, begin - timedelta(milliseconds=1), begin)
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert read_from("@2026-01-31") == [b"1"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_ids_and_positions_are_read_back(store, read_from):
    """The text of an id is the place right before its message, that of a position the position."""
    sent = send_at(store, NOON, NOON)
    high = store.watermarks("orders")[0].high
    with store.producer("orders") as out:
        out.send(b"later")
    assert read_from(str(sent[1])) == [b"1", b"later"]
    assert read_from(str(high)) == [b"later"]


@pytest.mark.parametrize("text", ["", "5", "@", "@1769860800", "@-10x", "@yesterday", "m1~x", "--5", "-٣"])
def test_what_is_no_place_is_refused(capfd, text):
    """Any other text is wrong usage, and the error shows how to write a place."""
    assert run_command(["consume", "memory://places", "orders", f"--from={text}"]) == 2
    complaint = " ".join(capfd.readouterr().err.split())
    assert any(
        each in complaint
        for each in (
            "is not a place in a log. Use earliest",
            "is not a time. Use 2026",
            "too small",
            "not the text of a message id",
        )
    )
