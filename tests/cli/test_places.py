"""Places in a log as arguments of the command line."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

import mqplug
from mqplug_cli._places import place_of


def test_each_way_to_write_a_place():
    """The words, the last messages, a time, and a time ago parse to the starts of the API."""
    assert place_of("earliest") == place_of("beginning") == mqplug.EARLIEST
    assert place_of("latest") == place_of("end") == mqplug.LATEST
    assert place_of("-5") == mqplug.last(5)
    assert place_of("@-10m") == mqplug.ago(minutes=10)
    assert place_of("@-1w") == mqplug.ago(days=7)
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert place_of("@2026-01-31T12:00:00Z") == mqplug.at_time(moment)
    assert place_of("@1769860800000") == mqplug.at_time(moment)


def test_a_date_without_a_zone_is_local(monkeypatch):
    """A time without a zone is in the machine's zone."""
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert place_of("@2026-01-31") == mqplug.at_time(datetime(2026, 1, 31, tzinfo=UTC) - timedelta(hours=2))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_ids_and_positions_are_read_back():
    """The text of an id parses to the place right before its message, that of a position to the position."""
    with mqplug.connect("memory://places") as mq:
        with mq.producer("orders", create=True) as out:
            sent = out.send(b"x")
        high = mq.watermarks("orders")[0].high
    assert place_of(str(sent)) == mqplug.before(sent)
    assert place_of(str(high)) == high


@pytest.mark.parametrize("text", ["", "5", "@", "@1769860800", "@-10x", "@yesterday", "m1~x", "--5", "-٣"])
def test_what_is_no_place_is_refused(text):
    """Any other text is an error that shows how to write a place."""
    with pytest.raises(ValueError, match=r"not a|too small|id"):
        place_of(text)
