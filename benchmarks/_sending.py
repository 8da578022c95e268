"""What the core adds to a message that is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mqplug
from benchmarks._paired import Contest, Side, Work
from benchmarks._synthetic import TOPIC

VALUE = b"x" * 128
BATCH = 1000


def sending(mq: mqplug.Client, messages: int) -> list[Contest]:
    """Without waiting, with, and many at once."""

    def ours(words: str, loop: Callable[[mqplug.Producer, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            with mq.producer(TOPIC) as out:
                yield lambda: loop(out, messages)

        return Side("mqplug", words, prepare)

    @contextmanager
    def prepare_bare() -> Iterator[Work]:
        yield lambda: _bare(messages)

    bare = Side("bare loop", "a list takes each message: log.append(value)", prepare_bare)
    return [
        Contest(name="send: submit, unwatched", ours=ours("out.submit(value)", _submit), rivals=[bare]),
        Contest(name="send: submit with a key", ours=ours("out.submit(value, key=key)", _keyed), rivals=[bare]),
        Contest(name="send: submit, results kept", ours=ours("out.submit(value), then result()", _kept), rivals=[bare]),
        Contest(name="send: and wait", ours=ours("out.send(value)", _send), rivals=[bare]),
        Contest(name="send: many", ours=ours("out.send_many([value] * 1000)", _many), rivals=[bare]),
    ]


def _bare(messages: int) -> int:
    log: list[bytes] = []
    keep = log.append
    for _ in range(messages):
        keep(VALUE)
    return messages


def _submit(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages):
        out.submit(VALUE)
    return messages


def _keyed(out: mqplug.Producer, messages: int) -> int:
    keys = [b"customer-%d" % number for number in range(100)]
    for number in range(messages):
        out.submit(VALUE, key=keys[number % 100])
    return messages


def _kept(out: mqplug.Producer, messages: int) -> int:
    handles = [out.submit(VALUE) for _ in range(messages)]
    for handle in handles:
        handle.result()
    return messages


def _send(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages):
        out.send(VALUE)
    return messages


def _many(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages // BATCH):
        out.send_many([VALUE] * BATCH)
    return messages
