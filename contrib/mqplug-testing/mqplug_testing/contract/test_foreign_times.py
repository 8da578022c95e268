"""HP: times that mqplug does not send, and that arrive from other producers."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from mqplug import EARLIEST, Client, InvalidTimestamp, Record, Retry
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.foreign_times import ForeignTimes
from mqplug_testing._case_tools.registry import Registry

case = Registry()

MICROSECONDS: Final = 1_700_000_000_000_000  # as a producer sends that takes them for milliseconds
NANOSECONDS: Final = 1_700_000_000_000_000_000


def _extended(bench: Bench, *times: int) -> Client:
    assert bench.harness.extended is not None
    return bench.connect(partial(bench.harness.extended, [ForeignTimes(*times)]))


@case("HP-19", hooks=("extended",))
def test_foreign_times(bench: Bench) -> None:
    """A message with any time arrives, as does its batch; a time that is no datetime is ``InvalidTimestamp``."""
    topic, ids = bench.filled(4)
    times = [MICROSECONDS, NANOSECONDS, -5]
    with _extended(bench, *times).consumer(topic, start=EARLIEST) as reader:
        messages = bench.delivers(reader, ids)
    for message, milliseconds in zip(messages, times[:2], strict=False):
        for name in ("timestamp", "log_time"):
            with bench.raises(InvalidTimestamp) as caught:
                getattr(message, name)
            bench.equal(getattr(caught.value, "milliseconds", None), milliseconds)
        bench.equal(pickle.loads(pickle.dumps(message)), message)
        bench.that(topic in repr(message), "it can be shown")
    before = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=5)
    bench.equal((messages[2].timestamp, messages[2].log_time), (before, before))


@case("HP-20", needs=("timestamps_producer",))
def test_impossible_times(bench: Bench) -> None:
    """A time before 1970 or beyond the year 9999 is a ``ValueError`` when it is sent, and nothing is stored."""
    topic = bench.topic()
    out = bench.filler(topic)
    for moment in (-1, 253_402_300_800_000, MICROSECONDS, NANOSECONDS, 2**70, datetime(1969, 12, 31, tzinfo=UTC)):
        with bench.raises(ValueError):
            out.send(b"x", timestamp=moment)
        with bench.raises(ValueError):
            out.submit(b"x", timestamp=moment)
        with bench.raises(ValueError):
            out.send_many([Record(b"x"), Record(b"x", timestamp=moment)])
    last = out.send(b"y", partition=0)
    bench.equal([message.id for message in bench.read(topic)], [last])


@case(
    "HP-21", needs=("dead_letter", "ordered", "headers", "durable_groups", "timestamps_producer"), hooks=("extended",)
)
def test_foreign_dead_letters(bench: Bench) -> None:
    """A message whose time cannot be sent becomes a dead letter with the log's time, and its own in a header."""
    topic, dead = bench.topic(), bench.topic()
    ids = bench.fill(topic, 2)
    client = _extended(bench, NANOSECONDS, -5)
    with client.consumer(topic, group=bench.name(), retry=Retry(1, delay=0), dead_letter=dead) as member:
        for message in bench.delivers(member, ids):
            member.nack(message)
        letters = bench.take(bench.reader(dead), 2)
        bench.wait(lambda: member.statistics().dead_lettered == 2, "both count as dead letters")
    times = [dict(letter.headers).get("mqplug-dead-timestamp") for letter in letters]
    bench.equal(times, [b"%d" % NANOSECONDS, b"-5"])
    now = datetime.now(UTC)
    bench.that(all(abs(letter.timestamp - now) < timedelta(hours=1) for letter in letters), "they have the log's time")
