"""The steps of the demo: each changes or reads a log, prints its result, and keeps it for the verdict."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from uuid import uuid4

import attrs

import mqplug
from mqplug.tools import shown
from mqplug_cli._arguments.client_options import ClientOptions, checked_target
from mqplug_cli._demo.group_reading import read_to_end, received_values, stored_place, wait_for_shares
from mqplug_cli._demo.killed_writer import kill_writer
from mqplug_cli._demo.verdict import DemoReading, Findings, StoredPlace, judge, payload_of

DEMO_PARTITIONS = 4
GROUP_NAME = "demo-readers"
DEMO_WRITER = "writer"
SEND_BATCH_MESSAGES = 1000
DISTINCT_KEYS = 100
MAX_SENDS_PER_SECOND = 10_000  # messages, for each second of the demo
SENDING_SHARE, KILLING_SHARE = 0.3, 0.15  # of the demo's seconds
CALL_TIMEOUT_S = 30
SEEK_BACK_MESSAGES = 5_000  # in each partition


@attrs.frozen
class DemoResult:
    """The messages that went wrong, and other problems."""

    findings: Findings
    problems: list[str]


class DemoRun:
    """A run of the demo on one backend. ``say`` gets each line of the report."""

    def __init__(self, url: str, seconds: float, say: Callable[[str], None]) -> None:
        self._url = url
        self._client = ClientOptions(checked_target(url), CALL_TIMEOUT_S, {})
        self._seconds = seconds
        self._say = say
        self._topic = f"mqplug-demo-{uuid4().hex[:8]}"
        self._stored: dict[bytes, StoredPlace] = {}
        self._possible: frozenset[bytes] = frozenset()
        self._messages: list[mqplug.Message] = []
        self._reread = DemoReading({}, [])
        self._problems: list[str] = []

    def run(self) -> DemoResult:
        """Run all steps, and return the result."""
        with self._client.open(creates=True) as mq:
            self._say(f"mqplug {mqplug.__version__} on {shown(self._url)}, with the topic {self._topic}")
            self._send_and_share(mq)
            survives = mq.capabilities.persistent
            if not survives:
                self._say("killed      nothing: this backend stores nothing beyond its process")
                self._read_on(mq)
        if survives:
            self._kill()
            began = time.perf_counter()
            with self._client.open(creates=True) as mq:
                self._say(f"reopened    in {time.perf_counter() - began:.2f} s")
                self._read_on(mq)
        whole = DemoReading(self._stored, received_values(self._messages), self._possible)
        return DemoResult(judge(whole) + judge(self._reread), self._problems)

    def _send_and_share(self, mq: mqplug.Client) -> None:
        mq.create_topic(self._topic, partitions=DEMO_PARTITIONS)
        with mq.consumer(self._topic, group=GROUP_NAME) as one, mq.consumer(self._topic, group=GROUP_NAME) as two:
            shares = wait_for_shares([one, two], DEMO_PARTITIONS)
            self._say(f"shared      {DEMO_PARTITIONS} partitions between two members of a group, {_sum(shares)}")
            self._send(mq)
            reading = read_to_end(mq, self._topic, [one, two])
        self._messages += reading.messages
        speed = _speed(len(reading.messages), reading.seconds)
        self._say(f"received    {speed}, {_sum(reading.shares)}, and acked each")

    def _send(self, mq: mqplug.Client) -> None:
        ids: list[mqplug.MessageId] = []
        began = time.perf_counter()
        end = began + SENDING_SHARE * self._seconds
        with mq.producer(self._topic) as out:
            while len(ids) < MAX_SENDS_PER_SECOND * self._seconds and time.perf_counter() < end:
                ids += out.send_many([_record(number) for number in range(len(ids), len(ids) + SEND_BATCH_MESSAGES)])
            speed = _speed(len(ids), time.perf_counter() - began)
        self._stored |= {payload_of(DEMO_WRITER, number): stored_place(each) for number, each in enumerate(ids)}
        self._say(f"sent        {speed}, and waited for each batch of {SEND_BATCH_MESSAGES:,}")

    def _kill(self) -> None:
        killed = kill_writer(self._url, self._topic, KILLING_SHARE * self._seconds)
        self._stored |= killed.acknowledged
        self._possible = killed.possible
        acknowledged = f"{len(killed.acknowledged):,} of its messages were acknowledged"
        self._say(f"killed      -9 another process while it was sending: {acknowledged}")

    def _read_on(self, mq: mqplug.Client) -> None:
        with mq.consumer(self._topic, group=GROUP_NAME) as reader:
            reading = read_to_end(mq, self._topic, [reader])
            if self._possible:
                self._report_survivors({message.value for message in reading.messages})
            self._messages += reading.messages
            self._seek_back(mq, reader)
        self._compare_watermarks(mq)
        mq.delete_topic(self._topic)

    def _report_survivors(self, values: set[bytes | None]) -> None:
        earlier = {message.value for message in self._messages}
        before = len(values & earlier)
        there = len(values & self._stored.keys()) - before
        besides = f"{len(values & self._possible)} unacknowledged, and {before} acked before"
        self._say(f"found       {there:,} of these, {besides}")

    def _seek_back(self, mq: mqplug.Client, reader: mqplug.Consumer) -> None:
        by_partition = defaultdict(list)
        for message in self._messages:
            by_partition[message.partition].append(message)
        again: list[mqplug.Message] = []
        for messages in by_partition.values():
            target = messages[-SEEK_BACK_MESSAGES:][0].id
            reader.seek(target)
            again += [message for message in messages[-SEEK_BACK_MESSAGES:] if message.id >= target]
        reading = read_to_end(mq, self._topic, [reader])
        stored = {value: place for place, value in received_values(again)}
        self._reread = DemoReading(stored, received_values(reading.messages))
        same = "the same" if judge(self._reread).clean else "NOT the same"
        self._say(f"sought      back by id, and received {same} {len(reading.messages):,} messages again")

    def _compare_watermarks(self, mq: mqplug.Client) -> None:
        marks = mq.watermarks(self._topic)
        lag = sum(mq.lag(self._topic, group=GROUP_NAME).values())
        count = sum(each.count for each in marks.values())
        self._say(f"watermarks  count {count:,} messages stored; the group's lag is {lag}")
        seen = len({message.value for message in self._messages})
        if all(each.exact for each in marks.values()) and count != seen:
            self._problems.append(f"{count:,} messages are stored, but {seen:,} were received")
        if lag:
            self._problems.append(f"the group has acked everything, but its lag is {lag}")


def _record(number: int) -> mqplug.Record:
    return mqplug.Record(payload_of(DEMO_WRITER, number), key=b"customer-%d" % (number % DISTINCT_KEYS))


def _sum(shares: list[int]) -> str:
    return " + ".join(f"{share:,}" for share in shares)


def _speed(messages: int, seconds: float) -> str:
    return f"{messages:,} messages in {seconds:.2f} s ({messages / seconds:,.0f} a second)"
