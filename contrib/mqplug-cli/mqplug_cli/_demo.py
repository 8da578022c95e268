"""The steps of ``mqplug demo``: each changes or reads a log, prints its result, and keeps it for the verdict."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from uuid import uuid4

import attrs

import mqplug
from mqplug.introspection import shown
from mqplug.spi import Deadline
from mqplug_cli._client_options import ClientOptions, checked_target
from mqplug_cli._killed_writer import StoredPlace, kill_writer, payload_of

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
    """A run of the demo on one backend. ``say`` receives each line of the report."""

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


GROUP_READ_S = 60.0  # for a group to form, and for reading to the end
IDLE_RECEIVE_S = 0.1


@attrs.frozen
class Reading:
    """The received messages in order, the number received by each member, and the seconds it took."""

    messages: list[mqplug.Message]
    shares: list[int]
    seconds: float


def stored_place(message_id: mqplug.MessageId) -> StoredPlace:
    """Return the partition and the coordinates of an id."""
    return message_id.log.partition, message_id.coordinates


def received_values(messages: Sequence[mqplug.Message]) -> list[tuple[StoredPlace, bytes]]:
    """Return the place and the value of each message."""
    return [(stored_place(message.id), message.value or b"") for message in messages]


def wait_for_shares(members: Sequence[mqplug.Consumer], partitions: int) -> list[int]:
    """Wait until the members hold all partitions, each at least one. Return how many each holds."""
    deadline = Deadline(GROUP_READ_S)
    while not deadline.expired:
        for member in members:
            member.receive(timeout=IDLE_RECEIVE_S / 2)  # the topic is empty: this only lets it join
        shares = [len(member.assignment()) for member in members]
        if all(shares) and sum(shares) == partitions:
            return shares
    raise mqplug.Timeout(
        f"{len(members)} members did not share {partitions} partitions within {GROUP_READ_S:g} s", operation="demo"
    )


def read_to_end(mq: mqplug.Client, topic: str, members: Sequence[mqplug.Consumer]) -> Reading:
    """Receive and ack with each member in its own thread, to the end of its partitions."""
    ends = {partition: marks.high for partition, marks in mq.watermarks(topic).items()}
    arrived: list[mqplug.Message] = []
    stopping = Event()
    began = time.perf_counter()
    with ThreadPoolExecutor(len(members)) as pool:
        try:
            readers = [pool.submit(_read, member, ends, arrived, stopping) for member in members]
            shares, last = zip(*(reader.result() for reader in readers), strict=True)
        finally:
            stopping.set()
    return Reading(arrived, list(shares), max(*last, began + 1e-6) - began)


def _read(
    member: mqplug.Consumer, ends: dict[int, mqplug.Position], arrived: list[mqplug.Message], stopping: Event
) -> tuple[int, float]:
    """Read to the end and store the acks. Return the number of messages and the time of the last one."""
    share, last, deadline = 0, 0.0, Deadline(GROUP_READ_S)
    while not stopping.is_set() and not deadline.expired:
        message = member.receive(timeout=IDLE_RECEIVE_S)
        if message is not None:
            arrived.append(message)
            member.ack(message)
            share, last = share + 1, time.perf_counter()
        elif _is_at_end(member.position(), ends):
            break
    member.commit()
    return share, last


def _is_at_end(held: dict[int, mqplug.Position], ends: dict[int, mqplug.Position]) -> bool:
    return bool(held) and all(position >= ends[partition] for partition, position in held.items())


ReceivedValues = Sequence[tuple[StoredPlace, bytes]]


@attrs.frozen
class DemoReading:
    """One reading of the log: the expected messages, and the received ones in order.

    ``stored`` maps each value to its acknowledged place. A value in ``possible`` was unacknowledged when its sender
    died: it may be stored or not. Values are unique, and contain their writer and number.
    """

    stored: Mapping[bytes, StoredPlace]
    received: ReceivedValues
    possible: frozenset[bytes] = frozenset()


@attrs.frozen
class Findings:
    """The number of wrong messages, by kind."""

    lost: int = 0
    twice: int = 0
    reordered: int = 0
    altered: int = 0

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            self.lost + other.lost,
            self.twice + other.twice,
            self.reordered + other.reordered,
            self.altered + other.altered,
        )

    @property
    def clean(self) -> bool:
        """Whether no message is wrong."""
        return self == Findings()

    def __str__(self) -> str:
        text = f"{self.lost} lost  {self.twice} twice  {self.reordered} reordered"
        return f"{text}  {self.altered} altered" if self.altered else text


def judge(run: DemoReading) -> Findings:
    """Return the wrong messages of one reading.

    Lost: acknowledged, and not received. Twice: received again. Reordered: within a partition, an id or a writer's
    number came after a higher one. Altered: received, but never sent, or at another place than acknowledged.
    """
    first: dict[bytes, StoredPlace] = {}
    for place, value in run.received:
        first.setdefault(value, place)
    return Findings(
        lost=len(run.stored.keys() - first.keys()),
        twice=len(run.received) - len(first),
        reordered=_reordered(first),
        altered=sum(not _is_right(run, value, place) for value, place in first.items()),
    )


def _is_right(run: DemoReading, value: bytes, place: StoredPlace) -> bool:
    if value in run.stored:
        return run.stored[value] == place
    return value in run.possible


def _reordered(first: Mapping[bytes, StoredPlace]) -> int:
    count = 0
    last_coordinates: dict[int, tuple[int, ...]] = {}
    last_number: dict[tuple[int, bytes], int] = {}
    for value, (partition, coordinates) in first.items():
        writer, number = _writer_and_number(value)
        of_writer = (partition, writer)
        if coordinates <= last_coordinates.get(partition, ()) or number <= last_number.get(of_writer, -1):
            count += 1
        last_coordinates[partition] = max(coordinates, last_coordinates.get(partition, ()))
        last_number[of_writer] = max(number, last_number.get(of_writer, -1))
    return count


def _writer_and_number(value: bytes) -> tuple[bytes, int]:
    """Return the writer and the number in a payload. A foreign payload has no number (it counts as altered)."""
    writer, _, rest = value.partition(b" ")
    number = rest.partition(b" ")[0]
    return (writer, int(number)) if number.isdigit() else (value, 0)
