"""The bench of a case: it opens clients and topics, closes them all, and counts the comparisons.

Two more helpers are shared by cases: the steps of a lone member, and the captured log lines of a block.
"""

from __future__ import annotations

import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Self, cast, get_args

import attrs
import pytest

from mqplug import (
    EARLIEST,
    LATEST,
    Bounds,
    Client,
    Consumer,
    Error,
    Log,
    Message,
    MessageId,
    Position,
    Producer,
    Record,
    TopicExists,
    Watermarks,
)
from mqplug.aio import AsyncClient, Opening, connecting
from mqplug.spi import Deadline, Mode
from mqplug_testing._case_tools.broken_promise import PromiseBroken, difference_of, error_text, value_text
from mqplug_testing._case_tools.run_settings import RunSettings
from mqplug_testing._harness.harness import Harness


@attrs.frozen
class Trimmed:
    """A topic whose first messages were trimmed: the ids that are gone, and the ids that are left."""

    topic: str
    gone: list[MessageId]
    left: list[MessageId]
    low: Position


class Bench:
    """A client of the backend, with short calls for the steps that most cases share."""

    def __init__(self, harness: Harness, settings: RunSettings | None = None, case: str = "case") -> None:
        settings = settings or RunSettings()
        self.harness = harness
        self.scale = settings.scale
        self.waiting = harness.waiting.scaled(settings.scale)
        self.profile = settings.profile
        self.seed = settings.seed
        self.comparisons = 0
        self.left_out: list[str] = []
        self._case = case
        self._opened = ExitStack()
        self._topics: list[str] = []
        self._fillers: dict[str, Producer] = {}
        self._admin: Client | None = None
        self.client = self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        if self._topics:
            self._delete_topics()

    def _delete_topics(self) -> None:
        with (self.harness.admin or self.harness.connect)() as client:
            if client.capabilities.delete_topic:
                for topic in self._topics:
                    with suppress(Error):
                        client.delete_topic(topic)

    # opening -----------------------------------------------------------------------------------------------

    def connect(self, by: Callable[[], Client] | None = None) -> Client:
        """Open another client of the same backend, with another function of the harness if one is given."""
        client = (by or self.harness.connect)()
        self._opened.callback(_close, client)
        return client

    @property
    def admin(self) -> Client:
        """A client that may create, trim and delete topics: the bench's own, unless the harness has another."""
        if self.harness.admin is None:
            return self.client
        if self._admin is None:
            self._admin = self.connect(self.harness.admin)
        return self._admin

    def aio(self) -> Opening[AsyncClient]:
        """Return an asyncio client of the same backend: ``await`` it, or enter it with ``async with``."""
        return connecting(self.harness.connect)

    def name(self) -> str:
        """Return a new name, which contains the case and the worker."""
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        return f"kit-{self._case.lower()}-{worker}-{uuid.uuid4().hex[:12]}"

    def sized(self, quick: int, full: int, soak: int | None = None) -> int:
        """Return the size for this profile."""
        return {"quick": quick, "full": full, "soak": soak or full}[self.profile]

    def has_time_for(self, variant: str) -> bool:
        """Return whether this profile includes a variant of the case; the report names one that quick leaves out."""
        if self.profile == "quick":
            self.left_out.append(variant)
        return self.profile != "quick"

    @property
    def lot(self) -> str:
        """The option that repeats the random draws of this run."""
        return f"--mqplug-seed={self.seed}"

    @cached_property
    def chance(self) -> random.Random:
        """The random numbers of this case, decided by the seed of the run and independent of other cases."""
        return random.Random(f"{self._case} {self.seed}")

    @property
    def patience(self) -> float:
        """Seconds to wait for an expected event."""
        return self.waiting.something

    def topic(self, partitions: int = 1) -> str:
        """Create a topic, and return its name."""
        name = self.name()
        self.admin.create_topic(self.owned(name), partitions=partitions)
        return name

    def owned(self, topic: str) -> str:
        """Register a topic to be deleted at the end, and return its name."""
        self._topics.append(topic)
        return topic

    def forget(self, topic: str) -> None:
        """Leave this topic to the case: the bench closes its producer, and does not delete the topic."""
        if topic in self._topics:
            self._topics.remove(topic)
        if filler := self._fillers.pop(topic, None):
            filler.close()

    def make_gone(self, topic: str) -> None:
        """Delete a topic."""
        if filler := self._fillers.pop(topic, None):
            filler.close()
        self.admin.delete_topic(topic)

    def make_again(self, topic: str) -> None:
        """Delete a topic, and create one of the same name as soon as the name is free."""
        self.make_gone(topic)
        self.wait(lambda: self._create(topic), "the name of a deleted topic is free again")

    def _create(self, topic: str) -> bool:
        try:
            self.admin.create_topic(topic)
        except TopicExists:
            return False
        return True

    def producer(self, topic: str, **options: Any) -> Producer:
        """Open a producer of this topic."""
        return self.client.producer(topic, **options)

    def reader(self, topic: str, start: Any = EARLIEST, **options: Any) -> Consumer:
        """Open a consumer without a group."""
        return self.client.consumer(topic, start=start, **options)

    def member(self, topic: str, group: str, **options: Any) -> Consumer:
        """Open a consumer with a group from a new client. Skip the case if the backend has no groups of that mode."""
        mode = options.get("mode", "ordered")
        if mode in get_args(Mode) and not getattr(self.client.capabilities, mode):
            pytest.skip(f"{self.client.backend} does not declare {mode}")
        return self.connect().consumer(topic, group=group, **options)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Close everything, so that this process has no client within the block, and connect again afterwards."""
        self._opened.close()
        self._admin = None
        self._fillers.clear()
        try:
            yield
        finally:
            self.client = self.connect()

    def restart(self) -> None:
        """Close everything, let the harness restart the backend, and connect again."""
        with self.away():
            if self.harness.restart is not None:
                self.harness.restart()

    # sending and receiving ---------------------------------------------------------------------------------

    def fill(self, topic: str, count: int, *, partition: int = 0, begin: int = 0) -> list[MessageId]:
        """Send `count` messages with the values 0, 1, 2 ..., and return their ids."""
        records = [Record(b"%d" % number, partition=partition) for number in range(begin, begin + count)]
        return list(self.filler(topic).send_many(records))

    def filler(self, topic: str) -> Producer:
        """Return the bench's own producer of a topic."""
        if topic not in self._fillers:
            self._fillers[topic] = self.client.producer(topic)
        return self._fillers[topic]

    def filled(self, count: int) -> tuple[str, list[MessageId]]:
        """Create a topic of one partition, send `count` messages to it, and return its name and their ids."""
        topic = self.topic()
        return topic, self.fill(topic, count)

    def dripped(self, count: int) -> tuple[str, list[MessageId]]:
        """Do as ``filled`` does, but send one message at a time: a backend may store and return whole batches."""
        topic = self.topic()
        return topic, [self.fill(topic, 1, begin=number)[0] for number in range(count)]

    def take(self, consumer: Consumer, count: int, *, within: float | None = None) -> list[Message]:
        """Return the next `count` messages, or fail if they do not arrive in time."""
        seconds = self.patience if within is None else within * self.scale
        taken = _taken(consumer, count, seconds)
        if len(taken) < count:
            came = [message.id for message in taken]
            raise PromiseBroken(expected=f"{count} messages within {seconds:g} s", seen=value_text(came, len(came)))
        return taken

    def delivers(self, consumer: Consumer, ids: Sequence[MessageId], what: str = "") -> list[Message]:
        """Check that these are the next messages of the consumer."""
        taken = _taken(consumer, len(ids), self.patience)
        self.equal([message.id for message in taken], list(ids), what)
        return taken

    def sips(self, consumer: Consumer, ids: Sequence[MessageId]) -> None:
        """Check the next messages as ``delivers`` does, but ask for one at a time, so that little is fetched ahead."""
        found = [consumer.receive_many(1, self.patience).ids for _ in ids]
        self.equal(found, [[each] for each in ids])

    def rests(self, consumer: Consumer) -> None:
        """Check that nothing arrives for a moment. This proves nothing unless an expected message is checked
        afterwards.
        """
        self.equal(consumer.receive(self.waiting.nothing), None)

    def only_new(self, consumer: Consumer, topic: str, what: str = "", *, partition: int = 0) -> MessageId:
        """Send a message, check that the consumer gets it and no other one, and return its id."""
        sent = self.filler(topic).send(b"probe", partition=partition)
        self.delivers(consumer, [sent], what)
        return sent

    # asking ------------------------------------------------------------------------------------------------

    def marks(self, topic: str, partition: int = 0) -> Watermarks:
        """Return the watermarks of one partition."""
        return self.client.watermarks(topic)[partition]

    def bounds(self, topic: str, partition: int = 0) -> Bounds:
        """Return the bounds of one partition."""
        return self.client.bounds(topic)[partition]

    def read(self, topic: str, **options: Any) -> list[Message]:
        """Return all messages from start to end, as ``client.read`` yields them."""
        return list(self.client.read(topic, **options))

    # retention ---------------------------------------------------------------------------------------------

    def trim(self, topic: str, before: Position) -> None:
        """Trim a topic before a position, as near to it as the backend can, and wait until the low watermark moves."""
        low = self.marks(topic, before.log.partition).low
        if self.harness.trim_before is not None:
            self.harness.trim_before(self.admin, topic, before)
        else:
            self.admin.trim(topic, {before.log.partition: before})
        self.wait(lambda: self.marks(topic, before.log.partition).low > low, "the trim moved the low watermark")

    def roll(self, topic: str) -> None:
        """Make the messages sent before this call trimmable without the later ones."""
        if self.harness.roll is not None:
            self.harness.roll(self.client, topic)

    def trimmed(self, gone: int = 6, left: int = 6) -> Trimmed:
        """Create a topic whose first messages were trimmed."""
        topic = self.topic()
        old = self.fill(topic, gone)
        self.roll(topic)
        new = self.fill(topic, left, begin=gone)
        self.trim(topic, Position(new[0].log, new[0].coordinates))
        low = self.marks(topic).low
        ids = old + new
        found = Trimmed(
            topic, [each for each in ids if not low.precedes(each)], [each for each in ids if low.precedes(each)], low
        )
        if not found.gone or found.left[-left:] != new:
            raise PromiseBroken(
                "what trim() removes",
                expected=f"about {gone} of {len(ids)} messages",
                seen=f"{len(found.gone)} are gone",
            )
        return found

    # comparing: each call is counted: a case without a comparison proves nothing ----------------------------

    def equal(self, found: Any, wanted: Any, what: str = "") -> None:
        """Check that two values are equal."""
        self.comparisons += 1
        if not found == wanted:
            raise difference_of(wanted, found, what)

    def that(self, condition: object, what: str) -> None:
        """Check that a condition holds."""
        self.comparisons += 1
        if not condition:
            raise PromiseBroken(what)

    def stands(self, position: Position | None, ids: Sequence[MessageId], index: int, what: str = "") -> None:
        """Check that a position lies right before the message of this index, or after the last one."""
        self.comparisons += 1
        before = [] if position is None else [each for each in ids if not position.precedes(each)]
        if position is None or before != list(ids[:index]):
            where = f"before {ids[index]!r}" if index < len(ids) else f"after {ids[-1]!r}" if ids else "anywhere"
            raise PromiseBroken(what, expected=f"a position {where}", seen=repr(position))

    @contextmanager
    def raises(self, *kinds: type[BaseException]) -> Iterator[pytest.ExceptionInfo[BaseException]]:
        """Check that the block raises one of these errors."""
        self.comparisons += 1
        expected = " or ".join(kind.__name__ for kind in kinds)
        caught: pytest.ExceptionInfo[BaseException] = pytest.ExceptionInfo.for_later()
        try:
            yield caught
        except kinds as error:
            caught.fill_unfilled((type(error), error, cast(TracebackType, error.__traceback__)))
        except PromiseBroken:
            raise
        except Exception as error:
            raise PromiseBroken(expected=expected, seen=error_text(error)) from error
        else:
            raise PromiseBroken(expected=expected, seen="no error")

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Name what this block checks: an error that ends it, of a comparison or of the backend, has the name."""
        try:
            yield
        except PromiseBroken as error:
            error.what = ": ".join(filter(None, [what, error.what]))
            raise
        except Exception as error:
            broken = PromiseBroken(what, expected="no error", seen=error_text(error))
            raise broken.with_traceback(error.__traceback__) from error

    def wait(
        self,
        condition: Callable[[], object],
        what: str,
        *,
        within: float | None = None,
        seen: Callable[[], str] = lambda: "it did not happen",
    ) -> None:
        """Check that a condition becomes true in time. ``seen`` describes what there is instead."""
        self.comparisons += 1
        seconds = self.patience if within is None else within * self.scale
        deadline = Deadline(seconds)
        while not condition():
            if deadline.expired:
                raise PromiseBroken(expected=f"within {seconds:g} s: {what}", seen=seen())
            time.sleep(self.waiting.poll)


def _taken(consumer: Consumer, count: int, seconds: float) -> list[Message]:
    """Return the next `count` messages, or those that arrived in time."""
    deadline = Deadline(seconds)
    taken: list[Message] = []
    while len(taken) < count and (message := consumer.receive(deadline.remaining())) is not None:
        taken.append(message)
    return taken


def _close(client: Client) -> None:
    # A case may have left its client in any state; errors of close are checked by the cases about close.
    with suppress(Error):
        client.close(10)


MAX_ATTEMPTS = 5

MemberSteps = Callable[[Bench, str, Consumer], None]


def as_lone_member(bench: Bench, steps: MemberSteps, *, partitions: int = 1, **options: Any) -> None:
    """Check the steps of a member that is alone in its group, on a new topic.

    A hand-over may happen at any time, also back to the same member, and redelivers unacked messages. So steps that
    fail during one are repeated, later in the log. The case fails if every attempt is interrupted.
    """
    topic, lost = bench.topic(partitions), list[Log]()
    if bench.client.capabilities.assignment_events:
        options["on_revoked"] = lost.extend
    member = bench.member(topic, bench.name(), **options)
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return steps(bench, topic, member)
        except PromiseBroken:
            if not lost:
                raise
        lost.clear()
        member.seek(LATEST)
        member.resume()
    return steps(bench, topic, member)


class _Collector(logging.Handler):
    """Keeps the lines in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(self.format(record))


@contextmanager
def captured_logs(name: str, level: int) -> Iterator[list[str]]:
    """Yield the list of lines that this logger, or one below it, writes within the block."""
    collector, logger = _Collector(), logging.getLogger(name)
    before = logger.level
    logger.addHandler(collector)
    logger.setLevel(level)
    try:
        yield collector.lines
    finally:
        logger.setLevel(before)
        logger.removeHandler(collector)
