"""The consumer of a group: a member, with its admission, rebalances and commits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress

from confluent_kafka import Consumer, ConsumerGroupType, KafkaError, KafkaException, TopicPartition

from mqplug import Batch, CloseIncomplete, ConfigError, Error, Log, NotAssigned, Position, Timeout
from mqplug.spi import ConsumerDriver, ConsumerOptions, Deadline, GroupPosition, Listener, weakly
from mqplug_kafka._admin.group_positions import as_committed, begin_group, stored_group_positions
from mqplug_kafka._admin.log_offsets import LOG_START, look_up
from mqplug_kafka._cluster.client_options import consuming, membership, rebalances_eagerly
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._cluster.worker import Worker
from mqplug_kafka._consume.client_source import ClientSource
from mqplug_kafka._consume.committer import Committer, excluded, revoking
from mqplug_kafka._consume.fetcher import PartitionFetcher

ADMISSION_S = 5.0  # without a first assignment, the group is checked after this time
LOOK_TIMEOUT_S = 2.0

LEAVE_TIMEOUT_S = 3.0  # a close waits this long until the group has released the member
REBALANCE_IO_TIMEOUT_S = 10.0  # to read the positions of newly assigned partitions
PLACE_SLICE_S = 0.8  # a poll waits this long for them; the next one looks again
REJOIN_LIMIT_S = 15.0  # while brokers answer; then a new client joins instead of one that cannot
REVOKE_TIMEOUT_S = 5.0  # to store positions before partitions are handed over


class KafkaGroupMember(ConsumerDriver):
    """A member of a group. Its rebalances happen inside ``poll`` and ``tend``."""

    def __init__(
        self, connection: KafkaConnection, group: str, options: ConsumerOptions, listener: Listener, timeout: float
    ) -> None:
        self._starts = begin_group(connection, group, options, timeout)
        settings = connection.settings
        self._instance = connection.instances.take(group)
        self._is_classic = settings.group_protocol == "classic"
        client_options = consuming(settings, group, options.prefetch_bytes) | membership(settings, self._instance)
        client_options["on_commit"] = weakly(self._on_commit)
        eager = rebalances_eagerly(settings)
        self._fetcher = PartitionFetcher(
            connection, lambda: ClientSource.opened(connection, client_options, eager=eager), options.logs
        )
        self._committer = Committer(self._consumer)
        self._connection = connection
        self._group = group
        self._listener = listener
        self._closing = False
        self._admission = Admission(connection, group)
        self._fault: Exception | None = None
        self._lost_at: float | None = None  # when the partitions were lost, until the group assigns some again
        self._unplaced: list[Log] = []  # assigned, but their positions are not known yet
        self._asked: Future[tuple[dict[Log, GroupPosition], dict[Log, int]]] | None = None  # the request for them
        self._subscribed = sorted({log.topic for log in options.logs})
        self._subscribe()

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches as they arrive."""
        with self._committer.polling(timeout) as mine:
            if not mine:
                return []
            self._check()
            self._renew()
            self._place()
            batches = self._fetcher.poll(most, timeout)
            if not batches:
                self._check()
                self._admission.check()
            return batches

    def tend(self, timeout: float) -> None:
        """Stay a member, with all partitions paused."""
        with self._committer.polling(timeout) as mine:
            if not mine:
                return
            self._renew()
            self._fetcher.pause_all()
            self._place()
            self._fetcher.keep(self._fetcher.source.serve())

    def pause(self, logs: Sequence[Log]) -> None:
        """Stop fetching these logs."""
        self._fetcher.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        """Fetch these logs again, from the next poll on if the caller does not poll now."""
        self._fetcher.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Store the new positions, then continue from them."""
        for log in positions:
            if log not in self._fetcher:
                raise NotAssigned(f"{log!r} is not held by this consumer", fix="Seek logs that assignment() lists")
        self.commit({log: GroupPosition(position) for log, position in positions.items()}, timeout)
        self._fetcher.move(positions)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store positions. Raise ``TopicNotFound`` if a topic was deleted or replaced, after storing all others."""
        deadline = Deadline(timeout)
        lost = self._fetcher.topics.lost({log.topic for log in positions}, timeout)
        if kept := {log: at for log, at in positions.items() if log.topic not in lost}:
            self._committer.commit(as_committed(kept), deadline.remaining())
        for error in lost.values():
            raise error

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read exactly these topics from now on, as a member. Look up the positions of a recreated topic again."""
        self._fetcher.topics.follow(options.logs)
        wanted = {(log.topic, log.partition): log for log in options.logs}
        replaced = [log for log in self._fetcher.logs if wanted.get((log.topic, log.partition), log) is not log]
        self._give_up(replaced)
        self._unplaced += [wanted[log.topic, log.partition] for log in replaced]
        self._asked = None
        topics = sorted({log.topic for log in options.logs})
        if topics != self._subscribed:
            self._subscribed = topics
            self._subscribe()

    def membership(self) -> bytes:
        """Return the client's proof of this membership and its generation, which the group's coordinator checks."""
        consumer = self._consumer
        proof: bytes | None = self._committer.between_polls(
            lambda: consumer.consumer_group_metadata() if consumer.memberid() else None
        )
        if proof is None:
            raise NotAssigned("the consumer is not a member of its group", fix="Receive again, then repeat the step")
        return proof

    def close(self, timeout: float) -> None:
        """Leave the group, so that other members need not wait for the session to expire.

        A broker handles one request of a connection at a time: while it delays the answer to a join, it does not see
        the leave, and the client's close does not wait for it. A static member does not leave.
        """
        self._closing = True
        consumer = self._consumer
        with suppress(KafkaException):  # after a fatal error: another member has replaced this one
            consumer.unsubscribe()
        self._poll_until_left(consumer, Deadline(min(timeout / 2, LEAVE_TIMEOUT_S)))
        consumer.close()
        self._committer.stop()
        self._connection.instances.release(self._group, self._instance)
        fault, self._fault = self._fault, None
        if isinstance(fault, Error):  # from a hand-over since the last poll
            raise CloseIncomplete(
                f"positions could not be stored when partitions were handed over: {fault.message}",
                fix="Messages acked just before may come again",
            ) from fault

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            self._subscribed,
            on_assign=weakly(self._on_assign),
            on_revoke=weakly(self._on_revoke),
            on_lost=weakly(self._on_lost),
        )

    @property
    def _consumer(self) -> Consumer:
        return self._fetcher.source.consumer

    def _renew(self) -> None:
        """Leave the group and rejoin it if certificates were renewed. A hand-over stores the positions."""
        source = self._fetcher.renewed()
        if source is None and self._is_forgotten():
            logger.warning("group %r: rejoining with a new client, because the last one did not find its coordinator"
                           " again within %g s", self._group, REJOIN_LIMIT_S)  # fmt: skip
            source = self._fetcher.another()
        if source is None:
            return
        self._lost_at = None
        former = self._consumer
        with suppress(KafkaException):  # after a fatal error: another member has replaced this one
            former.unsubscribe()
        self._poll_until_left(former, Deadline(LEAVE_TIMEOUT_S))
        if logs := self._fetcher.logs:  # the group did not revoke them in time: it will do so by itself
            self._on_lost(former, [TopicPartition(log.topic, log.partition) for log in logs])
        self._unplaced, self._asked = [], None
        self._fetcher.move_to(source)
        self._committer.move_to(self._consumer)
        self._subscribe()

    def _is_forgotten(self) -> bool:
        """Return whether the group has not answered since the partitions were lost, although brokers answer.

        After all brokers were down, librdkafka 2.16 sometimes waits forever for the last known coordinator.
        """
        lost_at = self._lost_at
        return lost_at is not None and self._fetcher.topics.answered_for(lost_at) > REJOIN_LIMIT_S

    def _poll_until_left(self, consumer: Consumer, left_by: Deadline) -> None:
        """Poll until the group has released this member. A static member does not leave, but gives back its logs.

        A member of the consumer protocol keeps the id that it chose. It polls before and after, because a pending
        rebalance can hang consumer.close() (librdkafka issue 4884).
        """
        if not self._is_classic:
            self._poll_shortly(consumer)
        while not left_by.expired and self._is_member(consumer):
            self._poll_shortly(consumer)
        if not self._is_classic:
            self._poll_shortly(consumer)

    def _poll_shortly(self, consumer: Consumer) -> None:
        # The client cannot revoke partitions that it never got, and raises its KafkaError itself: it is no Exception.
        with suppress(KafkaException, KafkaError, SystemError):  # type: ignore[arg-type]
            consumer.poll(0.02)

    def _is_member(self, consumer: Consumer) -> bool:
        if not self._is_classic:
            return bool(consumer.assignment())
        return bool(consumer.memberid()) if self._instance is None else self._holds()

    def _holds(self) -> bool:
        return bool(self._fetcher.logs) and not self._closing

    def _check(self) -> None:
        """Raise the error of a failed callback, once."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    # rebalances: called by the client inside poll ---------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._closing:
            return
        self._admission.granted()
        self._lost_at = None
        self._unplaced += [self._log(each) for each in partitions]
        self._asked = None
        with self._committer.rebalancing(), self._noting_faults():
            self._fetcher.source.assignment.accept()
            self._place()

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._committer.note_answer(error, partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        logs = [self._log(each) for each in partitions]
        if self._closing:
            self._give_up(logs)  # the client itself would refuse those that were never placed, and its close would hang
            return
        with self._committer.rebalancing(revoking), self._noting_faults():
            try:
                if states := self._listener.revoked(logs):
                    self.commit(states, REVOKE_TIMEOUT_S)
            finally:
                self._give_up(logs)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        logs = [self._log(each) for each in partitions]
        if self._closing:
            self._give_up(logs)
            return
        self._lost_at = time.monotonic()
        with self._committer.rebalancing(excluded), self._noting_faults():
            self._give_up(logs)
            self._listener.lost(logs)

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        """Keep the error of a callback, for the surrounding poll to raise. Raised here, it would lose messages."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # the listener calls the user's code
            self._fault = error

    def _give_up(self, logs: Sequence[Log]) -> None:
        self._unplaced, self._asked = [log for log in self._unplaced if log not in logs], None
        self._fetcher.drop(logs)

    def _place(self) -> None:
        """Begin to read the assigned logs. If the brokers do not answer soon, leave it to the next poll."""
        if not self._unplaced:
            return
        deadline = Deadline(PLACE_SLICE_S)
        asked = self._asked = self._asked or self._ask_positions(tuple(self._unplaced))
        try:
            found, low = asked.result(deadline.remaining())
        except FutureTimeout as error:
            if isinstance(error, Timeout):  # raised by the request itself
                self._asked = None
                raise
            return
        except Exception:
            self._asked = None
            raise
        begun = {log: GroupPosition(self._starts[log]) for log in low if log in self._starts}
        # Partitions that were added since the group began are read from their first message.
        begun |= {log: GroupPosition(Position(log, (offset,))) for log, offset in low.items() if log not in begun}
        if begun:
            self.commit(begun, deadline.remaining())
        positions = found | begun
        self._asked, self._unplaced = None, []
        self._fetcher.take({log: to.position for log, to in positions.items()})
        self._listener.assigned(positions)

    def _ask_positions(self, logs: Sequence[Log]) -> Future[tuple[dict[Log, GroupPosition], dict[Log, int]]]:
        """Ask for the group's positions, and for the first offsets of the logs where it has none."""
        connection, group = self._connection, self._group

        def ask() -> tuple[dict[Log, GroupPosition], dict[Log, int]]:
            deadline = Deadline(REBALANCE_IO_TIMEOUT_S)
            found = stored_group_positions(connection, group, logs, deadline.remaining())
            missing = [log for log in logs if log not in found]
            return found, look_up(connection, missing, LOG_START)(deadline.remaining())

        worker = Worker("mqplug-kafka-positions")
        asked = worker.run(ask)
        worker.stop()
        return asked

    def _log(self, each: TopicPartition) -> Log:
        return self._connection.log(each.topic, each.partition, self._fetcher.topics.incarnation(each.topic))


class Admission:
    """Watches whether a group admits its member of the consumer protocol."""

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection = connection
        self._group = group
        waits = connection.settings.group_protocol == "consumer"
        self._look_at: float | None = time.monotonic() + ADMISSION_S if waits else None

    def granted(self) -> None:
        """Note an assignment, even an empty one."""
        self._look_at = None

    def check(self) -> None:
        """Raise ``ConfigError`` if the group still does not use the consumer protocol. Check every few seconds."""
        if self._look_at is None or time.monotonic() < self._look_at:
            return
        try:
            found = self._connection.coordinators.describe([self._group], LOOK_TIMEOUT_S)[self._group]
        except Error:  # no coordinator answers, and the client waits for one as well
            return
        finally:
            self._look_at = time.monotonic() + ADMISSION_S
        if found.type is not ConsumerGroupType.CONSUMER:
            raise ConfigError(
                f"the group {self._group!r} does not admit members of the consumer protocol",
                fix="Set group_protocol='classic': the consumer protocol needs Kafka 4.0 or newer",
            )
