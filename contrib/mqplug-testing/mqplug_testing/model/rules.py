"""The rules that the model keeps: each is a sentence of the page "The rules", word for word, under a short name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import attrs

RULES: Final = {
    # where reading begins
    "latest": "Messages sent before the call are not delivered; messages sent after its return are, even "
    "on an empty topic.",
    "must-exist": "With `must_exist=True`, a group without a position raises `GroupNotFound`.",
    # seek
    "order": "A seek compares ids; it never \"drops the next message\".",
    "seek": "`seek(id)` delivers that message first; `inclusive=False` delivers the one after it.",
    "refused": "A refused seek changes nothing.",
    "not-held": "Seeking a partition that the consumer does not hold raises `NotAssigned`.",
    # what retention removed
    "lost": "If retention removed a message at or after the requested position, the call raises "
    "`PositionLost` with `low`, "
    "unless you pass `missing=\"next\"`.",
    "overtaken": "if retention overtakes a consumer, every receive raises `PositionLost` until the consumer seeks.",
    # groups
    "one-member": "With a group, the members share the partitions, and each partition has one member at a time.",
    "no-trace": "A consumer without a group reads all its partitions, leaves no trace and cannot ack.",
    "exclusive": "In `exclusive` mode, a second member raises `ConsumerBusy`.",
    "copied": "a `GroupPosition` also sets the acks",
    "again": "Unacked messages then come again as a first attempt, and a pause has ended.",
    "positions": "`positions` returns a group's position in each partition and the acked messages after it.",
    "busy": "If the group has members, `reset_group` raises a `ConsumerBusy` that names them "
    "(`error.members`) and moves "
    "nothing; so does `delete_group`.",
    "describe-group": "`describe_group` returns the topics where a group has a position or members, and its members",
    "members": "`groups` lists the groups that have a position.",
    "member-name": "each one's name at the backend, its host, and the partitions that it holds now",
    "no-group": "A group with neither raises `GroupNotFound`.",
    "reset": "Any other partition in which the group has no position gets one at `EARLIEST`, like an "
    "added partition.",
    "delete-group": "`delete_group` deletes a group on all topics.",
    # acks
    "ack": "An ack covers one message that this consumer delivered.",
    "late": "A repeated ack, or one after a seek or a hand-over, changes nothing and is counted in `late_acks`.",
    "never-delivered": "An ack of a message that was never delivered raises `InvalidMessageId`.",
    "nack": "`nack` returns a message for redelivery: it comes again after `delay` seconds, or as `retry=` says, with "
    "`attempt` one higher.",
    "nack-blocks": "In order (`mode=\"ordered\"`, the default, and `exclusive`), it blocks its partition "
    "until it is acked, "
    "to preserve the order.",
    "dead-letter": "When the attempts of a `Retry` are used up, the message is sent to the `dead_letter` topic with "
    "its key, headers and timestamp, and with the added headers `mqplug-dead-reason`, `mqplug-dead-source` (its id) "
    "and `mqplug-dead-attempts`. Then it is acked.",
    "own-letters": "the consumer must not read the dead-letter topic itself",
    "rejected": "So does a `Reject` raised within `handling(message)` or passed as the `reason` of `nack`.",
    "shared": "If members share a log, any of them may get it, and the other messages continue.",
    "with-one": "If members share a log, one of them at a time has a message.",
    "by-key": "In `key_shared`, the messages of a key come in order, and one member at a time has messages of it.",
    # sending
    "id": "`send` waits and returns the id that the consumer will see.",
    "send-order": "Sends of one producer to one partition are never reordered.",
    "staged": "Messages written to a `stage` go to the partitions that `send_many` would choose, and are "
    "not yet visible.",
    "ingest": "readers see all of them or none, in the order in which the stages are passed.",
    "stage-order": "`ingest` takes in the messages of any number of stages in one step: readers see all of them or "
    "none, in the order in which the stages are passed.",
    "placed": "The result has the first and the last id in each partition.",
    "ingest-repeated": "If a number is not higher than the writer's last one, `ingest` takes in nothing, discards the "
    "staged messages, and reports `repeated`.",
    "gone": "If messages were discarded or taken in before, `ingest` raises `Corrupt`, takes in nothing, and the "
    "number stays free.",
    "stranger": "Stages of another store raise `ConfigError`.",
    "discard": "`discard` removes unwanted staged messages.",
    "atomic": "Readers see messages only after the commit, and never those of an aborted step.",
    "not-committed": "After an abort it raises `NotCommitted`, which proves that nothing was stored.",
    "step-seek": "`seek` in a step raises `ConsumerBusy`.",
    "fence": "The older client gets `Fenced` at its next commit or earlier, and then for each `transaction` of this "
    "name.",
    "repeated": "If this number or a higher one was committed before, the step is `repeated`: nothing is sent, the "
    "handles raise `OutcomeUnknown`, and acks count as usual.",
    "note": "In a repeated step it is the note of the highest committed number",
    # keys
    "same-key": "The same key goes to the same partition, on every backend.",
    "partition": "An explicit `partition=` overrides the partitioner; one that the topic does not have "
    "raises `ValueError` "
    "before anything is sent.",
    "sticky": "all messages of one `send_many` go to one partition",
    # content
    "content": "Keys and values are bytes or None.",
    "log-time": "Without a timestamp, a message has the log's own time.",
    # topics
    "missing": "Opening a missing topic raises `TopicNotFound`, unless you pass `create=True`.",
    "exists": "Creating a topic that exists raises `TopicExists`.",
    "describe": "`describe` returns a topic's partitions and settings",
    "topics": "`topics` lists all topics except the backend's own.",
    "deleted": "Ids of a deleted topic are refused even if a new topic has the same name.",
    "add-partitions": "Messages and ids stay, and groups read the new partitions from `EARLIEST`.",
    "trim": "`trim` removes everything before a position in each partition.",
    "alter": "`alter_topic` changes only what you pass: `retention`, `retention_bytes`, and the backend's own "
    "`options`.",
    "altered": "When the call returns, the change is stored, and every client's `describe` shows it.",
    "not-altered": "Passing nothing raises `TypeError`, and an option that the backend does not know raises "
    "`ConfigError`; both change nothing.",
    # what is stored
    "queries": "`watermarks`, `bounds` and `lag` move nothing, need no membership in a group, and return "
    "results by partition.",
    "high": "`high` is the end of the log, where `LATEST` starts.",
    "bounds": "`bounds` has the ids of the first and the last committed message, and `last(n)` counts "
    "committed messages.",
    "count": "`count` is an estimate unless `exact` is true.",
    "lag": "A `lag` is as exact as the count, but it is 0 only when nothing is left to read.",
    "empty": "An empty topic has `low == high`, and None as both ids of its `bounds`.",
    # what a start means
    "resolve": "`resolve` returns the position that a start means now, in each partition or in those of "
    "`partitions=`.",
    "advance": "`advance` moves a position by a number of messages, and `distance` counts the messages between two "
    "positions of one partition.",
    "exact": "They are exact if ids have no gaps.",
    "never-more": "fewer messages lie between than they say, never more.",
    "beyond": "A position beyond the end is returned as it is.",
    "resolve-lost": "If retention removed messages after a position, `resolve` raises `PositionLost`; "
    "with `missing=\"next\"` "
    "it returns the position of the first retained message.",
    # ids
    "ids": "Ids of one log are totally ordered, in the order of the log.",
    "id-text": "`MessageId.parse(str(id))` is the same id, and so is a pickled copy.",
    "foreign": "An id or a position of another cluster, or with coordinates that the backend cannot have issued, "
    "raises `InvalidMessageId`.",
    # time and threads
    "idle": "An idle `receive` returns None; an idle `receive_many` returns an empty batch.",
    "timeout": "Every blocking call takes a timeout in seconds",
    "outage": "what was confirmed outlives an outage: sent messages, committed acks, altered settings.",
    "pause": "`pause(0)` stops delivery from a partition, which stays assigned; `resume(0)` continues "
    "where it stopped.",
    "close": "It is bounded in time, wakes a blocked receive, stores acks, and flushes accepted messages.",
}  # fmt: skip


@attrs.define
class RuleBroken(AssertionError):
    """The backend answered a call in a way that no line of the model allows."""

    rule: str
    allowed: str
    seen: str

    def __str__(self) -> str:
        return f"{self.rule}: {RULES[self.rule]}\nallowed: {self.allowed}\nseen:    {self.seen}"


@attrs.frozen
class Outcome:
    """What a call returned, or the error that it raised."""

    value: Any = None
    error: BaseException | None = None

    def __str__(self) -> str:
        return repr(self.value) if self.error is None else f"{type(self.error).__name__}: {self.error}"


_checks: ContextVar[Counter[str] | None] = ContextVar("checks", default=None)


@contextmanager
def counting(checks: Counter[str]) -> Iterator[None]:
    """Count how often each rule is checked within the block."""
    token = _checks.set(checks)
    try:
        yield
    finally:
        _checks.reset(token)


def check(condition: object, rule: str, allowed: object, seen: object) -> None:
    """Raise ``RuleBroken`` unless the condition holds."""
    if (checks := _checks.get()) is not None:
        checks[rule] += 1
    if not condition:
        raise RuleBroken(rule, str(allowed), str(seen))


def value_of(outcome: Outcome, rule: str, allowed: object = "success") -> Any:
    """Return the value of a call that had to succeed."""
    check(outcome.error is None, rule, allowed, outcome)
    return outcome.value


def refused(outcome: Outcome, rule: str, *kinds: type[BaseException]) -> None:
    """Check that a call raised one of these errors."""
    check(isinstance(outcome.error, kinds), rule, names(kinds), outcome)


def names(kinds: Collection[type[BaseException]]) -> str:
    """Return the names of these errors."""
    return " or ".join(kind.__name__ for kind in kinds)
