"""The native client's log."""

from __future__ import annotations

import logging

from mqplug_kafka import _calm


def record(text):
    """A line of the log."""
    return logging.LogRecord("mqplug.kafka", logging.ERROR, "", 0, text, None, None)


def test_what_differs_in_numbers_only_is_said_once(monkeypatch):
    """A line comes again only after a while; another line comes at once."""
    now = [100.0]
    monkeypatch.setattr(_calm.time, "monotonic", lambda: now[0])
    calm = _calm.Calm()
    assert calm.filter(record("refused after 3 ms"))
    assert not calm.filter(record("refused after 15 ms"))
    assert calm.filter(record("timed out after 15 ms"))
    now[0] += _calm.EVERY
    assert calm.filter(record("refused after 0 ms"))


def test_the_lines_that_are_remembered_are_bounded(monkeypatch):
    """A log of ever new lines takes no memory without end, and loses none."""
    monkeypatch.setattr(_calm, "MOST", 10)
    calm = _calm.Calm()
    assert all(calm.filter(record(chr(65 + number))) for number in range(25))
    assert len(calm._passed) <= 10
