"""Faults inside the driver, at moments that no broker can be made to choose, and what it keeps to itself.

All that these tests patch of the driver is here, so that a change inside it has one place to look at. A function
``changed`` gets the original as its first argument, and then its arguments.
"""

from __future__ import annotations

from mqplug_kafka._admin import log_offsets, topics
from mqplug_kafka._admin.group_positions import stored_group_positions
from mqplug_kafka._cluster import admin_requests
from mqplug_kafka._cluster.credentials import Credentials
from mqplug_kafka._consume import group_member
from mqplug_kafka._consume.committer import Committer
from mqplug_kafka._consume.topic_watch import TopicWatch
from mqplug_kafka._produce import transactions
from mqplug_kafka._produce.transactional_client import TransactionalClient

REVOKE_TIMEOUT_S = group_member.REVOKE_TIMEOUT_S

_WAITS = {
    "first attempt": (admin_requests, "FIRST_ATTEMPT_S"),
    "replacement of an admin client": (admin_requests, "MIN_CLIENT_AGE_S"),
    "rejoin": (group_member, "REJOIN_LIMIT_S"),
    "revoke": (group_member, "REVOKE_TIMEOUT_S"),
    "first answer": (transactions, "FIRST_ANSWER_S"),
}
_CALLS = {
    "commit of a group": (Committer, "commit"),
    "commit of a member": (group_member.KafkaGroupMember, "commit"),
    "commit of a transaction": (TransactionalClient, "commit"),
    "answer in a transaction": (TransactionalClient, "wait"),
    "positions of a member": (group_member, "stored_group_positions"),
    "ends of logs": (log_offsets, "range_of"),
    "look at a new topic": (topics, "look_up"),
    "options of a client": (Credentials, "prepared"),
}
_STOPS = {
    "delivered": (transactions.KafkaTransactions, "_store_positions"),
    "stored": (TransactionalClient, "commit"),
    "ended": (transactions.KafkaTransactions, "_wait_for_readers"),
}


def set_wait(monkeypatch, wait, seconds):
    """Make one of the driver's waits last this many seconds."""
    monkeypatch.setattr(*_WAITS[wait], seconds)


def change(monkeypatch, call, changed):
    """Replace one of the driver's calls."""
    place, name = _CALLS[call]
    original = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *arguments, **options: changed(original, *arguments, **options))


def stop_in_commit(point, stop):
    """Stop the next commit of a transaction: before its positions are stored, after that, or when it is confirmed."""
    setattr(*_STOPS[point], stop)


def doubt_positions(monkeypatch, confirmed):
    """Make readers ask whether their topics still exist; ``confirmed()`` says whether the answer has come."""
    monkeypatch.setattr(TopicWatch, "silent", lambda self, names: True)
    monkeypatch.setattr(TopicWatch, "confirm", lambda self, since, timeout: confirmed())


def unsettled_positions(mq, group, logs):
    """Return a group's positions without waiting for transactions that are storing others."""
    return stored_group_positions(mq._connection, group, logs, 10, settled=False)
