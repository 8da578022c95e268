"""A program that copies every message of "in" to "out" or "audit", in transactions, until it is killed."""

from __future__ import annotations

import random
import sys
from contextlib import suppress

import mqplug


class Discarded(Exception):
    """A step that is aborted."""


def work(path: str, name: str, seed: int) -> None:
    """Copy messages, a few in each step, and report each finished step. Some steps are aborted."""
    chance = random.Random(seed)
    allowed = mqplug.NotAssigned, mqplug.OutcomeUnknown, mqplug.Timeout, mqplug.ConnectError, Discarded
    with mqplug.connect("rocksmq", path=path) as mq, mq.consumer("in", group="copiers") as inputs:
        while True:
            with suppress(*allowed):
                copied = copy_some(mq, inputs, name, chance)
                print(copied, flush=True)  # noqa: T201 - the test waits for this line


def copy_some(mq: mqplug.Client, inputs: mqplug.Consumer, name: str, chance: random.Random) -> int:
    """Carry out one step. Return how many messages it copied."""
    with mq.transaction(name, "out", consumer=inputs, timeout=20) as step:
        messages = inputs.receive_many(chance.choice((1, 3, 15)), timeout=0.2)
        for message in messages:
            step.send(message.value, topic=chance.choice(("out", "audit")))
            inputs.ack(message)
        if chance.random() < 0.1:
            raise Discarded
    return len(messages)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
