"""A program that takes part in a group, or asks about it: ``python group_client_program.py ROLE URL TOPIC GROUP``.

It goes round and round, prints a line after each round that succeeded, and ends when its standard input is closed. What
may be tried again is tried again; anything else ends it with a traceback.
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

PAUSE = 0.05  # seconds between two rounds: a broker that starts needs the processor, too


def member(mq, topic, group):
    """Join, take a few, ack, ask, and leave."""
    with mq.consumer(topic, group=group) as consumer:
        for message in consumer.receive_many(10, timeout=2):
            consumer.ack(message)
        consumer.commit(timeout=10)
        consumer.committed(timeout=10)


def lag(mq, topic, group):
    """Ask how far the group is behind."""
    mq.lag(topic, group=group, timeout=10)


def groups(mq, topic, group):
    """Ask which groups there are."""
    mq.groups(topic, timeout=10)


def description(mq, topic, group):
    """Ask for the group's topics and members."""
    found = mq.describe_group(group, timeout=10)
    assert found.topics == (topic,)
    assert all(each.name for each in found.members)


def questions(mq, topic, group):
    """Ask all that can be asked about a group and its topic."""
    assert mq.describe_group(group, timeout=10).topics == (topic,)
    assert mq.positions(topic, group=group, timeout=10)[0].position is not None
    assert set(mq.lag(topic, group=group, timeout=10)) == set(mq.watermarks(topic, timeout=10))
    end = time.monotonic() + 30
    while group not in {each.name for each in mq.groups(topic, timeout=10)}:  # no broker lists it while it moves
        assert time.monotonic() < end, "the group is not listed"


def mover(mq, topic, group):
    """Move a group that nobody is in, there and back, and forget another one."""
    for start in (mqplug.LATEST, mqplug.EARLIEST):
        mq.reset_group(f"{group}-moved", topic, start, timeout=10)
    mq.reset_group(f"{group}-short", topic, mqplug.EARLIEST, timeout=10)
    with suppress(mqplug.GroupNotFound):  # an answer was lost, and the question asked again
        mq.delete_group(f"{group}-short", timeout=10)


def impatient(mq, topic, group):
    """Begin a group that is new, and forget it, in less time than a broker takes that is paused."""
    log = first_log(mq, topic)
    new = f"{group}-{time.monotonic_ns()}"
    try:
        mqplug_kafka.mqplug_move_group(mq._connection, new, {log: spi.GroupPosition(mqplug.Position(log, (0,)))}, 0.5)
    finally:
        with suppress(mqplug.GroupNotFound):  # it was not begun
            mqplug_kafka.mqplug_administer(mq._connection, spi.DeleteGroup(new), 0.5)


def hasty(mq, topic, group):
    """Ask for a group's topics and members in less time than a broker takes that is paused."""
    mqplug_kafka.mqplug_administer(mq._connection, spi.DescribeGroupMembers(group), 0.5)


@cache
def first_log(mq, topic):
    """What is known before the broker is paused."""
    return mq.partitions(topic)[0]


def rounds(mq, role, topic, group, ended):
    """Go round until it is enough."""
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
    """Run until the parent lets go."""
    ended = threading.Event()

    def listen():
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    with mqplug.connect(url, timeout=60) as mq:
        rounds(mq, ROLES[role], topic, group, ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
