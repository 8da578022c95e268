"""The crash test: kills a program again and again while it uses a store, and compares the store with a model.

The victim (``torture_victim.py``) reports to the torturer: one line of JSON before each operation, and one after it.
``{"thread": 1, "begin": "send", "topic": "a", "partition": 0, "numbers": [7, 9]}``: messages 7 and 8;
``{"thread": 1, "done": {"offsets": [0, 1]}}``. An operation that was begun but not done may or may not have happened.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import attrs

import mqplug
from mqplug import EARLIEST, Position, PositionLost

VictimReport = dict[str, Any]
TORTURE_GROUP: Final = "workers"
SHARERS: Final = "sharers"  # the group in mode shared
TORTURE_PARTITIONS: Final = 3


def value_for(number: int) -> bytes:
    """Return the value of a message. It identifies the message."""
    return b"%d:" % number + bytes([number % 251]) * (number * 7919 % 2000)


def number_in(value: bytes | None) -> int | None:
    """Return the number of the message with this value, or None if there is none."""
    number, colon, _ = (value or b"").partition(b":")
    if not colon or not number.isdigit() or value_for(int(number)) != value:
        return None
    return int(number)


def low_position(lost: PositionLost) -> Position:
    """Return the position at which a trimmed log begins."""
    if lost.low is None:
        raise lost
    return lost.low


def partition_of(lost: PositionLost) -> int:
    """Return the partition of a trimmed log."""
    return low_position(lost).log.partition


ExpectedPosition = tuple[int, int]  # partition, offset


@attrs.define
class ExpectedPartition:
    """The stored messages of one partition, and how much of it was trimmed."""

    stored: dict[int, int] = attrs.field(factory=dict)  # number by offset
    low: int = 0
    highest: int = -1  # of all offsets ever seen


@attrs.define
class ExpectedTopic:
    """One topic: its partitions, and the certain and possible acks of its group."""

    partitions: list[ExpectedPartition] = attrs.field(
        factory=lambda: [ExpectedPartition() for _ in range(TORTURE_PARTITIONS)]
    )
    acked: set[ExpectedPosition] = attrs.field(factory=set)
    perhaps: set[ExpectedPosition] = attrs.field(factory=set)
    taken: dict[ExpectedPosition, int] = attrs.field(factory=dict)  # by members in mode shared: the last attempt
    settled: set[ExpectedPosition] = attrs.field(factory=set)  # acked by them


@attrs.define
class StoreModel:
    """The expected content of a store, from the victim's reports."""

    topics: dict[str, ExpectedTopic] = attrs.field(factory=dict)
    begun: dict[int, VictimReport] = attrs.field(factory=dict)
    sent: int = 0
    acks: int = 0
    probes: int = 0  # the number of the last message that was sent to see what comes before it
    wrong: list[str] = attrs.field(factory=list)

    def process(self, report: VictimReport) -> None:
        """Process one report."""
        if "begin" in report:
            self.begun[report["thread"]] = report
            if report["begin"] == "forget_shared":  # done or not: nothing is certain afterwards
                self._forget_shared(report, {})
        elif "done" in report:
            begun = self.begun.pop(report["thread"])
            getattr(self, f"_{begun['begin']}")(begun, report["done"])
        elif "failed" in report:
            self.wrong.append(f"the victim failed: {report['failed']}")

    def _create(self, begun: VictimReport, _: VictimReport) -> None:
        self.topics[begun["topic"]] = ExpectedTopic()

    def _delete(self, begun: VictimReport, _: VictimReport) -> None:
        del self.topics[begun["topic"]]

    def _send(self, begun: VictimReport, done: VictimReport) -> None:
        partition = self.topics[begun["topic"]].partitions[begun["partition"]]
        numbers = range(*begun["numbers"])
        self.sent += len(numbers)
        for offset, number in zip(done["offsets"], numbers, strict=True):
            if offset <= partition.highest:
                self.wrong.append(f"{begun['topic']}: the offset {offset} was given out twice")
            partition.stored[offset] = number
            partition.highest = offset

    def _ack(self, begun: VictimReport, _: VictimReport) -> None:
        topic = self.topics[begun["topic"]]
        places = {(partition, offset) for partition, offset in begun["places"]}
        for place in places & topic.acked:
            self.wrong.append(f"{begun['topic']}: {place} came again after its ack")
        topic.acked |= places
        self.acks += len(places)

    def _trim(self, begun: VictimReport, _: VictimReport) -> None:
        partition = self.topics[begun["topic"]].partitions[begun["partition"]]
        _trimmed(partition, max(partition.low, begun["offset"]))

    def _forget(self, begun: VictimReport, _: VictimReport) -> None:
        """Forget the acks of a partition: a seek was begun."""
        topic = self.topics[begun["topic"]]
        forgotten = {place for place in topic.acked if place[0] == begun["partition"]}
        topic.acked -= forgotten
        topic.perhaps |= forgotten

    def _take(self, begun: VictimReport, done: VictimReport) -> None:
        """Check that attempts grow with each hand-out, whatever was killed in between."""
        topic = self.topics[begun["topic"]]
        for partition, offset, attempt in done["taken"]:
            place = (partition, offset)
            if place in topic.settled:
                self.wrong.append(f"{begun['topic']}: {place} came again after its ack, to a member in mode shared")
            if attempt <= (before := topic.taken.get(place, 0)):
                self.wrong.append(f"{begun['topic']}: {place} came as attempt {attempt}, after attempt {before}")
            topic.taken[place] = attempt

    def _settle(self, begun: VictimReport, _: VictimReport) -> None:
        places = {(partition, offset) for partition, offset in begun["places"]}
        self.topics[begun["topic"]].settled |= places
        self.acks += len(places)

    def _forget_shared(self, begun: VictimReport, _: VictimReport) -> None:
        """Forget attempts and acks of a partition: a seek was begun."""
        topic, partition = self.topics[begun["topic"]], begun["partition"]
        topic.taken = {place: attempt for place, attempt in topic.taken.items() if place[0] != partition}
        topic.settled = {place for place in topic.settled if place[0] != partition}

    def verify(self, mq: mqplug.Client) -> None:
        """Compare with a store after its owner was killed, and continue with its content."""
        begun, self.begun = {report["topic"]: report for report in self.begun.values()}, {}
        held = set(mq.topics())
        for name in sorted(held | set(self.topics) | set(begun)):
            report = begun.get(name, {"begin": None})
            if name in held:
                self._verify(mq, name, report)
            elif name in self.topics:
                del self.topics[name]
                if report["begin"] != "delete":
                    self.wrong.append(f"the topic {name} is gone")

    def _verify(self, mq: mqplug.Client, name: str, report: VictimReport) -> None:
        if name not in self.topics:
            if report["begin"] != "create":
                self.wrong.append(f"the topic {name} was deleted, and is there again")
            self.topics[name] = ExpectedTopic()
        topic = self.topics[name]
        if report["begin"] == "ack":
            topic.perhaps |= {(partition, offset) for partition, offset in report["places"]}
        if report["begin"] == "forget":
            self._forget(report, {})
        watermarks = mq.watermarks(name)
        for number, partition in enumerate(topic.partitions):
            mine = report.get("partition") == number
            maybe = range(*report["numbers"]) if mine and report["begin"] == "send" else range(0)
            trim = report["offset"] if mine and report["begin"] == "trim" else partition.low
            low = watermarks[number].low.coordinates[0]
            if low not in {partition.low, max(partition.low, trim)}:
                self.wrong.append(f"{name}/{number}: low is {low}, not {partition.low}")
            _trimmed(partition, low)
            self.wrong += [f"{name}/{number}: {each}" for each in _compared(mq, name, number, partition, maybe)]
        self._consume(mq, name, topic)

    def _consume(self, mq: mqplug.Client, name: str, topic: ExpectedTopic) -> None:
        """Check that unacked messages come, and no acked ones. A last message marks the end."""
        with mq.producer(name) as out, mq.consumer(name, group=TORTURE_GROUP) as group:
            last = set[ExpectedPosition]()
            for number, partition in enumerate(topic.partitions):
                self.probes += 1
                offset = out.send(value_for(self.probes), partition=number).coordinates[0]
                if offset <= partition.highest:
                    self.wrong.append(f"{name}/{number}: the offset {offset} was given out twice")
                partition.stored[offset], partition.highest = self.probes, offset
                last.add((number, offset))
            came = set[ExpectedPosition]()
            while last - came:
                try:
                    batch = group.receive_many(1000, timeout=30)
                except PositionLost as lost:
                    self._forget({"topic": name, "partition": partition_of(lost)}, {})
                    group.seek(low_position(lost))
                    continue
                if not batch:
                    self.wrong.append(f"{name}: {last - came} did not come")
                    break
                came |= {(message.partition, message.id.coordinates[0]) for message in batch}
        stored = {(number, offset) for number, each in enumerate(topic.partitions) for offset in each.stored}
        self.wrong += [f"{name}: {place} came again after its ack" for place in sorted(came & topic.acked)]
        missing = stored - came - topic.acked - topic.perhaps
        self.wrong += [f"{name}: {place} did not come again, and was not acked" for place in sorted(missing)]
        topic.acked = (topic.acked | (topic.perhaps - came)) & stored
        topic.perhaps = set()


