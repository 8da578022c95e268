"""The consumer of a group in the modes ordered and exclusive: a member with Failover or Exclusive subscriptions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import mqplug
from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerDriver, ConsumerOptions, Deadline, GroupPosition, Latest, Listener, weakly
from mqplug_pulsar._admin import subscriptions
from mqplug_pulsar._admin.group_notes import acked_before
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.committer import Committer
from mqplug_pulsar._consume.member_filter import MemberFilter
from mqplug_pulsar._consume.partition_feeds import MAX_QUEUE_MESSAGES, PartitionFeeds, TakeNow, queue_length
from mqplug_pulsar._consume.received_messages import ReceivedMessages, take_by_member
from mqplug_pulsar._consume.topic_checks import AddedPartitions
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._settings import PulsarSettings

HAND_OVER_MESSAGES = 100
"""The messages of a partition that are prefetched, or polled for a caller that wants fewer: they are delivered even
after another member became active."""
REVOKE_TIMEOUT_S = 5.0


class PulsarGroupMember(ConsumerDriver):
    """A member of a group. Pulsar does not report the active member, so each member holds all logs."""

    def __init__(
        self, connection: PulsarConnection, group: str, options: ConsumerOptions, listener: Listener, timeout: float
    ) -> None:
        self._connection = connection
        self._group = group
        self._options = options
        self._listener = listener
        # The same name on all partitions: the broker sorts members by name, and so distributes partitions evenly.
        # Names ascend with time: a new member takes no partition that can stay with an earlier member.
        self._name = f"mqplug-{time.time_ns() // 1_000_000:012x}-pid-{os.getpid()}-{uuid4().hex[:8]}"
        self.poll_messages = HAND_OVER_MESSAGES if options.mode == "ordered" else MAX_QUEUE_MESSAGES
        self._queue = queue_length(options, self.poll_messages)
        self._committer = Committer(connection, group)
        self._filter = MemberFilter(connection, self._committer, ordered=options.mode == "ordered")
        self._feeds = PartitionFeeds(connection, _taking(connection.settings), self._filter, self._reopen)
        self._unreported: dict[Log, GroupPosition] = {}  # assigned, but not reported to the listener yet
        self._given_back: set[Log] = set()  # revoked because messages came again; must be assigned again
        deadline = Deadline(timeout)
        subscriptions.prepare_group(connection, options, timeout)
        self._join(options.logs, deadline)
        self._growth = AddedPartitions(connection, options.logs, weakly(self._subscribe))

    def _join(self, logs: Sequence[Log], deadline: Deadline) -> None:
        """Join the group on these additional logs: on all of them, or on none if one fails."""
        held = self._feeds.logs
        self._subscribe_all(logs, deadline.remaining())
        try:
            self._unreported |= self._stored(logs, deadline.remaining())
        except BaseException:
            self._feeds.keep_only(held, max(1.0, deadline.remaining()))
            raise

    def _stored(self, logs: Sequence[Log], timeout: float) -> dict[Log, GroupPosition]:
        """Return where reading begins; the start of the log if unknown. The broker skips later acked messages."""
        begin = {log: GroupPosition(Position(log, message_ids.LOG_BEGIN)) for log in logs}
        if self._connection.admin is not None:
            stored = subscriptions.cursors(self._connection, logs, self._group, timeout)
            for log, cursor in stored.items():
                begin[log] = GroupPosition(Position(log, cursor.position))
                self._feeds[log].skipped = cursor.skipped
                self._committer.take_over(log, cursor.acks)
        return begin

    # receiving ---------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches as they arrive."""
        self._report_assigned()
        return self._feeds.poll(most, timeout)

    def wake(self) -> None:
        """End a waiting poll."""
        self._feeds.wake()

    def tend(self, timeout: float) -> None:
        """Report new logs. The client library keeps up the membership by itself."""
        self._report_assigned()

    def pause(self, logs: Sequence[Log]) -> None:
        """Stop delivering these logs."""
        self._feeds.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        """Deliver these logs again."""
        self._feeds.resume(logs)

    def _report_assigned(self) -> None:
        if self._unreported:
            begin, self._unreported = self._unreported, {}
            self._listener.assigned(begin)
        if opened := self._growth.opened(self._feeds.logs):
            for log, native in opened.items():
                self._add(log, native)
            self._listener.assigned({log: GroupPosition(Position(log, message_ids.LOG_BEGIN)) for log in opened})
        for log in [log for log in self._filter.unjudged if log in self._feeds and self._committer.can_learn(log)]:
            self._feeds[log].put_back(self._filter.unjudged.pop(log))
        for log in [log for log in self._filter.rewound if log in self._feeds]:
            self._begin_again(log)

    def _begin_again(self, log: Log) -> None:
        """Revoke and reassign a log on which messages arrive again that this member does not hold.

        Another member moved the group back, or the broker was killed and forgot acks. The log is assigned again only
        once a broker reports the acks: otherwise acked messages would be delivered again.
        """
        if log not in self._given_back:
            positions = self._listener.revoked([log])
            with suppress(mqplug.Error):  # then more messages are redelivered
                self._committer.commit(positions, REVOKE_TIMEOUT_S)
            self._given_back.add(log)
        if not self._committer.can_learn(log):
            return
        cursor = self._committer.learn(log)
        if self._committer.is_unanswered(log):
            return
        self._given_back.remove(log)
        begin = self._filter.begin_again(self._feeds[log], cursor)
        self._feeds.resume([log])
        self._listener.assigned({log: GroupPosition(begin)})

    # positions ---------------------------------------------------------------------------------------------

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Move the group's cursors, then subscribe again, so that no prefetched message is delivered."""
        self._feeds.check_held(positions)
        deadline = Deadline(timeout)
        moves = {
            log: partial(subscriptions.move_cursor, self._connection, self._feeds[log].native, self._group, to, timeout)
            for log, to in positions.items()
        }
        skipped = self._connection.calls.each(moves, timeout)
        self._feeds.close([self._feeds[log] for log in positions], deadline.remaining())
        self._subscribe_all(positions, deadline.remaining())
        for log, position in positions.items():
            self._feeds[log].skipped = skipped[log]
            self._committer.take_over(log, acked_before(position))

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store positions and acked ranges."""
        self._committer.commit(positions, timeout)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read exactly these logs from now on, as a member."""
        deadline = Deadline(timeout)
        self._options = options
        self._queue = queue_length(options, self.poll_messages)
        self._feeds.keep_only(options.logs, deadline.remaining())
        self._unreported = {log: begin for log, begin in self._unreported.items() if log in self._feeds}
        self._join([log for log in options.logs if log not in self._feeds], deadline)
        self._growth.follow(options.logs)

    def close(self, timeout: float) -> None:
        """Leave the group."""
        self._growth.stop()
        self._feeds.close_all(timeout)

    # client consumers --------------------------------------------------------------------------------------

    def _subscribe_all(self, logs: Iterable[Log], timeout: float) -> None:
        opened = self._feeds.open({log: partial(self._subscribe, log) for log in logs}, timeout)
        for log, native in opened.items():
            self._add(log, native)

    def _subscribe(self, log: Log) -> Any:
        return subscriptions.subscribe(
            self._connection, log, self._group,
            latest=isinstance(self._options.start, Latest), queue=self._queue,
            member=self._name, mode=self._options.mode,
        )  # fmt: skip

    def _reopen(self, logs: Sequence[Log], timeout: float) -> None:
        """Subscribe again: as after a reconnect, the broker sends all unacked messages."""
        deadline = Deadline(timeout)
        former = {log: self._feeds[log] for log in logs}
        self._feeds.close(former.values(), deadline.remaining())
        opened = self._feeds.open({log: partial(self._subscribe, log) for log in logs}, deadline.remaining())
        for log, native in opened.items():
            wanted = former[log].wanted
            self._committer.reopened(log, native, wanted)
            self._feeds.add(log, native, None if wanted is None else Position(log, wanted))
            self._feeds[log].skipped = former[log].skipped

    def _add(self, log: Log, native: Any) -> None:
        self._given_back.discard(log)
        self._filter.forget(log)
        self._committer.opened(log, native)
        self._feeds.add(log, native)


def _taking(settings: PulsarSettings) -> TakeNow[ReceivedMessages]:
    """Return the function that takes messages, from the compiled part or the plain path."""
    if compiled_part.find(settings, "reads") is None:
        return take_by_member
    from mqplug_pulsar._consume.compiled_reading import take_collected

    return take_collected
