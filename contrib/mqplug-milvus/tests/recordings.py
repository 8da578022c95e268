"""Messages that a Milvus 2.3.5 wrote into its topics, and what its queries then answered."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path

QUEUES = ["kafka", "pulsar", "rocksmq"]
FOLDER = Path(__file__).parent / "recorded"


@cache
def recorded(queue):
    """Return the recording of a Milvus on this queue."""
    return json.loads((FOLDER / f"{queue}.json").read_text())


def messages(queue):
    """Return each topic's messages as (value, headers), in order."""
    return {
        topic: [
            (base64.b64decode(each["value"]), [(name, text.encode()) for name, text in each.get("headers", {}).items()])
            for each in stored
        ]
        for topic, stored in recorded(queue)["topics"].items()
    }


def answers(queue, collection):
    """Return the rows that Milvus' query answered, by primary key."""
    return {row["pk"]: row for row in recorded(queue)["rows"][collection]}


def replay(mq, queue):
    """Send the recorded messages to topics of the same names. Return the names."""
    for topic, stored in messages(queue).items():
        mq.create_topic(topic)
        with mq.producer(topic) as out:
            for value, headers in stored:
                out.submit(value, headers=headers)
    return sorted(messages(queue))


def plain(value):
    """Return a value as JSON has it: bytes as hexadecimal digits."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case _:
            return value
