"""Opening a consumer: check the request, resolve its start to positions, and build the session."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs

from mqplug._consume.acking import Acknowledgements
from mqplug._consume.assignment import Assignment, OnChange
from mqplug._consume.consumer_session import ConsumerSession, Seeker
from mqplug._consume.dead_letters import DeadLetters
from mqplug._consume.driver_session import DriverSession
from mqplug._consume.fetching import Fetcher
from mqplug._consume.retries import RETRY_FOREVER, Retry
from mqplug._consume.start_positions import check_start, everywhere, group_start, refuse_lost, resolve
from mqplug._consume.topic_following import FindLogs, TopicFollower
from mqplug._model.checks import check_missing, number, whole_number
from mqplug._model.errors import Unsupported
from mqplug._model.names import check_group, check_partition_list, check_topic
from mqplug._model.position import EARLIEST, After, Before, Position, Start
from mqplug.spi._actions import SHARED_MODES, ConsumerOptions, Mode

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug._model.log import Log
    from mqplug._model.names import Matching
    from mqplug._plugins.backend import Backend
    from mqplug._produce.producer import Producer
    from mqplug.spi._actions import GroupStart
    from mqplug.spi._descriptor import Capabilities

CONSUMER_MODES = ("ordered", "exclusive", "shared", "key_shared")


class Following(NamedTuple):
    """The pattern that chose a consumer's topics, and the function that finds their current logs."""

    pattern: Matching
    find: FindLogs


@attrs.frozen(kw_only=True)
class ConsumerRequest:
    """The arguments of ``Client.consumer``."""

    group: str | None
    start: Start | None
    until: Start | None
    partitions: Sequence[int] | None
    mode: Mode
    missing: Literal["error", "next"]
    must_exist: bool
    auto_ack: bool
    max_unacked: int | None
    max_processing: float | None
    retry: Retry | None
    dead_letter: str | None
    on_assigned: OnChange | None
    on_revoked: OnChange | None
    prefetch_bytes: int

    @property
    def shares(self) -> bool:
        """Whether the members share logs, message by message."""
        return self.mode in SHARED_MODES

    @property
    def lenient(self) -> bool:
        """Whether to continue with the retained messages if the start is gone."""
        return self.missing == "next" or not isinstance(self.start, Before | After | Position)

    def check_pattern(self, pattern: Matching, *, create: bool) -> None:
        """Raise ``TypeError`` or ``ValueError`` if the request needs named topics."""
        if self.partitions is not None or create:
            raise TypeError(f"partitions= and create= need named topics, and {pattern} names none")
        if self.dead_letter is not None and pattern.matches(self.dead_letter):
            raise own_dead_letters(self.dead_letter)

    def check(self, topics: Sequence[str], able: Capabilities, backend: str) -> None:
        """Raise ``TypeError``, ``ValueError`` or ``Unsupported`` for an impossible request, before any I/O."""
        for start in (self.start, self.until):
            if start is not None:
                check_start(start)
        check_missing(self.missing)
        check_partition_list(self.partitions)
        for name, callback in (("on_assigned", self.on_assigned), ("on_revoked", self.on_revoked)):
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} must be callable, and {type(callback).__name__} is not")
        if self.max_unacked is not None:
            whole_number("max_unacked", self.max_unacked, 1)
        if self.max_processing is not None and not 0 < number("max_processing", self.max_processing) < math.inf:
            raise ValueError(f"max_processing must be more than 0, not {self.max_processing}")
        whole_number("prefetch_bytes", self.prefetch_bytes, 1)
        if self.group is None:
            self._check_reader()
        else:
            check_group(self.group)
            self._check_member(able, backend)
            self._check_dead_letter(topics)

    def _check_reader(self) -> None:
        if self.start is None:
            raise TypeError("a consumer without a group needs start=, such as start=EARLIEST")
        for name in ("auto_ack", "max_unacked", "max_processing", "retry", "dead_letter"):
            if getattr(self, name):
                raise TypeError(f"{name}= is for members of a group: pass group= too")
        if self.mode != "ordered":
            raise TypeError(f"mode={self.mode!r} is for members of a group: pass group= too")

    def _check_member(self, able: Capabilities, backend: str) -> None:
        if self.mode not in CONSUMER_MODES:
            raise ValueError(f"unknown mode {self.mode!r}; expected one of {', '.join(CONSUMER_MODES)}")
        if self.partitions is not None:
            raise TypeError("the members of a group share its partitions: partitions= is for consumers without a group")
        if self.shares and self.until is not None:
            raise TypeError("until= needs an order: members that share a log have none")
        if self.shares and self.auto_ack:
            raise TypeError("auto_ack needs an order: members that share a log ack each message")
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise TypeError(f"retry must be a Retry, not {type(self.retry).__name__}")
        needed = {"groups": True, self.mode: True, "dead_letter": self.dead_letter is not None}
        for capability, asked in needed.items():
            if asked and not getattr(able, capability):
                raise Unsupported(capability, backend=backend, operation="open a consumer")

    def _check_dead_letter(self, topics: Sequence[str]) -> None:
        attempts = self.retry.attempts if self.retry is not None else None
        if self.dead_letter is None:
            if attempts is not None:
                raise ValueError(
                    f"retry= ends after {attempts} attempts and needs dead_letter=: "
                    f"pass dead_letter='topic', or Retry(attempts=None)"
                )
            return
        check_topic(self.dead_letter)
        if self.retry is None:
            raise ValueError(
                f"dead_letter={self.dead_letter!r} needs retry=, which defines when a message goes there: after five "
                f"attempts with Retry(5), only if it is rejected with Retry(None)"
            )
        if self.dead_letter in topics:
            raise own_dead_letters(self.dead_letter)


