"""Reports of processes that act in a history, and that are killed while they do."""

from __future__ import annotations

import json

import mqplug
from mqplug_testing.history import _events as did
from mqplug_testing.history._events import Event, SeekTarget
from mqplug_testing.history._history import to_json
from mqplug_testing.history._run.processes import _connected, parse_report

SENT = did.RecordSent("producer-0#1", 0, "producer-0#1.0", 0)
TOLD = did.RecordSent("producer-0#1", 0, "producer-0#1.0", 0, (7,))
OPENED = did.ConsumerOpened("reader-0#1", start=SeekTarget("earliest"))
ACKED = did.MessageAcked("early/0#1", 0, (7,))


def begins(actor, action, key=None):
    """Return the line of a call that begins."""
    event = Event(0, actor, 10, 10, action, "unknown", "its process was killed")
    return json.dumps({"key": key or actor, "event": to_json(event)})


def ended(actor, action):
    """Return the line of a call that has ended."""
    return json.dumps({"event": to_json(Event(0, actor, 10, 20, action))})


def test_what_has_ended_is_known():
    """A call that began and ended is one event, as reported."""
    lines = [begins("producer-0", SENT, SENT.value), ended("producer-0", TOLD), json.dumps({"injected": 3})]
    assert parse_report(lines, None) == ([Event(0, "producer-0", 10, 20, TOLD)], 3)


def test_what_a_kill_cut_off_may_be_done_or_not():
    """A send and an ack under way when their process was killed have an unknown outcome, until then."""
    events, _ = parse_report([begins("producer-0", SENT, SENT.value), begins("early/0", ACKED)], 99)
    assert [(event.did, event.actor, event.outcome, event.ended) for event in events] == [
        (SENT, "producer-0", "unknown", 99),
        (ACKED, "early/0", "unknown", 99),
    ]


def test_nobody_is_open_after_a_kill():
    """A consumer that was open when its process was killed has left at that time."""
    events, _ = parse_report([begins("reader-0", OPENED), ended("reader-0", OPENED)], 99)
    assert [event.did for event in events] == [OPENED, did.ConsumerClosed("reader-0#1")]
    assert (events[1].outcome, events[1].ended) == ("unknown", 99)


def test_a_process_that_starts_while_the_backend_is_away_waits_for_it():
    """A process that replaces a killed one connects when the backend is back, if that was killed too."""
    tries = iter([mqplug.ConnectError("away"), mqplug.Timeout("away"), "connected"])

    def connect():
        answer = next(tries)
        if isinstance(answer, mqplug.Error):
            raise answer
        return answer

    assert _connected(connect) == "connected"
