"""The picture of `mqplug top` on the page of the command line: one screen with a small shop in memory.

`python -m docs.top_picture` draws it; with `--check` it only reports whether the picture is current. Numbers and times
are made up, so that they are the same each time.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import mqplug
from mqplug_cli._top.app import TopApp
from mqplug_cli._top.model import Sample, Subject
from mqplug_cli._top.probe import Probe

PICTURE = Path(__file__).with_name("top.svg")
SIZE = (110, 16)
STEPS = 24
EVERY_S = 2.0
TOPICS = {"orders": 4, "payments": 2, "refunds": 1, "audit": 1}
SPEEDS = {"orders": 40, "payments": 24, "refunds": 3, "audit": 0}
READ = {
    ("billing", "orders"): 0.9,
    ("billing", "payments"): 1.0,
    ("shipping", "orders"): 1.0,
    ("search", "orders"): 0.0,
}
TEXT = "{http://www.w3.org/2000/svg}text"


def picture() -> str:
    """Return the picture as SVG."""
    with mqplug.connect("memory://shop") as mq:
        found = list(samples(mq))
        app = TopApp(Subject(mq, "memory://shop", ("memory://shop",)), every=3600, take=lambda: found[-1])
        for each in found[:-1]:
            app.model.add(each)
        return app.picture(SIZE)


def samples(mq: mqplug.Client) -> Iterator[Sample]:
    """Yield the samples of a shop at work."""
    now = 0.0
    for topic, partitions in TOPICS.items():
        mq.create_topic(topic, partitions=partitions, retention=7 * 86400)
    for group, topic in READ:
        mq.reset_group(group, topic, mqplug.EARLIEST)
    probe = Probe(mq, timeout=10, group_seconds=3600, clock=lambda: now)
    yield probe.take()
    with mq.producer() as out:
        for step in range(STEPS):
            now += EVERY_S
            for topic, speed in SPEEDS.items():
                count = round(speed * (1.5 + math.sin(step / 3)))
                out.send_many([mqplug.Record(b"x", topic=topic, partition=at % TOPICS[topic]) for at in range(count)])
            for (group, topic), share in READ.items():
                move(mq, group, topic, share)
            yield probe.take()


def move(mq: mqplug.Client, group: str, topic: str, share: float) -> None:
    """Move a group past a share of the messages it has yet to read."""
    marks = mq.watermarks(topic)
    places = {each: at.position for each, at in mq.positions(topic, group=group).items()}
    mq.reset_group(
        group,
        topic,
        {each: mq.advance(at, int(mq.distance(at, marks[each].high) * share)) for each, at in places.items()},
    )


def texts(svg: str) -> list[str]:
    """Return the texts in a picture, in order."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(TEXT)]


def main(arguments: list[str]) -> int:
    """Draw the picture, or check that it is current."""
    warnings.simplefilter("error")
    drawn = picture()
    if "--check" in arguments:
        same = PICTURE.exists() and texts(PICTURE.read_text()) == texts(drawn)
        if not same:
            sys.stderr.write(f"{PICTURE.name} is stale: run python -m docs.top_picture\n")
        return 0 if same else 1
    PICTURE.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
