"""The random choices of steps: among the names and values of a program, and by what the model knows."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

from mqplug.spi import Capabilities
from mqplug_testing.model import Content, World
from mqplug_testing.model.consumers import ConsumerModel
from mqplug_testing.model.sharing import Sharer
from mqplug_testing.model.topics import Sent, Topic
from mqplug_testing.programs.play import CLIENTS, Play
from mqplug_testing.programs.starts import AnyPlace, LastOnes, Moment, NearMessage, Place, Symbol

TOPICS: Final = (("t1", "t2"), ("t1", "t2"), ("t1", "t2"), ("t3", "t4"))  # the last pair has the longest names
GROUPS: Final = ("g1", "g2", "g3")
MAX_PARTITIONS: Final = 3
MANY_PARTITIONS: Final = 11  # their numbers as text have another order
MAX_CONSUMERS: Final = 5
APART_MS: Final = (-3_600_000, -2000, -1000, -1000, 30_000)  # timestamps, from the beginning of the program
YEAR_9999_MS: Final = 253_402_300_799_999
FAR: Final = (1, 2**31, 2**32, 2**32 + 1, 2**53, 2**63 - 1, 2**63, 2**64)
KEYS: Final = (b"", b"a", b"b", b"\x00\xff", b"customer-17")
VALUES: Final = (b"", b"1", b"\x00", bytes(range(256)), b"x" * 1000, b"\r\n\n\r", b"y" * 70_000)
HEADERS: Final[tuple[tuple[tuple[str, bytes | None], ...], ...]] = (
    (("a", b"1"),), (("a", b"1"), ("a", b"2"), ("b", None)), (("", b""),), (("Zürich", b"\x00"), ("A", b"")),
)  # fmt: skip

T = TypeVar("T")
C = TypeVar("C", ConsumerModel, Sharer)


class Choices:
    """Draws what steps need."""

    def __init__(self, play: Play, luck: random.Random) -> None:
        self.play = play
        self.luck = luck
        self.topics = luck.choice(TOPICS)
        self._focus: str | None = None  # the consumer of the last step, with which the program is likely to continue
        self._focus_group: str | None = None
        self._keys = luck.choice((KEYS, KEYS[:2]))
        self._keyed = luck.choice((0.2, 0.4, 0.9))  # how many records have a key
        self._count = Counter[str]()
        self._now = time.time_ns() // 1_000_000

    @property
    def able(self) -> Capabilities:
        """The capabilities of the backend."""
        return self.play.able

    @property
    def world(self) -> World:
        """The model of what the program has done."""
        return self.play.world

    def likely(self, chance: float) -> bool:
        """Return True with this probability."""
        return self.luck.random() < chance

    def one(self, options: Sequence[T]) -> T | None:
        """Return one of these, or None if there are none."""
        return self.luck.choice(options) if options else None

    def new(self, prefix: str) -> str:
        """Return an unused name."""
        self._count[prefix] += 1
        return f"{prefix}{self._count[prefix]}"

    def client(self) -> str:
        """Return the name of a client."""
        return self.luck.choice(CLIENTS if self.able.multi_client else CLIENTS[:1])

    def named(self, prefix: str) -> list[str]:
        """Return the names with this prefix that have a value, such as those of all producers."""
        return [each for each in self.play.names if each[0] == prefix and each[1:].isdigit()]

    # topics and what is in them ----------------------------------------------------------------------------

    def topic(self) -> str | None:
        """Return a topic, rarely one that was deleted."""
        topics = self.world.topics
        return self.one([each for each in topics.current if topics.exists(each) or self.likely(0.1)])

    def current(self, topic: str) -> Topic:
        """Return the model of a topic."""
        return self.world.topics.current[topic]

    def partition(self, topic: str) -> int:
        """Return a partition of a topic."""
        return self.luck.randrange(len(self.current(topic).logs))

    def partitions(self) -> int:
        """Return the number of partitions of a new topic."""
        if not self.able.partitions:
            return 1
        return MANY_PARTITIONS if self.likely(0.03) else self.luck.randint(1, MAX_PARTITIONS)

    def message(self, topic: str | None = None) -> str | None:
        """Return a message, most often of this topic."""
        return self.one(
            [
                name
                for name, (of, _, _) in self.world.topics.messages.items()
                if topic is None or of is self.current(topic) or self.likely(0.03)
            ]
        )

    def place(self, topic: str | None, *, whole: bool = False) -> Place | None:
        """Return a resolved position, most often of this topic; at times one far beyond it."""
        names = self.play.names
        there = [name for name in self.named("x") if names[name]]
        if topic is not None:
            name_of = self.current(topic).name
            there = [each for each in there if _topic_of(names[each]) == name_of or self.likely(0.03)]
        name = self.one(there[-1:] if self.likely(0.4) else there)
        if name is None:
            return None
        further = self.luck.choice(FAR) if self.likely(0.1) and not whole else 0
        return Place(name, self.luck.choice(list(names[name])), further)

    def start(self, topic: str) -> AnyPlace:
        """Return a start in a topic."""
        kinds = ["EARLIEST", "LATEST", "message", "message", "message", "place", "last"]
        kind = self.luck.choice([*kinds, "time", "time"] if self.able.seek_time else kinds)
        if kind == "message" and (message := self.message(topic)) is not None:
            return NearMessage(message, self.luck.choice((False, True)))
        if kind == "place" and (place := self.place(topic)) is not None:
            return place
        if kind == "last":
            return LastOnes(self.luck.choice((0, 1, 2, 3, 1000)))
        if kind == "time":
            return Moment(self.moment(topic))
        return Symbol("LATEST" if kind == "LATEST" else "EARLIEST")

    def moment(self, topic: str) -> int:
        """Return a time at a message, next to it, or before or after all."""
        there = [stored for log in self.current(topic).logs for stored in log.stored]
        if self.world.topics.log_times.of_producer is not False:  # the log's own would differ in the next run
            there = [stored for stored in there if stored.content.timestamp is not None]
        known = [stored.times[0] for stored in there if stored.times[0] == stored.times[1]]
        edges = [0, 1, YEAR_9999_MS]
        time_ms = self.luck.choice(known) + self.luck.choice((-1, 0, 0, 1)) if known else self.luck.choice(edges)
        if self.likely(0.15):
            time_ms = self.luck.choice(edges)
        return min(max(0, time_ms), YEAR_9999_MS)

    def record(self, topic: str, *, partition: float = 0.7) -> Sent:
        """Return a record, with a partition of this probability, and with edges of all that it may have."""
        luck, able = self.luck, self.able
        name = self.new("m")
        key = luck.choice(self._keys) if able.keys and self.likely(self._keyed) else None
        value = luck.choice(VALUES) if self.likely(0.3) else name.encode()
        headers = luck.choice(HEADERS) if able.headers and self.likely(0.2) else ()
        if not able.header_duplicates:
            headers = tuple(dict(headers).items())
        timestamp = None
        if able.timestamps_producer and self.likely(0.3):
            edges = [] if able.retention and able.persistent else [0, 1]  # retention may remove such old messages
            timestamp = luck.choice([*edges, *(self._now + apart for apart in APART_MS)])
        content = Content(None if able.null_payload and self.likely(0.1) else value, key, headers, timestamp)
        return Sent(name, content, self.partition(topic) if self.likely(partition) else None)

    # consumers ---------------------------------------------------------------------------------------------

    def consumer(self, *, members: bool = False) -> ConsumerModel | None:
        """Return an open consumer; with ``members``, most often one that has messages to ack."""
        there = [each for each in self.world.consumers.open.values() if each.group or not members or self.likely(0.05)]
        if members and self.likely(0.9):
            there = [each for each in there if each.seen] or there
        return self.one(self._focused(there) or there)

    def sharer(self) -> str | None:
        """Return the name of an open member that shares its logs."""
        there = list(self.world.sharing.open.values())
        sharer = self.one(self._focused(there) or there)
        return None if sharer is None else sharer.name

    def _focused(self, consumers: Sequence[C]) -> list[C]:
        return [each for each in consumers if each.name == self._focus] if self.likely(0.5) else []

    def focus(self, consumer: str) -> None:
        """Continue, most often, with this consumer and its group."""
        self._focus = consumer
        if (model := self.world.consumers.open.get(consumer)) is not None:
            self._focus_group = model.group if model.group in GROUPS else None

    def group(self) -> str:
        """Return a group that reads in order: often that of the last consumer, or one that has a position."""
        if self._focus_group is not None and self.likely(0.5):
            return self._focus_group
        known = [each for each in self.world.groups.stored if each in GROUPS]
        return self.luck.choice(known) if known and self.likely(0.5) else self.luck.choice(GROUPS)

    def room_for_consumer(self) -> bool:
        """Return whether another consumer may be opened."""
        return len(self.world.consumers.open) < MAX_CONSUMERS


def _topic_of(places: object) -> str:
    assert isinstance(places, dict)
    return str(next(iter(places.values())).log.topic)