def own_dead_letters(topic: str) -> ValueError:
    """Return the error for dead letters that would go back to their own topic."""
    return ValueError(
        f"dead_letter={topic!r} is a topic that this consumer reads: failed messages would come again forever. "
        f"Pass another topic, such as dead_letter={topic + '.dead'!r}"
    )


def open_consumer(
    backend: Backend,
    logs: Sequence[Log],
    wanted: ConsumerRequest,
    deadline: Deadline,
    dead_letters: Producer | None,
    following: Following | None,
    on_closed: Callable[[ConsumerSession], None],
) -> ConsumerSession:
    """Open a consumer of these logs. The request was checked."""
    end = resolve(backend, wanted.until, logs, deadline) if wanted.until is not None else {}
    assignment = Assignment(
        grouped=wanted.group is not None, shares=wanted.shares, until=end, lenient=wanted.missing == "next",
        on_assigned=wanted.on_assigned, on_revoked=wanted.on_revoked,
    )  # fmt: skip
    options = ConsumerOptions(
        logs=logs, group=wanted.group, start=_begin(backend, logs, wanted, assignment, deadline),
        must_exist=wanted.must_exist, mode=wanted.mode, prefetch_bytes=wanted.prefetch_bytes,
        max_processing=wanted.max_processing,
    )  # fmt: skip
    driver_session = DriverSession(backend, options, assignment)
    fetcher = Fetcher(driver_session, assignment, max_unacked=wanted.max_unacked)
    with_times = backend.connection.capabilities.timestamps_producer
    letters = DeadLetters(dead_letters, with_times=with_times) if dead_letters is not None else None
    retry = wanted.retry or RETRY_FOREVER
    acks = Acknowledgements(driver_session, assignment, fetcher, retry, letters, auto_ack=wanted.auto_ack)
    follower = None
    if following is not None:
        driver_session.pattern = following.pattern
        follower = TopicFollower(following.pattern, following.find, driver_session, assignment)
        fetcher.look_for_topics = follower.look
    if logs:
        driver_session.open(deadline)
    return ConsumerSession(
        driver_session, assignment, fetcher, acks, Seeker(driver_session, assignment, fetcher), letters,
        None if end else follower, on_closed,
    )  # fmt: skip


def _begin(
    backend: Backend,
    logs: Sequence[Log],
    wanted: ConsumerRequest,
    assignment: Assignment,
    deadline: Deadline,
) -> GroupStart:
    start = wanted.start if wanted.start is not None else EARLIEST
    if wanted.group is not None:
        return group_start(backend, start, logs, deadline)
    positions: Mapping[Log, Position] = everywhere(backend, start, logs, deadline)
    if not wanted.lenient:
        refuse_lost(backend, positions, deadline)
    assignment.hold(positions, lenient=wanted.lenient)
    return positions
