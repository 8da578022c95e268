"""Wrong parts of the core."""

from __future__ import annotations

import operator
import re
import zlib
from datetime import UTC, datetime
from itertools import repeat

import mqplug
from mqplug import (
    Batch,
    Client,
    Error,
    Log,
    MessageId,
    Producer,
    Timeout,
    TopicNotFound,
    Unsupported,
)
from mqplug._base import deadline
from mqplug._client import queries, topics
from mqplug._consume import consumer_session, dead_letters, driver_session, opening, start_positions as starts
from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.acking import Acknowledgements
from mqplug._consume.assignment import Assignment
from mqplug._consume.consumer_session import Seeker
from mqplug._consume.fetching import Fetcher
from mqplug._consume.retries import NackedMessages
from mqplug._model import id_text, ids, message
from mqplug._produce import record, routing
from mqplug._produce.queue import SendQueue
from mqplug._settings import reading, settings, urls
from mutants.base import Mutant

ACK_THROUGH = Tracker.ack_through


def _lose_state(error):
    return type(error), error.args


def _tell_at_once(_, callback, logs):
    if callback is not None and logs:
        callback(logs)


def _only_forget(assignment, logs):
    for log in logs:
        del assignment._held[log]


def _no_third_attempt(batch, attempts):
    batch.attempts = [min(each, 2) for each in attempts]
    return batch


def _up_to_but_not(tracker, delivery, index):
    if index:
        ACK_THROUGH(tracker, delivery, index - 1)


def _due_at_once(returned, again, delay):
    again.due = 0.0


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNSEEN = SendQueue.unseen


def _calls_the_unknown_failed(queue, operation):
    error = UNSEEN(queue, operation)
    return error if error is None else mqplug.SendFailed(error.message)


def _settable(name: str) -> property:
    return property(operator.attrgetter(name), lambda owner, value: setattr(owner, name, value))


# Cases that are about the core rather than the backend: (case, object, attribute, replacement, name).
WRONG = [
    ("ID-01", id_text, "_read_number", lambda field: int(float(field)) + 1),
    ("ID-02", ids, "decode_text", lambda kind, text: (Log("b", "c", "t", 0), (len(text),), ()), "decode"),
    ("ID-04", MessageId, "__hash__", object.__hash__),
    ("ID-05", MessageId, "__lt__", lambda one, other: one.coordinates <= other.coordinates),
    ("ID-07", ids, "_same_log", lambda mine, other, coordinates: coordinates),
    ("ID-09", MessageId, "__lt__", lambda one, other: one.coordinates < getattr(other, "coordinates", (0,))),
    ("ID-11", id_text, "crc32", zlib.adler32),
    ("ID-13", id_text, "_PLAIN", re.compile("[ -}]*")),
    ("ID-14", MessageId, "coordinates", _settable("_coordinates"), "setattr"),
    ("ID-15", MessageId, "__lt__", lambda one, other: all(map(operator.lt, one.coordinates, other.coordinates))),
    ("ID-16", MessageId, "__eq__", lambda one, other: str(one) == str(other)),
    ("HP-11", record, "check_headers", lambda headers: ()),
    ("HP-14", record, "check_bytes", lambda what, value: value if value is None else bytes(value)),
    ("HP-15", record, "check_bytes", lambda what, value: value.encode() if isinstance(value, str) else value),
    ("HP-19", message, "from_milliseconds", lambda milliseconds: EPOCH),
    ("HP-20", record, "to_milliseconds", lambda moment: moment if isinstance(moment, int) else 0),
    ("HP-21", dead_letters, "LATEST_TIME_MS", 2**70),
    ("LIF-01", Client, "__repr__", object.__repr__),
    ("LIF-15", Client, "unwrap", lambda client, kind: client),
    ("LIF-16", urls, "_is_certain", lambda parts: True),
    ("LIF-17", topics, "retention_seconds", lambda retention: retention),
    ("SEEK-07", consumer_session, "refuse_lost", lambda *anything: None),
    ("SEEK-08", consumer_session, "refuse_lost", lambda *anything: None),
    ("WM-28", queries, "refuse_lost", lambda *anything: None),
    ("WM-29", queries, "only", lambda partitions, topics, every: list(every)),
    ("LIF-04", Client, "health", lambda client, timeout=30: None),
    ("PRO-08", Producer, "send_many", lambda producer, records: records[0]),
    ("PRO-24", SendQueue, "unseen", _calls_the_unknown_failed),
    ("CON-23", Fetcher, "_seek_back", lambda fetcher, driver: None),
    ("KEY-06", routing, "cycle", lambda order: repeat(order[0])),
    ("TOP-02", topics, "_differences", lambda wanted, there: []),
    ("ERR-06", urls, "shown", lambda url: url),
    ("SEEK-26", starts, "check_log", lambda log, logs, *, whole=False: None),
    ("SEEK-27", Seeker, "_positions", lambda seeker, start, partition, deadline: {}),
    ("CC-02", driver_session.DriverLock, "begin_receive", lambda lock, call: None, "receiving"),
    ("TO-02", deadline, "check_timeout", lambda timeout: None),
    ("ERR-01", topics, "check_new_topic", lambda name, most=249: name),
    ("ERR-02", Error, "at", lambda error, **_: error),
    ("ERR-02", mqplug.TopicExists, "fix", None),
    ("ERR-03", TopicNotFound, "retryable", True),
    ("ERR-04", opening, "check_start", lambda start: mqplug.EARLIEST),
    ("ERR-07", Unsupported, "capability", property(lambda _: "something", lambda _, value: None)),
    ("ERR-08", Assignment, "_call_back", _tell_at_once, "tell"),
    ("ERR-09", Error, "__reduce__", _lose_state),
    ("GRP-03", Acknowledgements, "_refuse", lambda settler, message, operation: None),
    ("GRP-10", Assignment, "_drop", _only_forget),
    ("LIF-06", settings, "get_close_matches", lambda *_, **__: ["nothing"]),
    ("LIF-07", reading, "_exactly", lambda value, kind: value),
    ("TO-09", Timeout, "retryable", False),
    ("TOP-08", opening, "check_group", lambda name: name),
    ("ACK-18", Batch, "with_attempts", _no_third_attempt),
    ("ACK-04", Tracker, "ack_through", _up_to_but_not),
    ("ACK-08", NackedMessages, "set_due", _due_at_once),
    ("KEY-01", routing, "murmur2", zlib.crc32),
    ("KEY-12", routing, "crc32", routing.murmur2),
]


def _mutant(case, place, name, wrong, called=None):
    return type(f"{called or name.strip('_')}-{case}", (Mutant,), {"case": case, "patches": ((place, name, wrong),)})


CORE_MUTANTS = [_mutant(*each) for each in WRONG]
