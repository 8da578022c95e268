"""A reader that takes a message now and then, in its own process: ``python -m benchmarks._kafka_slow_reader``.

It prints one line of JSON: its peak memory in MiB, before it opened its consumer and after.
"""

from __future__ import annotations

import json
import sys
import time

import mqplug
from benchmarks._process_memory import peak_memory_mib

PAUSE_S = 0.05
READ_S = 15.0


def read_slowly(url: str, topic: str) -> dict[str, float]:
    """Read a message at a time with pauses. Return the peaks before and while reading, and the number of messages."""
    with mqplug.connect(url) as mq:
        with peak_memory_mib() as before:
            mq.watermarks(topic)
        with peak_memory_mib() as reading, mq.consumer(topic, start=mqplug.EARLIEST) as consumer:
            end, messages = time.monotonic() + READ_S, 0
            while time.monotonic() < end:
                messages += consumer.receive(30) is not None
                time.sleep(PAUSE_S)
    return {"before": before[0], "reading": reading[0], "messages": messages}


if __name__ == "__main__":
    print(json.dumps(read_slowly(sys.argv[1], sys.argv[2])))
