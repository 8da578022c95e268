"""Helpers that send and receive messages, and a consumer at the driver's seam."""

from __future__ import annotations

import time
from functools import partial

import driver_seam

import mqplug_pulsar

LIMIT_S = 30


def fill(mq, topic, count):
    """Send ``count`` messages as one batch and return their ids."""
    with mq.producer(topic) as out:
        return out.send_many([b"%d" % number for number in range(count)])


def take(member, count):
    """Receive ``count`` messages and return them."""
    taken = [member.receive(20) for _ in range(count)]
    assert None not in taken
    return taken


def take_all(member, count):
    """Receive ``count`` messages, many at a time, and return them."""
    taken = []
    while len(taken) < count:
        more = list(member.receive_many(count - len(taken), timeout=60))
        assert more
        taken += more
    return taken


ONE_BATCH = {"prefetch_bytes": 60 * 16 * 1024}
"""Options of members that share batches of sixty: no member prefetches all of them."""


def take_between(members, count, most):
    """Receive ``count`` messages with members that share, at least ``most`` with each. Return each member's messages.

    Open the members with ``ONE_BATCH``: otherwise the broker may give all messages to the first member.
    """
    taken = {member: take_all(member, most) for member in members}
    while sum(map(len, taken.values())) < count:
        for member in taken:
            taken[member] += member.receive_many(most, timeout=0.2)
    return taken


def ack_two_of_three(member, messages):
    """Ack all but the first of each three messages. Return the ids of the unacked ones."""
    for number, message in enumerate(messages):
        if number % 3:
            member.ack(message)
    return [message.id for message in messages[::3]]


def check_exactly(mq, topic, ids):
    """Check that the next member of the group ``g`` gets exactly these messages, then one that is sent afterwards."""
    with mq.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, len(ids))] == ids
        fresh = fill(mq, topic, 1)
        assert [message.id for message in take(member, 1)] == fresh


def check_in_any_order(mq, topic, ids, mode="shared"):
    """Check that the next member gets exactly these messages, in any order, then one that is sent afterwards."""
    with mq.consumer(topic, group="g", mode=mode) as member:
        assert sorted(message.id for message in take_all(member, len(ids))) == sorted(ids)
        fresh = fill(mq, topic, 1)
        assert [message.id for message in take(member, 1)] == fresh


def wait_until(condition):
    """Wait until the condition is true."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def prefetched(mq, topic):
    """Return how many messages the broker has sent to the members of group ``g`` since they connected."""
    admin = mq._connection.admin
    stats = admin.get(f"persistent/public/default/{topic}-partition-0/stats", 20)
    members = stats["subscriptions"]["g"]["consumers"] if "g" in stats["subscriptions"] else []
    return sum(member["msgOutCounter"] for member in members)


def killed(server):
    """Kill the broker and start it again."""
    server.kill()
    server.start()


Seam = partial(driver_seam.Seam, mqplug_pulsar, prefetch_bytes=1 << 24)


def administer(mq, action):
    """Carry out an action at the driver's seam."""
    return mqplug_pulsar.mqplug_administer(mq._connection, action, 20)
