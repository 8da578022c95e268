"""A program that joins a group or queries it: ``python group_client_program.py ROLE URL TOPIC GROUP``.

It repeats its role, prints a line after each successful round, and ends when its standard input is closed. It retries
after retryable errors; any other error ends it with a traceback.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from functools import cache

import mqplug
import mqplug_kafka
from mqplug import spi

PAUSE = 0.05  # seconds between two rounds: a starting broker needs the processor as well


def member(mq, topic, group):
    """Join, receive up to ten messages, ack, commit, read the committed positions and leave."""
    with mq.consumer(topic, group=group) as consumer:
        for message in consumer.receive_many(10, timeout=2):
            consumer.ack(message)
        consumer.commit(timeout=10)
        consumer.committed(timeout=10)


def lag(mq, topic, group):
    """Ask for the group's lag."""
    mq.lag(topic, group=group, timeout=10)


def groups(mq, topic, group):
    """List the groups of the topic."""
    mq.groups(topic, timeout=10)


def description(mq, topic, group):
    """Ask for the group's topics and members."""
    found = mq.describe_group(group, timeout=10)
    assert found.topics == (topic,)
    assert all(each.name for each in found.members)


def questions(mq, topic, group):
    """Ask for the group's description, positions, lag and listing, and for its topic's watermarks."""
    assert mq.describe_group(group, timeout=10).topics == (topic,)
    assert mq.positions(topic, group=group, timeout=10)[0].position is not None
    assert set(mq.lag(topic, group=group, timeout=10)) == set(mq.watermarks(topic, timeout=10))
    end = time.monotonic() + 30
    while group not in {each.name for each in mq.groups(topic, timeout=10)}:  # a moving group is not listed
        assert time.monotonic() < end, "the group is not listed"


def mover(mq, topic, group):
    """Move a group without members to the end and back, and delete another one."""
    for start in (mqplug.LATEST, mqplug.EARLIEST):
        mq.reset_group(f"{group}-moved", topic, start, timeout=10)
    mq.reset_group(f"{group}-short", topic, mqplug.EARLIEST, timeout=10)
    with suppress(mqplug.GroupNotFound):  # a retry after a lost answer
        mq.delete_group(f"{group}-short", timeout=10)


def impatient(mq, topic, group):
    """Create a group and delete it, with timeouts that a paused broker exceeds."""
    log = first_log(mq, topic)
    new = f"{group}-{time.monotonic_ns()}"
    try:
        mqplug_kafka.mqplug_move_group(mq._connection, new, {log: spi.GroupPosition(mqplug.Position(log, (0,)))}, 0.5)
    finally:
        with suppress(mqplug.GroupNotFound):  # it was not created
            mqplug_kafka.mqplug_administer(mq._connection, spi.DeleteGroup(new), 0.5)


def hasty(mq, topic, group):
    """Ask for a group's topics and members, with a timeout that a paused broker exceeds."""
    mqplug_kafka.mqplug_administer(mq._connection, spi.DescribeGroupMembers(group), 0.5)


@cache
def first_log(mq, topic):
    """Return the topic's first log, which is looked up before the broker is paused."""
    return mq.partitions(topic)[0]


def rounds(mq, role, topic, group, ended):
    """Repeat the role until the event is set."""
    while not ended.wait(PAUSE):
        began = time.monotonic()
        try:
            role(mq, topic, group)
        except mqplug.Error as error:
            if not error.retryable and not isinstance(error, mqplug.CloseIncomplete | mqplug.NotAssigned):
                raise
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201
            assert time.monotonic() - began < 60, "each call has its timeout"
        else:
            print("round", flush=True)  # noqa: T201


ROLES = {each.__name__: each for each in (member, lag, groups, description, questions, mover, impatient, hasty)}


def main(role, url, topic, group):
    """Run until the parent closes standard input."""
    ended = threading.Event()

    def listen():
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    with mqplug.connect(url, timeout=60) as mq:
        rounds(mq, ROLES[role], topic, group, ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
