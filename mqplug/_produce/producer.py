"""The producer that users call. It delegates to a session, which the asyncio producer shares."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mqplug._base.closing import Closable
from mqplug._base.deadline import Deadline
from mqplug._model.ids import MessageId
from mqplug._produce.columns import Records
from mqplug._produce.handle import SendHandle
from mqplug._produce.queue import WhenFull, check_when_full
from mqplug._produce.record import HeadersArgument, check_record

if TYPE_CHECKING:
    from mqplug._produce.outcomes import ProducerStatistics
    from mqplug._produce.producer_session import ProducerSession


class Producer(Closable):
    """A producer of one topic, or of any. Made by ``Client.producer``. Any thread may use it."""

    def __init__(self, session: ProducerSession) -> None:
        self.topic = session.topic
        self._session = session
        self._routes = session.routes  # these save each message an attribute lookup
        self._queue = session.queue
        self._wait = session.wait
        self._collect = None if session.collector is None else session.collector.collect

    # sending -----------------------------------------------------------------------------------------------

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
        timeout: float | None = 30,
    ) -> MessageId:
        """Send one message, wait until it is stored, and return the id that the consumer will see.

        :param value: the payload; None is a tombstone.
        :param key: the message's key, which chooses the partition. None by default.
        :param headers: pairs of a name and a value, or a mapping; the values are bytes or None. Empty by default.
        :param timestamp: a datetime with a time zone, or milliseconds since 1970. By default the log sets its own time.
        :param partition: the partition, which overrides the key. By default the partitioner chooses.
        :param topic: the topic, for a producer that was opened without one. By default the producer's.
        :param timeout: seconds to wait, 30 by default; None waits without a limit.
        """
        route = self._routes.get(topic)
        deadline = None if timeout == 30 else Deadline(timeout)
        if route is None or (partition is not None and route.lacks(partition)):
            check_record(value, key, headers, timestamp)
            deadline = deadline or Deadline(timeout)
            route = self._session.find_route(topic, deadline)
        single = self._session.new_handle(route, (value, key, headers, timestamp, partition))
        single.was_seen = True
        if not self._queue.put(single, waits=True):
            deadline = deadline or Deadline(timeout)
            self._queue.accept(single, deadline)
        outcome = single.outcome
        if outcome is None:
            self._wait(single, deadline or Deadline(timeout))
            outcome = single.outcome
        return MessageId(*outcome) if type(outcome) is tuple else single.result(0)

    def submit(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
        when_full: WhenFull = "block",
        timeout: float | None = 30,
    ) -> SendHandle:
        """Send one message without waiting for its outcome. Return a handle with ``result(timeout)``.

        A failure whose handle was not read is raised by ``flush`` or ``close``.

        :param value: the payload; None is a tombstone.
        :param key: the message's key, which chooses the partition. None by default.
        :param headers: pairs of a name and a value, or a mapping; the values are bytes or None. Empty by default.
        :param timestamp: a datetime with a time zone, or milliseconds since 1970. By default the log sets its own time.
        :param partition: the partition, which overrides the key. By default the partitioner chooses.
        :param topic: the topic, for a producer that was opened without one. By default the producer's.
        :param when_full: what a full queue does: ``"block"`` (the default) waits for room up to ``timeout``, and then
            raises ``QueueFull``; ``"raise"`` raises it at once.
        :param timeout: seconds to wait for room, 30 by default; None waits without a limit.
        """
        if when_full != "block":
            check_when_full(when_full)
        deadline = None if timeout == 30 else Deadline(timeout)
        if topic is None and partition is None and timestamp is None and not headers and self._collect is not None:
            taken = self._collect(value, key)
            if taken is not None:
                if not isinstance(taken, int):
                    return taken
                return self._session.collect(taken, value, key, when_full, deadline or Deadline(timeout))
        route = self._routes.get(topic)
        if route is None or (partition is not None and route.lacks(partition)):
            check_record(value, key, headers, timestamp)
            deadline = deadline or Deadline(timeout)
            route = self._session.find_route(topic, deadline)
        fields = (value, key, headers, timestamp, partition)
        return self._session.submit(route, fields, when_full, deadline or Deadline(timeout))

    def send_many(self, records: Records, *, timeout: float | None = 30) -> Sequence[MessageId]:
        """Send messages as one batch, wait for all, and return their ids in the same order.

        Instead of records this takes Arrow data of any library: a record batch or a table with the columns of
        ``Batch.to_arrow``, of which only ``value`` is required.

        Raises ``SendFailed`` if any failed; its ``results`` have an id or an error for each. A batch that is too large
        for the backend is sent in parts.
        """
        deadline = Deadline(timeout)
        return self._session.await_many(self._session.hand_over_many(records, deadline), deadline)

    def flush(self, timeout: float | None = 30) -> None:
        """Wait until every accepted message is settled. Raise the failures that no caller has seen."""
        self._session.flush(Deadline(timeout))

    def statistics(self) -> ProducerStatistics:
        """Return counts of the messages that were stored, failed, or are on their way; works after close."""
        return self._session.statistics()

    def close(self, timeout: float | None = 30) -> None:
        """Flush, then close. May be called twice.

        Messages that are not settled in time become ``OutcomeUnknown``, and one ``CloseIncomplete`` counts them.
        """
        self._session.close(timeout)

    def __repr__(self) -> str:
        return repr(self._session)
