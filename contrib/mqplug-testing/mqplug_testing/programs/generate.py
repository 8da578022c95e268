"""Chooses the next step of a program, by chance and by what the model knows.

A step is more likely the less often its operation followed the one before, so that all pairs of operations come soon.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from mqplug import MessageId
from mqplug_testing.model import Content
from mqplug_testing.model.consumers import ConsumerModel
from mqplug_testing.model.readings import Hand, Work
from mqplug_testing.model.topics import Sent
from mqplug_testing.programs import steps
from mqplug_testing.programs.play import CLIENTS, Play
from mqplug_testing.programs.starts import AnyPlace, LastOnes, Moment, NearMessage, Place, Symbol
from mqplug_testing.programs.steps import OfConsumer, Step

TOPICS: Final = ("t1", "t2")
GROUPS: Final = ("g1", "g2")
MAX_PARTITIONS: Final = 3
MAX_CONSUMERS: Final = 5
MAX_MEMBERS: Final = 3  # of a group; more than one only if the backend reports hand-overs
APART_MS: Final = (-3_600_000, -2000, -1000, -1000, 30_000)  # timestamps, from the beginning of the program
YEAR_9999_MS: Final = 253_402_300_799_999
FAR: Final = (1, 2**31, 2**32, 2**32 + 1, 2**53)
KEYS: Final = (b"", b"a", b"b", b"\x00\xff", b"customer-17")
VALUES: Final = (b"", b"1", b"\x00", bytes(range(256)), b"x" * 1000)
HEADERS: Final[tuple[tuple[tuple[str, bytes | None], ...], ...]] = (
    (("a", b"1"),), (("a", b"1"), ("a", b"2"), ("b", None)), (("", b""),), (("Zürich", b"\x00"), ("A", b"")),
)  # fmt: skip

Pairs = Counter[tuple[str, str]]


class Generator:
    """Draws the steps of one program."""

    def __init__(self, play: Play, luck: random.Random, pairs: Pairs) -> None:
        self._play = play
        self._luck = luck
        self._pairs = pairs
        self._count = Counter[str]()
        self._last = "begin"
        self._now = time.time_ns() // 1_000_000
        able = play.able
        self._clients = CLIENTS if able.multi_client else CLIENTS[:1]
        self._makers: dict[str, tuple[float, Callable[[], Step | None]]] = {
            "CreateTopic": (0.4, self._create),
            "DeleteTopic": (0.25 * able.delete_topic, self._delete),
            "AddPartitions": (0.3 * (able.add_partitions and able.partitions), self._grow),
            "Trim": (1.5 * able.trim, self._trim),
            "OpenProducer": (0.5, self._producer),
            "send": (3, lambda: self._send("send")),
            "send_many": (2, lambda: self._send("send_many")),
            "submit": (1, lambda: self._send("submit")),
            "Transact": (1.5 * able.transactions, self._transact),
            "OpenReader": (1, self._reader),
            "OpenMember": (1.5 * (able.durable_groups and able.ordered), self._member),
            "Close": (0.8, lambda: self._of(steps.Close)),
            "Receive": (4, lambda: self._of(steps.Receive)),
            "ReceiveMany": (3, self._receive_many),
            "Ack": (5, lambda: self._ack(through=False)),
            "AckThrough": (1, lambda: self._ack(through=True)),
            "Nack": (2, self._nack),
            "Commit": (1, lambda: self._of(steps.Commit, members=True)),
            "Seek": (3, self._seek),
            "Pause": (1, lambda: self._pause(True)),
            "Resume": (1, lambda: self._pause(False)),
            "Ask": (1.5, self._ask),
            "Query": (2, self._query),
            "ListTopics": (0.3 * able.list_topics, lambda: steps.ListTopics(self._client())),
            "Resolve": (2.5, self._resolve),
            "GroupQuery": (2 * able.durable_groups, self._group_query),
            "ListGroups": (0.3 * able.durable_groups, self._list_groups),
            "ResetGroup": (0.8 * able.durable_groups, self._reset),
            "DeleteGroup": (0.3 * able.durable_groups, self._delete_group),
        }

    def steps(self, count: int) -> Iterator[Step]:
        """Yield a program: its beginning, random steps, and an end that shows what is left."""
        for topic in TOPICS[: self._luck.choice((1, 1, 2))]:
            yield self._create(topic)
        for _ in range(count):
            yield self._noted(self._draw())
        yield from self._ending()

    def _noted(self, step: Step) -> Step:
        self._pairs[self._last, step.kind] += 1
        self._last = step.kind
        return step

    def _draw(self) -> Step:
        while True:
            kinds = [kind for kind, (weight, _) in self._makers.items() if weight]
            weights = [self._makers[kind][0] / (1 + self._pairs[self._last, kind]) ** 0.5 for kind in kinds]
            (kind,) = self._luck.choices(kinds, weights)
            step = self._makers[kind][1]()
            if step is not None and step.applies(self._play):
                return step

    def _ending(self) -> Iterator[Step]:
        """Send to each partition, so that what did not come before has to come now, and receive all that is left."""
        play, topics = self._play, self._play.world.topics
        for topic in [each for each in TOPICS if topics.exists(each)]:
            producer = self._name("p")
            yield steps.OpenProducer(producer, "mq", topic)
            for number in range(len(topics.current[topic].logs)):
                yield steps.Send(producer, topic, (Sent(self._name("m"), Content(b"last"), number),))
        for consumer in list(play.world.consumers.open):
            left = sum(log.end for topic in topics.current.values() for log in topic.logs) * 2 + 5
            while left and play.world.consumers.must_come(consumer):
                yield steps.ReceiveMany(consumer, 100)
                left -= 1
            yield steps.Receive(consumer)
            yield steps.Close(consumer)
        for topic in [each for each in TOPICS if topics.exists(each)]:
            for group in play.world.groups.stored:
                yield steps.GroupQuery("mq", group, topic, "positions")
                yield steps.GroupQuery("mq", group, topic, "lag")
            yield steps.Query("mq", topic, "watermarks")
            yield steps.Query("mq", topic, "bounds")
            yield from self._read_all(topic)

    def _read_all(self, topic: str) -> Iterator[Step]:
        reader = self._name("c")
        yield steps.OpenConsumer(reader, "mq", (topic,), Symbol("EARLIEST"))
        while reader in self._play.world.consumers.open and self._play.world.consumers.must_come(reader):
            yield steps.ReceiveMany(reader, 1000)
        yield steps.Receive(reader)
        yield steps.Close(reader)

    # choices -----------------------------------------------------------------------------------------------

    def _name(self, prefix: str) -> str:
        self._count[prefix] += 1
        return f"{prefix}{self._count[prefix]}"

    def _client(self) -> str:
        return self._luck.choice(self._clients)

    def _likely(self, chance: float) -> bool:
        return self._luck.random() < chance

    def _topic(self) -> str | None:
        """Return a topic, rarely one that was deleted."""
        topics = self._play.world.topics
        there = [each for each in topics.current if topics.exists(each) or self._likely(0.1)]
        return self._luck.choice(there) if there else None

    def _partition(self, topic: str) -> int:
        return self._luck.randrange(len(self._play.world.topics.current[topic].logs))

    def _consumer(self, *, members: bool = False) -> ConsumerModel | None:
        there = [
            each for each in self._play.world.consumers.open.values() if each.group or not members or self._likely(0.05)
        ]
        if members and self._likely(0.9):  # prefer those that have something to ack
            there = [each for each in there if each.seen] or there
        return self._luck.choice(there) if there else None

    def _message(self, topic: str | None = None) -> str | None:
        """Return a message, most often of this topic and of recent ones."""
        there = [
            name
            for name, (of, _, _) in self._play.world.topics.messages.items()
            if topic is None or of is self._play.world.topics.current[topic] or self._likely(0.03)
        ]
        return self._luck.choice(there) if there else None

    def _place(self, topic: str | None) -> Place | None:
        names = self._play.names
        there = [name for name in names if name[0] == "x" and name[1:].isdigit() and names[name]]
        if topic is not None:
            name_of = self._play.world.topics.current[topic].name
            there = [
                each for each in there if next(iter(names[each].values())).log.topic == name_of or self._likely(0.03)
            ]
        if not there:
            return None
        name = self._luck.choice(there)
        further = self._luck.choice(FAR) if self._likely(0.1) else 0
        return Place(name, self._luck.choice(list(names[name])), further)

    def _start(self, topic: str) -> AnyPlace:
        luck, able = self._luck, self._play.able
        kinds = ["EARLIEST", "LATEST", "message", "message", "message", "place", "last"]
        kind = luck.choice([*kinds, "time", "time"] if able.seek_time else kinds)
        if kind == "message" and (message := self._message(topic)) is not None:
            return NearMessage(message, luck.choice((False, True)))
        if kind == "place" and (place := self._place(topic)) is not None:
            return place
        if kind == "last":
            return LastOnes(luck.choice((0, 1, 2, 3, 1000)))
        if kind == "time":
            return Moment(self._moment(topic))
        return Symbol("LATEST" if kind == "LATEST" else "EARLIEST")

    def _moment(self, topic: str) -> int:
        there = [stored for log in self._play.world.topics.current[topic].logs for stored in log.stored]
        if self._play.world.topics.log_times.of_producer is not False:  # the log's own would differ in the next run
            there = [stored for stored in there if stored.content.timestamp is not None]
        known = [stored.times[0] for stored in there if stored.times[0] == stored.times[1]]
        edges = [0, 1, YEAR_9999_MS]
        time_ms = self._luck.choice(known) + self._luck.choice((-1, 0, 0, 1)) if known else self._luck.choice(edges)
        if self._likely(0.15):
            time_ms = self._luck.choice(edges)
        return min(max(0, time_ms), YEAR_9999_MS)

    # topics ------------------------------------------------------------------------------------------------

    def _create(self, topic: str | None = None) -> Step:
        partitions = self._luck.randint(1, MAX_PARTITIONS) if self._play.able.partitions else 1
        topics = self._play.world.topics
        deleted = [each for each in topics.current if not topics.exists(each)]  # mostly one of these, if there are any
        return steps.CreateTopic(self._client(), topic or self._luck.choice([*TOPICS, *deleted * 4]), partitions)

    def _delete(self) -> Step | None:
        """Delete a topic that no consumer reads, or one of which ids tell the incarnation."""
        topic = self._topic()
        if topic is None:
            return None
        read = any(topic in each.topics for each in self._play.world.consumers.open.values())
        known = self._play.world.topics.current[topic].logs[0].log.incarnation
        return None if read and not known else steps.DeleteTopic(self._client(), topic)

    def _grow(self) -> Step | None:
        topic = self._topic()
        if topic is None:
            return None
        there = len(self._play.world.topics.current[topic].logs)
        total = there if self._likely(0.1) else there + 1
        return steps.AddPartitions(self._client(), topic, total) if total <= MAX_PARTITIONS + 1 else None

    def _trim(self) -> Step | None:
        topic = self._topic()
        place = self._place(topic)
        if topic is None or place is None:
            return None
        more = [Place(place.name, each) for each in self._play.names[place.name] if self._likely(0.3)]
        return steps.Trim(self._client(), topic, (place, *(each for each in more if each.partition != place.partition)))

    # sending -----------------------------------------------------------------------------------------------

    def _producer(self) -> Step | None:
        topic = self._topic()
        return None if topic is None else steps.OpenProducer(self._name("p"), self._client(), topic)

    def _send(self, way: str) -> Step | None:
        names = self._play.names
        producers = [each for each in names if each[0] == "p" and each[1:].isdigit()]
        if not producers:
            return self._producer()
        producer = self._luck.choice(producers)
        short = {value: name for name, value in names.items() if name in TOPICS}
        topic = short[names[producer].topic]
        count = 1 if way == "send" else self._luck.choice((1, 2, 3, 8))
        if not self._play.world.topics.exists(topic) and self._likely(0.8):
            return None
        return steps.Send(producer, topic, tuple(self._record(topic, way) for _ in range(count)), way)

    def _transact(self) -> Step | None:
        topic = self._topic()
        if topic is None:
            return None
        client = self._client()
        name = "n1" if client == "mq" else "n2"  # two holders of one name would fence each other
        records = tuple(self._record(topic, "transaction") for _ in range(self._luck.choice((1, 2, 5))))
        number = self._luck.randint(1, 5) if self._likely(0.6) else None
        return steps.Transact(name, client, topic, records, number, commits=self._likely(0.7))

    def _record(self, topic: str, way: str) -> Sent:
        luck, able = self._luck, self._play.able
        name = self._name("m")
        key = luck.choice(KEYS) if able.keys and self._likely(0.4) else None
        value = luck.choice(VALUES) if self._likely(0.3) else name.encode()
        headers = luck.choice(HEADERS) if able.headers and self._likely(0.2) else ()
        if not able.header_duplicates:
            headers = tuple(dict(headers).items())
        timestamp = None
        if able.timestamps_producer and self._likely(0.3):
            timestamp = luck.choice([0, 1, *(self._now + apart for apart in APART_MS)])
        partition = self._partition(topic) if self._likely(0.7) or (key is None and way == "submit") else None
        if way == "send" and self._likely(0.02):
            partition = 7
        content = Content(None if able.null_payload and self._likely(0.1) else value, key, headers, timestamp)
        return Sent(name, content, partition)

    # consuming ---------------------------------------------------------------------------------------------

    def _reader(self) -> Step | None:
        topic = self._topic()
        if topic is None or len(self._play.world.consumers.open) >= MAX_CONSUMERS:
            return None
        partitions = (self._partition(topic),) if self._likely(0.2) else None
        lenient = self._likely(0.3)
        topics = TOPICS if self._likely(0.15) and partitions is None else (topic,)
        if not all(self._play.world.topics.exists(each) for each in topics):
            topics = (topic,)
        return steps.OpenConsumer(
            self._name("c"), self._client(), topics, self._start(topic), None, lenient, partitions
        )

    def _member(self) -> Step | None:
        topic = self._topic()
        if topic is None or len(self._play.world.consumers.open) >= MAX_CONSUMERS:
            return None
        group = self._luck.choice(GROUPS)
        others = [each for each in self._play.world.consumers.open.values() if each.group == group]
        if len(others) >= MAX_MEMBERS or (others and not self._play.able.assignment_events):
            return None
        start = Symbol(self._luck.choice(("EARLIEST", "LATEST"))) if self._likely(0.7) else self._start(topic)
        must_exist = self._likely(0.1)
        return steps.OpenConsumer(
            self._name("c"), self._client(), (topic,), start, group, self._likely(0.3), must_exist=must_exist
        )

    def _of(self, kind: type[OfConsumer], *, members: bool = False) -> Step | None:
        consumer = self._consumer(members=members)
        return None if consumer is None else kind(consumer.name)

    def _receive_many(self) -> Step | None:
        consumer = self._consumer()
        return None if consumer is None else steps.ReceiveMany(consumer.name, self._luck.choice((1, 2, 5, 100)))

    def _in_hand(self, consumer: ConsumerModel) -> str | None:
        """Return a message that a consumer may ack: most often one that it has, at times any."""
        works = [each for each in consumer.readings.values() if isinstance(each, Work)]
        there: list[MessageId] = [
            work.log.stored[row].id for work in works for row, hand in work.hands.items() if hand is Hand.OPEN
        ]
        if self._likely(0.1):
            there = list(consumer.seen)
        if there:
            names = self._play.world.topics.names
            return self._luck.choice(sorted((names[each] for each in there), key=lambda name: int(name[1:])))
        return self._message() if self._likely(0.1) else None

    def _ack(self, *, through: bool) -> Step | None:
        consumer = self._consumer(members=True)
        message = None if consumer is None else self._in_hand(consumer)
        return None if consumer is None or message is None else steps.Ack(consumer.name, message, through)

    def _nack(self) -> Step | None:
        consumer = self._consumer(members=True)
        message = None if consumer is None else self._in_hand(consumer)
        if consumer is None or message is None:
            return None
        return steps.Nack(consumer.name, message, self._luck.choice((0, 0, 0.01)))

    def _seek(self) -> Step | None:
        consumer = self._consumer()
        if consumer is None or not consumer.readings:
            return None
        topic = self._luck.choice(consumer.topics)
        held = sorted(each.partition for each in consumer.readings)
        partition = self._luck.choice(held) if self._likely(0.4) and len(consumer.topics) == 1 else None
        return steps.Seek(consumer.name, self._start(topic), partition, self._likely(0.4))

    def _pause(self, pause: bool) -> Step | None:
        consumer = self._consumer()
        if consumer is None:
            return None
        held = sorted(each.partition for each in consumer.readings)
        partitions = (self._luck.choice(held),) if held and self._likely(0.7) else ()
        return steps.Pause(consumer.name, partitions, pause)

    def _ask(self) -> Step | None:
        consumer = self._consumer()
        if consumer is None:
            return None
        whats = ("position", "committed", "late_acks") if consumer.group else ("position",)
        return steps.Ask(consumer.name, self._luck.choice(whats))

    # queries -----------------------------------------------------------------------------------------------

    def _query(self) -> Step | None:
        topic = self._topic()
        if self._likely(0.1):
            return steps.QueryAll(self._client(), tuple(self._play.world.topics.current))
        return (
            None if topic is None else steps.Query(self._client(), topic, self._luck.choice(("watermarks", "bounds")))
        )

    def _resolve(self) -> Step | None:
        topic = self._topic()
        if topic is None:
            return None
        partitions = (self._partition(topic),) if self._likely(0.2) else None
        return steps.Resolve(self._name("x"), self._client(), topic, self._start(topic), partitions, self._likely(0.4))

    def _group_query(self) -> Step | None:
        topic = self._topic()
        if topic is None:
            return None
        what = self._luck.choice(("positions", "lag"))
        return steps.GroupQuery(self._client(), self._luck.choice(GROUPS), topic, what)

    def _list_groups(self) -> Step | None:
        topic = self._topic()
        return None if topic is None else steps.ListGroups(self._client(), topic)

    def _reset(self) -> Step | None:
        topic = self._topic()
        if topic is None:
            return None
        return steps.ResetGroup(self._client(), self._luck.choice(GROUPS), topic, self._start(topic), self._likely(0.4))

    def _delete_group(self) -> Step | None:
        return steps.DeleteGroup(self._client(), self._luck.choice(GROUPS))
