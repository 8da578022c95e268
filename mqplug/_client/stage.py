"""Stages: messages that no reader sees until one step takes all of them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Self

from mqplug._base.deadline import Deadline
from mqplug._model.checks import whole_number
from mqplug._model.errors import Closed, InvalidName, MessageTooLarge
from mqplug._plugins.backend import NO_TIMEOUT_S
from mqplug._produce.columns import Records, SendColumns, columns_of
from mqplug._produce.record import check_declared, takes_everything
from mqplug._produce.sent_batch import BatchSplitter
from mqplug.spi._actions import Staged

if TYPE_CHECKING:
    from types import TracebackType

    from mqplug._produce.routing import Route
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import StageDriver

MAX_BATCH_NUMBER = (1 << 63) - 1


class Stage:
    """Staged messages of one topic. Made by ``Client.stage``; one thread at a time may use it.

    Leaving the block without ``finish``, or by an exception, discards the written messages.
    """

    def __init__(
        self,
        opened: Callable[[str, float | None], AbstractContextManager[Deadline]],
        driver: StageDriver,
        route: Route,
        able: Capabilities,
    ) -> None:
        self._opened = opened
        self._driver = driver
        self._route = route
        self._able = able
        self._splitter = BatchSplitter(route.topic, able.batch_max_messages, able.batch_max_bytes, _never)
        self._over = False

    @property
    def topic(self) -> str:
        """The topic of its messages."""
        return self._route.topic

    def write(self, records: Records, *, timeout: float | None = 30) -> None:
        """Add messages. Takes the records of ``Producer.send_many``, and chooses partitions in the same way.

        An invalid record raises before any of these is written. Any other error ends the stage.
        """
        with self._use(timeout) as deadline:
            columns = columns_of(records, self.topic)
            if not len(columns):
                return
            self._check(columns)
            runs = list(self._splitter.runs(columns, range(len(columns)), self._find))
            with self._or_discard():
                for run, _ in runs:
                    self._driver.write(run, deadline.remaining(NO_TIMEOUT_S))

    def finish(self, *, timeout: float | None = 30) -> Staged:
        """Make the written messages durable, and return them for ``Client.ingest``. There may be none."""
        with self._use(timeout) as deadline, self._or_discard():
            staged = self._driver.finish(deadline.remaining(NO_TIMEOUT_S))
            self._over = True
            return staged

    def discard(self) -> None:
        """Remove the written messages. May be called twice; after ``finish`` it does nothing."""
        if not self._over:
            self._over = True
            self._driver.discard()

    # inside ------------------------------------------------------------------------------------------------

    def _use(self, timeout: float | None) -> AbstractContextManager[Deadline]:
        if self._over:
            raise Closed(f"{self!r} is finished or discarded", topic=self.topic, fix="Open another stage")
        return self._opened("stage", timeout)

    @contextmanager
    def _or_discard(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def _check(self, columns: SendColumns) -> None:
        if not takes_everything(self._able):
            null, keys, headers, timestamps = columns.uses()
            check_declared(self._able, null_payload=null, keys=keys, headers=headers, timestamps_producer=timestamps)
        most = self._able.message_max_bytes
        if columns.size > most and (largest := max(columns.sizes)) > most:
            raise MessageTooLarge(f"a message has {largest} bytes; the limit is {most}", topic=self.topic)

    def _find(self, topic: str | None, partition: int | None) -> Route:
        if topic != self.topic:
            raise ValueError(f"a record is for topic {topic!r}, but this stage is for {self.topic!r}")
        return self._route

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def __repr__(self) -> str:
        return f"<Stage of {self.topic}{', over' if self._over else ''}>"


def _never(_: Any, __: Deadline) -> None:
    """Do nothing: staged records have no outcome to wait for."""


def check_staged(staged: Staged | Sequence[Staged]) -> tuple[Staged, ...]:
    """Return one or several staged results as a non-empty tuple."""
    several = (staged,) if isinstance(staged, Staged) else tuple(staged)
    for each in several:
        if not isinstance(each, Staged):
            raise TypeError(f"ingest() and discard() take results of Stage.finish, not {type(each).__name__}")
    if not several:
        raise ValueError("no staged messages: pass at least one result of Stage.finish")
    return several


def check_writer(name: str, what: str = "a writer") -> str:
    """Return the name of a writer. Raise unless it is legal."""
    if not isinstance(name, str):
        raise TypeError(f"the name of {what} must be a str, not {type(name).__name__}")
    if not 1 <= len(name) <= 249 or not name.isprintable():
        raise InvalidName(f"{name[:80]!r} is not a valid name for {what}", fix="Use 1 to 249 printable characters")
    return name


def check_number(number: int, what: str = "a batch") -> int:
    """Return the number of a batch. Raise unless it is legal."""
    return whole_number(f"the number of {what}", number, 0, MAX_BATCH_NUMBER)
