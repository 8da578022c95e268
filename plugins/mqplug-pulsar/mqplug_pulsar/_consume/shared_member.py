"""A member of a group in the modes shared and key_shared: it takes single messages of all logs.

The broker distributes entries, each a message or a batch, by Shared and Key_Shared subscriptions. A member requests
messages only when it is polled, so that other members get the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from threading import Condition, Thread
from typing import Any
from uuid import uuid4

import mqplug
from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerDriver, ConsumerOptions, Deadline, GroupPosition, Latest, Listener, Numbers, Settlement
from mqplug_pulsar._admin import subscriptions
from mqplug_pulsar._admin.subscriptions import seek_together
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.shared_log import SharedLog
from mqplug_pulsar._consume.topic_checks import AddedPartitions, TopicChecks
from mqplug_pulsar._format import message_ids

CHECK_LASTS_S = 1.0  # from the check of a message to the poll that hands it out, which may be the next one
KEEPER_WAIT_S = 60.0  # of the thread that returns messages, if nothing is due earlier


class PulsarSharedMember(ConsumerDriver):
    """A member of a group whose members share each log, message by message."""

    def __init__(
        self, connection: PulsarConnection, group: str, options: ConsumerOptions, listener: Listener, timeout: float
    ) -> None:
        self._connection = connection
        self._group = group
        self._listener = listener
        self._max_processing = options.max_processing
        self._by_key = options.mode == "key_shared"
        self._name = f"mqplug-pid-{os.getpid()}-{uuid4().hex[:16]}"
        self._changed = Condition()
        self._woken = self._closed = False
        self._checks = TopicChecks(connection)
        self._options = options
        self._logs: dict[Log, SharedLog] = {}
        self._unreported: dict[Log, GroupPosition] = {}  # assigned, but not reported to the listener yet
        self._keeper: Thread | None = None
        self._growth = AddedPartitions(connection, options.logs, _open_later)
        deadline = Deadline(timeout)
        subscriptions.prepare_group(connection, options, timeout)
        self._join(options.logs, deadline)

    def _shared(self, log: Log) -> SharedLog:
        subscribe = subscriptions.shared_subscriber(
            self._connection, self._group, self._name,
            latest=isinstance(self._options.start, Latest), by_key=self._by_key,
        )  # fmt: skip
        return SharedLog(
            self._connection, log, self._group, self._name, self._changed, subscribe, by_key=self._by_key
        )  # fmt: skip

    def _join(self, logs: Sequence[Log], deadline: Deadline) -> None:
        """Join the group on these additional logs: on all of them, or on none if one fails."""
        fresh = {log: self._shared(log) for log in logs}
        try:
            self._connection.calls.each({log: each.join for log, each in fresh.items()}, deadline.remaining())
        except BaseException:
            self._leave(fresh, 1.0)
            raise
        # Members that share a log use no position: the broker knows which messages come next.
        self._unreported |= {log: GroupPosition(Position(log, message_ids.LOG_BEGIN)) for log in logs}
        with self._changed:
            self._logs |= fresh

    def _leave(self, logs: Mapping[Log, SharedLog], timeout: float) -> None:
        closes = {log: partial(each.close, timeout) for log, each in logs.items()}
        with suppress(mqplug.Error):  # closes that the broker does not answer in time continue by themselves
            self._connection.calls.each(closes, timeout)

    # receiving ---------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return up to ``most`` messages that no other member has."""
        self._report_assigned()
        deadline, since = Deadline(timeout), time.monotonic()
        away = self._checks.outage(self._lost) if timeout > 0 else None
        while True:
            with self._changed:
                # A poll without time for a check takes messages with an older check, or it would never get any.
                oldest = -inf if (expired := deadline.expired) else since - CHECK_LASTS_S
                batches = self._take_locked(most, since, oldest)
                if batches or self._woken or expired:
                    self._woken = False
                    break
                self._changed.wait(min(deadline.remaining(), self._until_due_locked()))
        if away is not None and not batches:
            raise away
        return batches

    def _take_locked(self, most: int, since: float, oldest: float) -> list[Batch]:
        """Return the messages that are here; request more if there are none."""
        ends = inf if self._max_processing is None else time.monotonic() + self._max_processing
        batches: list[Batch] = []
        for log in list(self._logs):
            if batches:  # the core hands those out first, and the time of the others would begin now
                break
            each = self._logs[log]
            if (batch := each.take_locked(most, ends, since, oldest)) is not None:
                batches.append(batch)
                self._logs[log] = self._logs.pop(log)  # the others come first the next time
        for each in self._logs.values():
            if batches:
                each.unask_locked()
            else:
                each.raise_error_locked()
                each.judge_locked()
                each.ask_locked(most)
        if batches and ends < inf:
            self._keep_locked()
        return batches

    def _until_due_locked(self) -> float:
        return max(0.0, min((each.next_due_locked() for each in self._logs.values()), default=inf) - time.monotonic())

    def _lost(self) -> set[str]:
        return {log.topic for log, each in self._logs.items() if each.is_lost}

    def wake(self) -> None:
        """End a waiting poll."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def tend(self, timeout: float) -> None:
        """Give back messages that the caller does not take while it is away."""
        self._report_assigned()
        with self._changed:
            for each in self._logs.values():
                each.rest_locked()

    def pause(self, logs: Sequence[Log]) -> None:
        """Stop handing out messages of these logs."""
        self._set_paused(logs, paused=True)

    def resume(self, logs: Sequence[Log]) -> None:
        """Hand out messages of these logs again."""
        self._set_paused(logs, paused=False)

    def _set_paused(self, logs: Sequence[Log], *, paused: bool) -> None:
        with self._changed:
            for log in logs:
                self._logs[log].paused = paused
                if paused:
                    self._logs[log].unask_locked()

    def _report_assigned(self) -> None:
        if self._unreported:
            begin, self._unreported = self._unreported, {}
            self._listener.assigned(begin)
        if added := list(self._growth.opened(self._logs)):
            with self._changed:
                self._logs |= {log: self._shared(log) for log in added}
            self._listener.assigned({log: GroupPosition(Position(log, message_ids.LOG_BEGIN)) for log in added})

    # settling ----------------------------------------------------------------------------------------------

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int:
        """Ack and return messages. Return how many acks came after their message had gone to another member."""
        deadline = Deadline(timeout)
        logs = {self._logs[log]: each for log, each in settled.items() if log in self._logs}
        self._connection.calls.complete([partial(log.settle, each, deadline) for log, each in logs.items()], timeout)
        if any(each.returned for each in settled.values()):
            with self._changed:
                self._keep_locked()
        return sum(log.take_late() for log in logs)

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Stop the expiry of a message whose ack is being settled."""
        with self._changed:
            if (shared := self._logs.get(log)) is not None:
                shared.stop_clock_locked(coordinates)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Move the group. This frees the messages of these logs that any member holds."""
        if missing := [log for log in positions if log not in self._logs]:
            raise mqplug.NotAssigned(
                f"{missing[0]!r} is not held by this consumer",
                topic=missing[0].topic, fix="Seek logs that assignment() lists",
            )  # fmt: skip
        seeks: dict[Any, Any] = {
            log: partial(seek_together, self._connection, self._group, position, timeout)
            for log, position in positions.items()
        }
        self._connection.calls.each(seeks, timeout)
        with self._changed:
            for log in positions:
                self._logs[log].give_up_locked(moved=True)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Share exactly these logs from now on."""
        deadline = Deadline(timeout)
        self._options = options
        with self._changed:
            gone = {log: self._logs.pop(log) for log in self._logs.keys() - set(options.logs)}
        self._leave(gone, deadline.remaining())
        self._unreported = {log: begin for log, begin in self._unreported.items() if log in self._logs}
        self._join([log for log in options.logs if log not in self._logs], deadline)
        self._growth.follow(options.logs)

    def close(self, timeout: float) -> None:
        """Give back this member's messages at once, and leave the group."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._growth.stop()
        self._leave(self._logs, timeout)

    # returning messages ------------------------------------------------------------------------------------

    def _keep_locked(self) -> None:
        """Make a thread return messages to the broker when they are due."""
        if self._keeper is None:
            self._keeper = Thread(target=self._keep, name="mqplug-pulsar-returns", daemon=True)
            self._keeper.start()
        else:
            self._changed.notify_all()

    def _keep(self) -> None:
        with self._changed:
            while not self._closed:
                next_return = min((each.return_due_locked() for each in self._logs.values()), default=inf)
                self._changed.wait(max(0.0, min(KEEPER_WAIT_S, next_return - time.monotonic())))


def _open_later(log: Log) -> None:
    """Open nothing: a poll opens the client's consumer of an added partition."""
