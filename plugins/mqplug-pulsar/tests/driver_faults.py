"""Faults inside the driver, at moments that no broker can be made to choose, and the notes that it keeps.

All that these tests patch of the driver is here, so that a change inside it has one place to look at.
"""

from __future__ import annotations

from mqplug import spi
from mqplug_pulsar._admin import group_notes, groups, subscriptions, topics
from mqplug_pulsar._cluster.admin_interface import AdminInterface
from mqplug_pulsar._cluster.broker_statistics import AckProgress
from mqplug_pulsar._cluster.client_calls import ClientCalls
from mqplug_pulsar._consume import member_filter, shared_log, shared_member, topic_checks
from mqplug_pulsar._consume.partition_feeds import PartitionFeed
from mqplug_pulsar._consume.permit_feed import PermitFeed
from mqplug_pulsar._produce import partition_producer

_WAITS = {
    "partition check": (topic_checks, "PARTITION_CHECK_S"),
    "second request for missing messages": (member_filter, "REQUEST_AGAIN_S"),
    "send": (partition_producer, "SEND_TIMEOUT_S"),
    "look for a stuck member": (shared_log, "STUCK_S"),
    "life of a read note": (shared_log, "FRESH_S"),
    "life of unused messages": (shared_log, "UNUSED_S"),
    "life of a check": (shared_member, "CHECK_LASTS_S"),
}
_CALLS = {
    "put of the admin interface": (AdminInterface, "put"),
    "call of the client": (ClientCalls, "start"),
    "subscription of a shared member": (PermitFeed, "open"),
    "look for a stuck member": (groups, "may_be_stuck"),
    "read of a note": (group_notes, "read"),
    "take from a feed": (PartitionFeed, "take"),
}


def shorten(monkeypatch, wait, seconds):
    """Make one of the driver's waits end after these seconds."""
    module, name = _WAITS[wait]
    monkeypatch.setattr(module, name, seconds)


def change(monkeypatch, call, changed):
    """Replace one of the driver's calls: ``changed`` gets the original, and then its arguments."""
    place, name = _CALLS[call]
    original = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *arguments: changed(original, *arguments))


class UnansweredReads:
    """Reads of a group's position that fail with this error while ``allowed`` is false."""

    def __init__(self, monkeypatch, error):
        self._error = error
        self._read = subscriptions.cursor
        self.allowed = True
        self.refused = 0
        monkeypatch.setattr(subscriptions, "cursor", self)

    def __call__(self, *arguments):
        if self.allowed:
            return self._read(*arguments)
        self.refused += 1
        raise self._error


def delay_settlements(monkeypatch, until):
    """Make members in shared modes wait for an event before each of their commits reaches the broker."""
    store = shared_log.ack_and_wait

    def slow_store(*arguments, **options):
        assert until.wait(20)
        return store(*arguments, **options)

    monkeypatch.setattr(shared_log, "ack_and_wait", slow_store)


def list_topics_as(monkeypatch, *names):
    """Make the broker list these topics, and no others."""
    monkeypatch.setattr(topics, "names", lambda *_: list(names))


def note_acks(mq, log, group, masks, mark_delete=(-1, -1)):
    """Note acks inside batches, as an ordered member does."""
    group_notes.add_batch_acks(mq._connection, group, log, masks, mark_delete, 60)


def note_shared_acks(mq, log, group, masks, seek=""):
    """Note acks inside batches, as a member in a shared mode does, unless the group was moved since this seek."""
    group_notes.add_batch_acks_unless_moved(mq._connection, log, group, masks, seek, spi.Deadline(60))


def noted_acks(mq, log, group):
    """Return the acks inside batches that are noted for a group."""
    return group_notes.read(mq._connection, log, group, 20).acks.masks


def acks_of_position(mq, log, group):
    """Return the acks inside batches that belong to the group's position."""
    return subscriptions.cursor(mq._connection, log, group, 20).acks.masks


def last_seek(mq, log, group):
    """Return the name of the last seek of a group."""
    return group_notes.last_seek(mq._connection, log, group, 20)


def acks_written(stats, group):
    """Return how many acks of a group the broker has persisted, from the statistics of a topic."""
    return AckProgress.read(stats, group).written
