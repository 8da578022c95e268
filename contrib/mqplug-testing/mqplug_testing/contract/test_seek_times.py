"""SEEK by time: the first message in log order whose ``log_time`` is at or after a moment."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

import attrs

from mqplug import EARLIEST, Message, MessageId, Record, at_time
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

MILLISECOND = timedelta(milliseconds=1)


@attrs.frozen
class Timeline:
    """A topic, its messages as they were read, and what a seek to any moment must find."""

    topic: str
    messages: list[Message]

    @property
    def ids(self) -> list[MessageId]:
        return [message.id for message in self.messages]

    @property
    def moments(self) -> list[datetime]:
        return [message.log_time for message in self.messages]

    def index_at(self, moment: datetime) -> int:
        """Return the index of the first message at or after a moment, or their number if there is none."""
        return next((index for index, each in enumerate(self.moments) if each >= moment), len(self.messages))


def timeline(bench: Bench, *minutes: int) -> Timeline:
    """Create a topic with a message for each of these ages in minutes, which set the timestamps if a producer can.

    If the log keeps its own time, the messages are at least two milliseconds apart.
    """
    topic, now = bench.topic(), datetime.now(UTC).replace(microsecond=0)
    for number, ago in enumerate(minutes):
        timestamp = now - timedelta(minutes=ago) if bench.client.capabilities.timestamps_producer else None
        bench.filler(topic).send(b"%d" % number, timestamp=timestamp, partition=0)
        time.sleep(0.002)
    return Timeline(topic, bench.read(topic))


def check(bench: Bench, line: Timeline, *moments: datetime) -> None:
    """Check that a seek to each moment delivers the first message at or after it, and all later ones."""
    reader = bench.reader(line.topic)
    for moment in moments:
        index = line.index_at(moment)
        reader.seek(at_time(moment))
        bench.stands(reader.position()[0], line.ids, index, f"{moment} of {line.moments}")
        bench.delivers(reader, line.ids[index:], f"{moment} of {line.moments}")


@case("SEEK-18", needs=("seek_time",))
def test_before_all(bench: Bench) -> None:
    """A seek to a time before all messages delivers the first one."""
    line = timeline(bench, 50, 40, 30)
    check(bench, line, line.moments[0] - timedelta(days=1), datetime(1970, 1, 1, tzinfo=UTC))


@case("SEEK-19", needs=("seek_time",))
def test_after_all(bench: Bench) -> None:
    """A seek to a time after all messages is a seek to the end: the next message sent is delivered."""
    line = timeline(bench, 50, 40, 30)
    reader = bench.reader(line.topic)
    reader.seek(at_time(line.moments[-1] + timedelta(days=1)))
    bench.equal(reader.position()[0], bench.marks(line.topic).high)
    bench.only_new(reader, line.topic)


@case("SEEK-20", needs=("seek_time",))
def test_exactly_at(bench: Bench) -> None:
    """A seek to the time of a message delivers that message."""
    line = timeline(bench, 50, 40, 30, 20)
    check(bench, line, *line.moments)


@case("SEEK-21", needs=("seek_time",))
def test_between(bench: Bench) -> None:
    """A seek to a time between two messages delivers the later one."""
    line = timeline(bench, 50, 40, 30, 20)
    check(bench, line, *[moment + MILLISECOND for moment in line.moments[:-1]])


@case("SEEK-22", needs=("seek_time",))
def test_equal_times(bench: Bench) -> None:
    """Of many messages with the same time, a seek to it delivers the first."""
    topic, now = bench.topic(), datetime.now(UTC).replace(microsecond=0)
    kept = bench.client.capabilities.timestamps_producer
    for ago in (50, 40, 30):
        timestamp = now - timedelta(minutes=ago) if kept else None
        bench.filler(topic).send_many([Record(b"%d" % number, timestamp=timestamp) for number in range(4)])
        time.sleep(0.002)
    line = Timeline(topic, bench.read(topic))
    bench.equal(len(line.messages), 12)
    check(bench, line, *sorted(set(line.moments)))


@case("SEEK-23", needs=("seek_time",))
def test_impossible_times(bench: Bench) -> None:
    """A negative time, one beyond the year 9999 and one without a time zone are refused, and nothing moves."""
    topic, ids = bench.filled(4)
    reader = bench.reader(topic)
    bench.delivers(reader, ids[:2])
    for moment in (-1, 10**15, datetime(2026, 1, 1)):
        with bench.raises(ValueError):
            reader.seek(at_time(moment))
    for wrong in (True, 1.5, "2026-01-01"):
        with bench.raises(TypeError):
            reader.seek(at_time(wrong))  # type: ignore[arg-type]
    bench.delivers(reader, ids[2:])


@case("SEEK-24", needs=("seek_time", "timestamps_producer"))
def test_times_that_go_back(bench: Bench) -> None:
    """If times go up and down along the log, a seek finds the first message in log order that is late enough."""
    minutes = random.Random(3).sample(range(1, 50), 12)
    line = timeline(bench, 25, 5, 45, 15, *minutes)
    moments = sorted(set(line.moments))
    check(bench, line, *moments, *[moment + MILLISECOND for moment in moments])
    reader = bench.reader(line.topic)
    reader.seek(EARLIEST)
    bench.delivers(reader, line.ids)
