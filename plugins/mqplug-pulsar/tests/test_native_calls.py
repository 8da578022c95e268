"""Concurrent calls with a deadline. No broker is asked."""

from __future__ import annotations

from threading import Event, Timer

import pytest

import mqplug
from mqplug_pulsar._cluster.native_calls import NativeCalls


@pytest.fixture
def calls():
    """A pool of threads."""
    made = NativeCalls()
    yield made
    made.close()


def fails():
    """Fail at once."""
    raise mqplug.TopicNotFound("it is gone")


def test_all_have_ended_when_one_fails(calls):
    """A commit of several topics, one of which is gone, is not under way any more when it raises."""
    may_end, ended = Event(), Event()

    def slow():
        may_end.wait()
        ended.set()

    Timer(0.2, may_end.set).start()
    with pytest.raises(mqplug.TopicNotFound):
        calls.complete([fails, slow], 30)
    assert ended.is_set()


def test_it_waits_no_longer_than_its_time(calls):
    """A call that does not end in time is a Timeout."""
    may_end = Event()
    try:
        with pytest.raises(mqplug.Timeout):
            calls.complete([may_end.wait], 0.05)
    finally:
        may_end.set()
