"""Messages for tests, and a consumer at the driver's seam."""

from __future__ import annotations

from functools import partial

import driver_seam

import mqplug_pulsar


def fill(mq, topic, count):
    """Send ``count`` messages as one batch and return their ids."""
    with mq.producer(topic) as out:
        return out.send_many([b"%d" % number for number in range(count)])


def take(member, count):
    """Receive ``count`` messages and return them."""
    taken = [member.receive(20) for _ in range(count)]
    assert None not in taken
    return taken


Seam = partial(driver_seam.Seam, mqplug_pulsar, prefetch_bytes=1 << 24)


def administer(mq, action):
    """Carry out an action, at the driver's seam."""
    return mqplug_pulsar.mqplug_administer(mq._connection, action, 20)
