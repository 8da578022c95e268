"""The consumer that users call. It delegates to a session, which the asyncio consumer shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Literal

from mqplug._base.closing import Closable
from mqplug._base.deadline import Deadline, check_timeout
from mqplug._consume.assignment import ConsumerStatistics, PartitionState
from mqplug._consume.fetching import POLL_MESSAGES
from mqplug._consume.start_positions import check_start
from mqplug._model.batch import Batch, empty_batch
from mqplug._model.checks import check_missing, whole_number
from mqplug._model.errors import Closed
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.message import Message
from mqplug._model.names import check_partition
from mqplug._model.position import After, Before, Position, Start

if TYPE_CHECKING:
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._consume.delivery import Delivery
    from mqplug._consume.handler_threads import Handler, HandlerOrder
    from mqplug._model.position import Watermarks

EMPTY_BATCH = empty_batch()


class Consumer(Closable):
    """A consumer of one or many topics. Made by ``Client.consumer``.

    One thread at a time may receive; any thread may call ``ack``, ``nack``, ``commit``, ``seek``, ``pause``, ``stop``
    and ``close``.
    """

    def __init__(self, session: ConsumerSession) -> None:
        self.group = session.group
        self._session = session
        self._fetcher = session.fetcher  # saves each call an attribute lookup
        self._messages: Iterator[Message] = iter(())
        self.ack = session.acks.ack  # type: ignore[method-assign]  # one call less for each message

    # receiving ---------------------------------------------------------------------------------------------

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message, or None if none arrives in time. Waits forever by default; 0 polls."""
        if timeout is not None:
            check_timeout(timeout)  # even if a message is at hand
        for message in self._messages:
            return message
        deadline = Deadline(timeout)
        while (delivery := self._next_delivery(deadline)) is not None:
            for message in delivery.messages:
                return message
        return None

    def receive_many(self, most: int, timeout: float | None = None) -> Batch:
        """Return up to ``most`` messages of one partition as soon as any arrive, or an empty batch at the timeout."""
        check_most(most)
        batch = self._fetcher.next_batch(Deadline(timeout), most)
        return EMPTY_BATCH if batch is None else batch

    def batches(self, most: int = POLL_MESSAGES) -> Iterator[Batch]:
        """Iterate over batches of one partition each. Ends at ``stop``, at ``close``, and at ``until``."""
        check_most(most)
        return self._batches(most)

    def _batches(self, most: int) -> Iterator[Batch]:
        while True:
            try:
                batch = self.receive_many(most)
            except Closed:
                return
            if batch is EMPTY_BATCH:
                return
            yield batch

    def _read_to_end(self, timeout: float | None) -> Iterator[Message]:
        """Iterate over the messages up to ``until``, and close. Wait up to ``timeout`` seconds for each next one."""
        with self:
            while True:
                try:
                    batch = self.receive_many(POLL_MESSAGES, timeout)
                except Closed:
                    return
                if not batch:
                    self._session.check_read_to_end(timeout)
                    return
                yield from batch

    def __iter__(self) -> Iterator[Message]:
        """Iterate over all messages, forever. Ends at ``stop``, at ``close``, and at ``until``."""
        return chain.from_iterable(self._deliveries())

    def _deliveries(self) -> Iterator[Iterator[Message]]:
        forever = Deadline(None)
        yield self._messages
        while not self._session.closed:
            try:
                delivery = self._next_delivery(forever)
            except Closed:
                return
            if delivery is None:
                return
            yield delivery.messages

    def _next_delivery(self, deadline: Deadline) -> Delivery | None:
        session = self._session
        delivery = self._fetcher.next_delivery(deadline, session.fetch_messages, anew=True, offered=session.shares)
        if delivery is not None:
            self._messages = delivery.messages
        return delivery

    def run(self, handler: Handler, *, threads: int = 1, order: HandlerOrder | None = None) -> None:
        """Call ``handler`` with each message, on ``threads`` threads, until ``stop``, ``close`` or ``until``.

        A message is acked when the handler returns, and nacked when it raises: then it is delivered again as ``retry=``
        defines, or goes to the dead letters at once if the handler raised ``Reject``. Messages that are being handled
        at the end are finished, and their acks are stored.

        In ordered mode, one thread at a time handles a partition. With ``order="key"``, and in ``key_shared``, one
        thread at a time handles a key, and a nacked message blocks only those of its key.

        SIGTERM stops it only in the main thread. In any other thread, SIGTERM ends the process while handlers are at
        work, unless the program handles the signal and calls ``stop``. ``mqplug.serve`` runs several consumers, and
        stops all of them.
        """
        from mqplug._consume.handler_threads import handler_threads

        self._check_run(handler, threads, order)
        workers = handler_threads(self._session, handler, threads, order)
        self._fetcher.return_rest()
        workers.run()
        if not self._session.closed:
            self._session.commit_after_run(Deadline(30))

    def _check_run(self, handler: Handler, threads: int, order: HandlerOrder | None) -> None:
        """Raise unless ``run`` accepts these arguments."""
        from mqplug._consume.handler_threads import handles_by_partition

        whole_number("threads", threads, 1)
        if not callable(handler):
            raise TypeError(f"a handler must be callable, and {type(handler).__name__} is not")
        self._session.check_can_run()
        handles_by_partition(self._session.driver_session.options.mode, order)

    # settling ----------------------------------------------------------------------------------------------

    def ack(self, message: Message | MessageId) -> None:
        """Ack a message. The ack is recorded at once, and stored by ``commit``, by ``close``, or within a second."""
        self._session.acks.ack(message)

    def ack_through(self, message: Message | MessageId) -> None:
        """Ack this message and all earlier deliveries of its partition."""
        self._session.acks.ack_through(message)

    def nack(self, message: Message, delay: float | None = None, *, reason: object = None) -> None:
        """Nack a message: deliver it again as another attempt, after ``delay`` seconds or as ``retry=`` defines.

        In ordered mode its partition waits for it. Once its attempts are used up, it goes to the ``dead_letter``
        topic, with ``reason`` in a header.
        """
        self._session.acks.nack(message, delay, reason)

    @contextmanager
    def handling(self, message: Message) -> Iterator[Message]:
        """Ack the message at the end of the block. If the block raises, nack the message and propagate the error."""
        if not isinstance(message, Message):
            raise TypeError(f"handling() takes a Message, not {type(message).__name__}")
        try:
            yield message
        except Exception as error:
            self.nack(message, reason=error)
            raise
        self.ack(message)

    def commit(self, timeout: float | None = 30) -> None:
        """Store all acks durably.

        Raises ``NotAssigned`` if a partition was lost before its acks were stored: those messages are delivered again.
        """
        self._session.acks.commit_for_caller(Deadline(timeout))

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
        """Continue reading at another place. With a group, its stored position has moved on return.

        :param to: an id or a position moves its own partition; any other start moves all held partitions.
        :param inclusive: for an id: whether the message with this id is delivered first (the default), or the one
            after it.
        :param partition: the only partition to move, for a start that is not an id or a position; by default all held
            ones.
        :param missing: what happens if retention removed the wanted message: ``PositionLost``, and nothing changes
            (``"error"``, the default), or reading continues with the first retained message (``"next"``).
        :param timeout: seconds to wait, 30 by default; None waits without a limit.
        """
        deadline = Deadline(timeout)
        start = _target(to, inclusive)
        if partition is not None:
            check_partition(partition)
        check_missing(missing)
        self._session.seek(start, partition, missing, deadline)

    def position(self, topic: str | None = None) -> dict[int, Position]:
        """Return the position of the next message of each held partition."""
        return self._session.positions(topic)

    def committed(self, topic: str | None = None, timeout: float | None = 30) -> dict[int, Position | None]:
        """Return the group's stored position in each partition, or None for a partition without one."""
        return self._session.committed(topic, Deadline(timeout))

    def watermarks(self, topic: str | None = None, timeout: float | None = 30) -> dict[int, Watermarks]:
        """Return the watermarks of each held partition."""
        return self._session.watermarks(topic, Deadline(timeout))

    def assignment(self) -> list[Log]:
        """Return the currently held logs, in order."""
        return self._session.logs()

    def state(self) -> list[PartitionState]:
        """Return the state of each held partition, and the reason if it waits."""
        return self._session.states()

    def statistics(self) -> ConsumerStatistics:
        """Return counts of messages, acks and polls since the consumer was opened."""
        return self._session.statistics()

    @property
    def late_acks(self) -> int:
        """The number of acks without effect: repeated, or after a seek or a hand-over.

        In the shared modes a commit adds the acks of messages that another member got after ``max_processing``.
        """
        return self._session.acks.late

    # pausing -----------------------------------------------------------------------------------------------

    def pause(self, *partitions: int, topic: str | None = None, timeout: float | None = 30) -> None:
        """Pause these partitions until ``resume``; by default all held ones."""
        self._session.set_paused(partitions, topic, Deadline(timeout), paused=True)

    def resume(self, *partitions: int, topic: str | None = None, timeout: float | None = 30) -> None:
        """Resume these partitions where they were paused; by default all held ones."""
        self._session.set_paused(partitions, topic, Deadline(timeout), paused=False)

    # ending ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End iteration after the current message. Safe from any thread and from a signal handler."""
        self._session.stop()

    def close(self, timeout: float | None = 30) -> None:
        """Store acks, leave the group, and close. May be called twice. Wakes a blocked receive."""
        self._session.close(timeout)
        self._messages = iter(())  # the old iterator would keep the last delivery's messages

    def __repr__(self) -> str:
        return repr(self._session)


def session_of(consumer: Consumer) -> ConsumerSession:
    """Return the session of a consumer, for a transaction that stores its acks."""
    return consumer._session  # noqa: SLF001


def check_most(most: int) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless this is a number of messages."""
    whole_number("the number of messages of receive_many() and batches()", most, 1)


def _target(to: Start | MessageId, inclusive: bool) -> Start:
    if isinstance(to, MessageId):
        return Before(to) if inclusive else After(to)
    return check_start(to)
