"""Sends numbered messages to topics until it is stopped: ``sending_program.py NAME URL TOPIC URL TOPIC ...``.

No two runs send the same message, because each has its own name. If one of the backends is a RocksMQ store,
this process is often its owner.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import mqplug
from mqplug import Record

PARTITIONS = 2
PAUSE_S = 0.1  # a few hundred messages a second: enough for a Spark batch, which stays fast


def main(name: str, *places: str) -> None:
    """Send to each topic in turn. Failed and unknown messages are not sent again: only stored ones count."""
    with ExitStack() as closing:
        outs = []
        for url, topic in zip(places[::2], places[1::2], strict=True):
            client = closing.enter_context(mqplug.connect(url))
            outs.append(closing.enter_context(client.producer(topic)))
        sys.stdout.write("sending\n")
        sys.stdout.flush()
        for records in _records(name):
            for out in outs:
                try:
                    out.send_many(records, timeout=30)
                except mqplug.Error as error:
                    sys.stderr.write(f"{type(error).__name__}: {error}\n")
            time.sleep(PAUSE_S)


def _records(name: str) -> Iterator[list[Record]]:
    for number in count():
        yield [
            Record(f"{name} {number} {each}".encode(), key=b"%d" % each, headers=[("n", None)], partition=partition)
            for partition in range(PARTITIONS)
            for each in range(10)
        ]


if __name__ == "__main__":
    main(*sys.argv[1:])
