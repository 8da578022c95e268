"""Consumers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal, NoReturn

from mqplug._acks import Delivery
from mqplug._backend import NO_END
from mqplug._batch import Batch, ListColumns
from mqplug._closing import Closable, close_native
from mqplug._deadline import Deadline
from mqplug._errors import (
    Closed,
    CloseIncomplete,
    Error,
    InvalidMessageId,
    NotAssigned,
    PositionLost,
    Timeout,
    Unsupported,
)
from mqplug._gate import Gate
from mqplug._holdings import Held, Holdings
from mqplug._ids import MessageId
from mqplug._log import Log
from mqplug._message import Message
from mqplug._position import After, Before, Position, Start
from mqplug._starts import check_log, check_start, position_of, refuse_lost, resolve

if TYPE_CHECKING:
    from mqplug._backend import Backend
    from mqplug.spi._actions import GroupPosition
    from mqplug.spi._drivers import Connection, ConsumerDriver

SLICE = 0.1  # the longest that one poll may last: what Ctrl-C and close wait for at most
POLL_MESSAGES = 1000
AWAY = 1.0  # seconds after which the keeper polls for a caller that is busy elsewhere
COMMIT_EVERY = 1.0

IDLE = Batch(None, None, 0, ListColumns([], [], [], [], [], []))


class Consumer(Closable):
    """Receives the messages of one or many topics. Made by ``Client.consumer``.

    One thread at a time receives; ``ack``, ``commit``, ``seek``, ``stop`` and ``close`` may come from any thread.
    """

    def __init__(
        self,
        backend: Backend,
        connection: Connection,
        logs: Sequence[Log],
        group: str | None,
        holdings: Holdings,
        on_closed: Callable[[Consumer], None],
    ) -> None:
        super().__init__()
        self.group = group
        self._backend = backend
        self._connection = connection
        self._logs = tuple(logs)
        self._holdings = holdings
        self._on_closed = on_closed
        self._gate = Gate()
        self._driver: ConsumerDriver | None = None
        self._pending: deque[tuple[Held, int, Batch]] = deque()
        self._delivery: Delivery | None = None
        self._messages: Iterator[Message] = iter(())
        self._stopping = False
        self._last_poll = self._last_commit = time.monotonic()
        self.late_acks = 0
        """Acks that came after a seek or a hand-over, or twice: they change nothing, and are counted here."""

    # receiving ---------------------------------------------------------------------------------------------

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when none came in time. Waits for ever by default; 0 polls."""
        for message in self._messages:
            return message
        deadline = Deadline(timeout)
        while (delivery := self._next_delivery(deadline)) is not None:
            for message in delivery.messages:
                return message
        return None

    def receive_many(self, most: int, timeout: float | None = None) -> Batch:
        """Up to so many messages of one partition, as soon as there are any; an empty batch when none came."""
        if isinstance(most, bool) or not isinstance(most, int):
            raise TypeError(f"receive_many() takes a whole number of messages, not {type(most).__name__}")
        if most < 1:
            raise ValueError(f"receive_many() takes at least 1 message, not {most}")
        deadline = Deadline(timeout)
        with self._gate.receiving():
            self._return_rest()
            delivery = self._wait_for_delivery(deadline, most)
            return delivery.hand_out_all() if delivery is not None else IDLE

    def batches(self, most: int = POLL_MESSAGES) -> Iterator[Batch]:
        """All messages in batches of one partition each; ends as iteration does."""
        while True:
            try:
                batch = self.receive_many(most)
            except Closed:
                return
            if not batch:
                return
            yield batch

    def __iter__(self) -> Iterator[Message]:
        """All messages, for ever; ends at ``stop``, at ``close``, and at ``until``."""
        return chain.from_iterable(self._deliveries())

    def _deliveries(self) -> Iterator[Iterator[Message]]:
        forever = Deadline(None)
        yield self._messages
        while not self._closed:
            try:
                delivery = self._next_delivery(forever)
            except Closed:
                return
            if delivery is None:
                return
            yield delivery.messages

    def _next_delivery(self, deadline: Deadline) -> Delivery | None:
        with self._gate.receiving():
            return self._wait_for_delivery(deadline, POLL_MESSAGES)

    def _wait_for_delivery(self, deadline: Deadline, most: int) -> Delivery | None:
        """The next batch, as soon as there is one; None at the deadline, after stop, and at the end."""
        while not self._stopping:
            with self._gate.polling():
                self._check_open()
                self._holdings.check()
                if delivery := self._take(most):
                    return delivery
                if self._holdings.finished:
                    return None
                self._poll(most, deadline.remaining(SLICE))
                if delivery := self._take(most):
                    return delivery
            if deadline.expired:
                return None
        self._check_open()
        return None

    def _take(self, most: int) -> Delivery | None:
        """Begin to hand out the next batch that is here. The gate is held."""
        while self._pending:
            held, epoch, batch = self._pending.popleft()
            if not self._holdings.is_current(held, epoch):
                continue
            if len(batch) > most:
                self._pending.appendleft((held, epoch, batch[most:]))
                batch = batch[:most]
            delivery = held.tracker.deliver(batch)
            if len(batch):
                self._delivery, self._messages = delivery, delivery.messages
                return delivery
        return None

    def _return_rest(self) -> None:
        """What an iteration left of its batch goes back to the front."""
        delivery = self._delivery
        if delivery is None or not delivery.live or not delivery.left:
            return
        with self._gate.polling():
            held = self._holdings.get(delivery.batch.log)
            if held is not None and held.tracker is delivery.tracker:
                self._pending.appendleft((held, held.epoch, delivery.split()))

    def _poll(self, most: int, timeout: float) -> None:
        """One poll of the driver. The gate is held."""
        driver = self._open_driver()
        self._last_poll = time.monotonic()
        try:
            with self._backend.context("receive", self._topic):
                batches = driver.poll(most, timeout)
        except PositionLost as error:
            self._on_lost_position(driver, error)
            return
        finally:
            self._last_poll = time.monotonic()
        for batch in batches:
            if accepted := self._holdings.accept(batch):
                held, wanted = accepted
                self._pending.append((held, held.epoch, wanted))

    def _on_lost_position(self, driver: ConsumerDriver, error: PositionLost) -> None:
        """Retention overtook a partition: go on at low where that was allowed, else every receive says so."""
        held = self._holdings.get(error.log) if error.log is not None else None
        if held is None:
            raise error
        if held.lenient and error.low is not None:
            driver.seek({held.log: error.low}, SLICE * 50)
            self._holdings.hold({held.log: error.low}, lenient=True)
        else:
            self._holdings.fail(held.log, error)
            self._holdings.check()

    # acknowledging -----------------------------------------------------------------------------------------

    def ack(self, message: Message | MessageId) -> None:
        """This message is done. Recorded at once; stored by ``commit``, by close, and within a second."""
        delivery, index = self._delivered(message)
        if not delivery.live or delivery.flags[index]:
            self.late_acks += 1
            return
        delivery.flags[index] = 1
        delivery.tracker.dirty = True

    def ack_through(self, message: Message | MessageId) -> None:
        """This message and all that were delivered before it in its partition are done."""
        delivery, index = self._delivered(message)
        if delivery.live:
            delivery.tracker.ack_through(delivery, index)
        else:
            self.late_acks += 1

    def nack(self, message: Message, delay: float = 0) -> None:
        """Give a message back to be delivered again, where the backend can."""
        self._check_open()
        raise Unsupported("nack", backend=self._backend.name, topic=self._topic, operation="nack")

    def _delivered(self, message: Message | MessageId) -> tuple[Delivery, int]:
        """Where this consumer handed a message out; ``InvalidMessageId`` if it never did."""
        if isinstance(message, Message):
            delivery, index = message._batch.delivery, message._index
        else:
            delivery, index = self._find(message)
        if self._closed or self.group is None or delivery is None or delivery.tracker.owner is not self._holdings:
            self._refuse_ack(message)
        return delivery, index

    def _find(self, message_id: MessageId) -> tuple[Delivery | None, int]:
        """Where a message was handed out; a dead delivery if it was acked before, None if it never was."""
        if not isinstance(message_id, MessageId):
            raise TypeError(f"ack takes a Message or its id, not {type(message_id).__name__}")
        held = self._holdings.get(message_id.log)
        if held is None:
            return None, 0
        with self._holdings.committing:
            found = held.tracker.find(message_id)
            if found is None and held.tracker.has_acked(message_id):
                return held.tracker.passed, 0
        return found or (None, 0)

    def _refuse_ack(self, message: Message | MessageId) -> NoReturn:
        self._check_open()
        if self.group is None:
            raise Unsupported(
                "groups", "a consumer without a group cannot ack",
                backend=self._backend.name, topic=self._topic, operation="ack", fix="Open the consumer with group=",
            )  # fmt: skip
        raise InvalidMessageId(
            f"{message!r} was not delivered by this consumer, or is not held any more",
            backend=self._backend.name, topic=self._topic, operation="ack", fix="Ack what this consumer received",
        )  # fmt: skip

    def commit(self, timeout: float | None = 30) -> None:
        """Store all acks so far, durably."""
        deadline = Deadline(timeout)
        self._check_open()
        if self.group is None:
            raise Unsupported(
                "groups", "a consumer without a group has nothing to commit",
                backend=self._backend.name, topic=self._topic, operation="commit",
            )  # fmt: skip
        self._commit(deadline)

    def _commit(self, deadline: Deadline) -> None:
        committing = self._holdings.committing
        if not committing.acquire(timeout=deadline.remaining(NO_END)):
            raise Timeout("another commit is under way and did not end in time", operation="commit")
        try:
            states = self._holdings.take_changes()
            self._last_commit = time.monotonic()
            if states:
                self._store(states, deadline)
        finally:
            committing.release()

    def _store(self, states: Mapping[Log, GroupPosition], deadline: Deadline) -> None:
        try:
            with self._backend.context("commit", self._topic):
                self._open_driver().commit(states, deadline.remaining(NO_END))
        except BaseException:
            self._holdings.put_back(list(states))
            raise

    # positions ---------------------------------------------------------------------------------------------

    def seek(
        self,
        to: Start | MessageId,
        *,
        inclusive: bool = True,
        partition: int | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> None:
        """Go on reading elsewhere.

        An id or position moves its own partition; any other start moves all partitions held, or the one that
        ``partition`` names. ``seek(id)`` delivers that message first, ``inclusive=False`` the one after it. With a
        group, its stored position has moved when this returns. ``missing="next"`` goes on with the first retained
        message where what was asked for is gone; otherwise that is ``PositionLost``, and nothing changes.
        """
        deadline = Deadline(timeout)
        start = _target(to, inclusive)
        if missing not in {"error", "next"}:
            raise ValueError(f"missing is 'error' or 'next', not {missing!r}")
        self._check_open()
        with self._gate.entering(self._wake, deadline), self._backend.context("seek", self._topic):
            self._check_open()
            positions = self._seek_positions(start, partition, deadline)
            lenient = missing == "next" or not isinstance(start, Before | After | Position)
            if not lenient:
                refuse_lost(self._backend, self._connection, positions, deadline)
            self._move(positions, lenient, deadline)

    def _seek_positions(self, start: Start, partition: int | None, deadline: Deadline) -> dict[Log, Position]:
        if isinstance(start, Before | After | Position):
            position = position_of(self._connection, start)
            check_log(position.log, self._logs)
            self._await_assignment(deadline)
            logs = [position.log]
        else:
            self._await_assignment(deadline)
            logs = [log for log in self._holdings if partition in {None, log.partition}]
        if not logs or any(self._holdings.get(log) is None for log in logs):
            which = repr(logs[0]) if logs else f"partition {partition}"
            raise NotAssigned(
                f"{which} is not held by this consumer",
                backend=self._backend.name, topic=self._topic, operation="seek", fix="Seek what assignment() lists",
            )  # fmt: skip
        return resolve(self._backend, self._connection, start, logs, deadline)

    def _move(self, positions: Mapping[Log, Position], lenient: bool, deadline: Deadline) -> None:
        with self._holdings.committing:
            try:
                self._open_driver().seek(positions, deadline.remaining(NO_END))
            except Timeout as error:
                for log in positions:
                    self._holdings.fail(log, error)
                raise
            self._holdings.hold(positions, lenient=lenient)

    def _await_assignment(self, deadline: Deadline) -> None:
        """With a group: wait until this member holds something. The gate is held."""
        while not self._holdings:
            self._poll(POLL_MESSAGES, deadline.remaining(SLICE))
            if not self._holdings and deadline.expired:
                raise Timeout(
                    "this member of the group was given no partition in time",
                    operation="seek", fix="Allow more time, or close another member",
                )  # fmt: skip

    def position(self, topic: str | None = None) -> dict[int, Position]:
        """For each partition held: the position of the next message that will be delivered."""
        self._check_open()
        return {
            log.partition: held.tracker.position
            for log in self._of(topic)
            if (held := self._holdings.get(log)) is not None
        }

    def committed(self, topic: str | None = None, timeout: float | None = 30) -> dict[int, Position | None]:
        """For each partition: the group's stored position; None where there is none."""
        deadline = Deadline(timeout)
        self._check_open()
        if self.group is None:
            raise Unsupported("groups", "a consumer without a group has no stored position", operation="committed")
        logs = [log for log in self._logs if topic in {None, log.topic}]
        stored = self._backend.group_positions(self._connection, self.group, logs, deadline)
        return {log.partition: stored[log].position if log in stored else None for log in logs}

    def assignment(self) -> list[Log]:
        """The logs held now, in order."""
        self._check_open()
        return sorted(self._holdings, key=lambda log: (log.topic, log.partition))

    def _of(self, topic: str | None) -> list[Log]:
        held = self.assignment()
        if topic is None and len({log.topic for log in self._logs}) > 1:
            raise TypeError("this consumer reads several topics: say which one")
        return [log for log in held if topic in {None, log.topic}]

    # ending ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End iteration after the message in hand. Safe from any thread and from a signal handler."""
        self._stopping = True
        delivery = self._delivery
        if delivery is not None:
            delivery.hold_back()

    def close(self, timeout: float | None = 30) -> None:
        """Store acks, leave the group, let go. May be called twice; wakes a blocked receive."""
        deadline = Deadline(timeout)
        if self._closed or self._fork.crossed:
            self._closed = True
            return
        self._closed = True
        self.stop()
        failure = self._commit_at_close(deadline)
        driver, self._driver = self._driver, None
        self._on_closed(self)
        if driver is not None:
            close_native(f"a consumer of {self._topic}", driver.close, deadline)
        self._holdings.drop_all()
        if failure is not None:
            raise CloseIncomplete(
                f"the last acks could not be stored: {failure.message}",
                backend=self._backend.name, topic=self._topic, operation="close",
                fix="The messages acked in the last second may come back",
            ) from failure  # fmt: skip

    def _commit_at_close(self, deadline: Deadline) -> Error | None:
        try:
            with self._gate.entering(self._wake, deadline):
                if self.group is not None:
                    self._commit(deadline)
        except Error as error:
            return error
        return None

    def __repr__(self) -> str:
        topics = ", ".join(sorted({log.topic for log in self._logs}))
        group = f", group {self.group!r}" if self.group is not None else ""
        return f"<Consumer {self._backend.name} {topics}{group}{', closed' if self._closed else ''}>"

    # what the client and its keeper need -------------------------------------------------------------------

    def _attach(self, driver: ConsumerDriver) -> None:
        self._driver = driver
        self._holds_something = True

    def _keep(self) -> None:
        """The keeper's round: poll for a caller that is away, and store acks every second."""
        now = time.monotonic()
        if self._closed or self._driver is None or self.group is None:
            return
        if now - self._last_poll > AWAY and not self._gate.busy:
            with self._gate.entering(self._wake, Deadline(SLICE)):
                if not self._closed:
                    self._open_driver().tend(SLICE)
        if now - self._last_commit > COMMIT_EVERY:
            self._commit(Deadline(SLICE * 50))

    def _wake(self) -> None:
        driver = self._driver
        if driver is not None:
            driver.wake()

    @property
    def _topic(self) -> str:
        return ", ".join(sorted({log.topic for log in self._logs}))

    def _open_driver(self) -> ConsumerDriver:
        if self._driver is None:
            self._check_open()
            raise Closed("this consumer is not open", operation="receive")
        return self._driver

    def _check_open(self) -> None:
        self._fork.check()
        if self._closed:
            raise Closed(f"{self!r} was closed", backend=self._backend.name)


def _target(to: Start | MessageId, inclusive: bool) -> Start:
    if isinstance(to, MessageId):
        return Before(to) if inclusive else After(to)
    return check_start(to)