def _trimmed(partition: ExpectedPartition, low: int) -> None:
    partition.low = low
    partition.stored = {offset: number for offset, number in partition.stored.items() if offset >= low}


def _compared(mq: mqplug.Client, name: str, number: int, partition: ExpectedPartition, maybe: range) -> Iterator[str]:
    """Yield errors in the messages of a partition. Accept messages that were being sent and are there."""
    found: dict[int, int] = {}
    for message in mq.read(name, start=EARLIEST, partitions=[number]):
        offset, known = message.id.coordinates[0], number_in(message.value)
        if known is None:
            yield f"the message at {offset} was never sent: {message.value!r:.60}"
        else:
            found[offset] = known
    for offset in partition.stored.keys() - found.keys():
        yield f"the message at {offset} is lost"
    for offset, each in sorted(found.items()):
        if offset not in partition.stored and (each not in maybe or offset <= partition.highest):
            yield f"the message {each} at {offset} was never sent here"
        elif partition.stored.setdefault(offset, each) != each:
            yield f"the message at {offset} is {each}, not {partition.stored[offset]}"
    numbers = [found[offset] for offset in sorted(found)]
    if numbers != sorted(set(numbers)):
        yield "messages came twice, or out of order"
    partition.highest = max(partition.highest, *found, -1)


