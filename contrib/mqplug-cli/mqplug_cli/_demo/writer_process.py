"""A process that sends until it is killed, and prints where each batch was stored.

It reads its task from one line of JSON on standard input, so that no secret of a URL appears in a list of processes.
Each line that it prints is a batch: the number of its first message, and the place of each message.
"""

from __future__ import annotations

import json
import sys
from itertools import count

import mqplug
from mqplug_cli._demo.verdict import payload_of

WRITER_BATCH_MESSAGES = 100


def main() -> None:
    """Send batches for ever."""
    task = json.loads(sys.stdin.readline())
    writer = task["writer"]
    with mqplug.connect(task["url"]) as mq, mq.producer(task["topic"]) as out:
        for first in count(0, WRITER_BATCH_MESSAGES):
            ids = out.send_many(payload_of(writer, number) for number in range(first, first + WRITER_BATCH_MESSAGES))
            places = [(each.log.partition, each.coordinates) for each in ids]
            print(json.dumps([first, places]), flush=True)  # noqa: T201 - this is how the process answers


if __name__ == "__main__":
    main()
