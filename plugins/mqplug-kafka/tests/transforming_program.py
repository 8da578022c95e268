"""A program that transforms a topic exactly once: ``python transforming_program.py POINT URL TOPIC TARGET GROUP NAME``.

It stops forever in its second step, inside the driver's commit: ``delivered`` before the positions are stored in the
transaction, ``stored`` after that, ``ended`` when the broker has confirmed the commit. It prints the point first.
"""

from __future__ import annotations

import sys
import time

from kafka_faults import stop_in_commit

import mqplug

STEP = 5  # messages of one step


def stop(point):
    """Print the point and sleep."""
    print(point, flush=True)  # noqa: T201
    time.sleep(600)


def step(mq, consumer, target, name):
    """Transform up to five messages in a transaction, and return their number."""
    with mq.transaction(name, target, consumer=consumer) as each:
        messages = consumer.receive_many(STEP, timeout=5)
        for message in messages:
            each.send(message.value)
            consumer.ack(message)
    return len(messages)


def main(point, url, topic, target, group, name):
    """Complete one step with messages, and stop in the next one."""
    with mqplug.connect(url, timeout=60) as mq, mq.consumer(topic, group=group) as consumer:
        while not step(mq, consumer, target, name):
            pass
        stop_in_commit(point, lambda *_: stop(point))
        step(mq, consumer, target, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