_VICTIM: Final = Path(__file__).with_name("torture_victim.py")
_EARLY_KILL_SHARE: Final = 0.2  # share of kills that come while the victim starts, during recovery from a crash
_NUMBERS_PER_CYCLE: Final = 10_000_000  # of messages


@attrs.frozen
class TortureVerdict:
    """The result of all cycles."""

    cycles: int
    sent: int
    acks: int
    wrong: tuple[str, ...]


def run_torture(path: Path, *, cycles: int, seconds: float, sync: str, seed: int) -> TortureVerdict:
    """Kill one victim in each of *cycles*, after up to *seconds*. Stop at the first error."""
    chance = random.Random(seed)
    model = StoreModel()
    done = 0
    while done < cycles and not model.wrong:
        numbers = (done + 1) * _NUMBERS_PER_CYCLE
        model.probes = numbers + _NUMBERS_PER_CYCLE * 9 // 10
        _kill_one(path, sync, chance, seconds, numbers, model)
        done += 1
        compare(path, sync, model)
    return TortureVerdict(done, model.sent, model.acks, tuple(model.wrong))


def compare(path: Path, sync: str, model: StoreModel) -> None:
    """Compare the store with the model."""
    settings = cast("Any", {"path": str(path), "sync": sync, "retention_interval": 0.05})
    try:
        with mqplug.connect("rocksmq", **settings) as mq:
            model.verify(mq)
    except mqplug.Error as error:
        model.wrong.append(f"{type(error).__name__}: {error}")


def _kill_one(path: Path, sync: str, chance: random.Random, seconds: float, numbers: int, model: StoreModel) -> None:
    early = chance.random() < _EARLY_KILL_SHARE
    delay = chance.uniform(0, 0.4 if early else seconds)
    command = [sys.executable, str(_VICTIM), str(path), sync, str(chance.randrange(1 << 30))]
    with subprocess.Popen([*command, str(numbers)], stdout=subprocess.PIPE, text=True) as victim:
        ready = threading.Event()
        listener = threading.Thread(target=_listen, args=(victim, model, ready))
        listener.start()
        if not early:
            ready.wait(60)
        threading.Event().wait(delay)
        victim.kill()
        listener.join()


def _listen(victim: subprocess.Popen[str], model: StoreModel, ready: threading.Event) -> None:
    """Pass the victim's reports to the model, except an incomplete last line."""
    for line in victim.stdout or ():
        if line.endswith("\n"):
            report: VictimReport = json.loads(line)
            if "ready" in report:
                ready.set()
            else:
                model.process(report)
    ready.set()
