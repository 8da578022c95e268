"""Rules: which calls, messages and answers get a fault, which fault, and how a call gets it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from random import Random
from threading import Lock
from typing import Any, Final, Literal, TypeVar, get_args

import attrs

import mqplug
from mqplug import Error, Timeout
from mqplug.spi import Action, action_name

Effect = Literal["fail", "drop", "lose_ack", "duplicate", "delay"]
TopicPartition = tuple[str, int | None]  # topic and partition, None if unknown


_CALL_EFFECTS: Final = frozenset({"fail", "delay", "lose_ack"})
_HOOKS: Final = (
    "connect",
    "open_producer",
    "open_consumer",
    "open_stage",
    "open_transactions",
    "resolve_start",
    "move_group",
    "watermarks",
    "bounds",
)

EFFECTS_OF_OPERATIONS: Final[Mapping[str, frozenset[str]]] = {  # the faults that each operation can have
    "send": frozenset({"fail", "drop", "lose_ack", "duplicate", "delay"}),
    "poll": frozenset({"fail", "drop", "duplicate", "delay"}),
    **dict.fromkeys(("seek", "commit", "settle"), _CALL_EFFECTS | {"drop"}),
    **dict.fromkeys(("begin_transaction", "commit_transaction", "abort_transaction"), _CALL_EFFECTS),
    **dict.fromkeys((*_HOOKS, "administer", *map(action_name, get_args(Action))), _CALL_EFFECTS),
    **dict.fromkeys(("health", "close"), frozenset({"fail", "delay"})),
}


def _known(rule: Rule, attribute: Any, operation: str) -> None:
    if operation not in EFFECTS_OF_OPERATIONS:
        near = get_close_matches(operation, EFFECTS_OF_OPERATIONS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(EFFECTS_OF_OPERATIONS)}"
        raise ValueError(f"unknown operation {operation!r}; {hint}")


def _possible(rule: Rule, attribute: Any, action: str) -> None:
    possible = EFFECTS_OF_OPERATIONS[rule.operation]
    if action not in possible:
        raise ValueError(f"{rule.operation!r} has no fault {action!r}; expected one of {', '.join(sorted(possible))}")


def _an_error(rule: Rule, attribute: Any, name: str) -> None:
    if name not in _ERRORS:
        raise ValueError(f"unknown error {name!r}; expected the name of an error of mqplug")


def _name(error: str | type[Error]) -> str:
    return error if isinstance(error, str) else error.__name__


@attrs.frozen
class Rule:
    """A fault (``action``) in an ``operation``.

    Of the events that match ``topic`` (a pattern such as ``orders.*``) and ``partition``, the rule strikes each with
    this ``probability``, or only the ``nth`` (counted from 1), and at most ``count`` of them.
    """

    operation: str = attrs.field(validator=_known)
    action: Effect = attrs.field(validator=_possible)
    topic: str = "*"
    partition: int | None = None
    probability: float = attrs.field(default=1.0, validator=[attrs.validators.ge(0), attrs.validators.le(1)])
    nth: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    count: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    delay: float = attrs.field(default=1.0, validator=attrs.validators.ge(0))
    error: str = attrs.field(default="ConnectError", converter=_name, validator=_an_error)

    def matches(self, operation: str, places: Sequence[TopicPartition]) -> bool:
        """Return whether the rule is for this operation at any of these places. Without places it matches anywhere."""
        if operation != self.operation and not (self.operation == "administer" and operation in _ADMINISTRATION):
            return False
        return not places or any(map(self.is_at, places))

    def is_at(self, place: TopicPartition) -> bool:
        """Return whether the rule is for this topic and partition."""
        topic, partition = place
        return fnmatchcase(topic, self.topic) and self.partition in {None, partition}

    def make_error(self) -> Error:
        """Return the error that ``fail`` raises."""
        return _ERRORS[self.error]("injected by mqplug_testing.faults")


_ERRORS: Final = {
    name: kind
    for name, kind in ((name, getattr(mqplug, name)) for name in mqplug.__all__)
    if isinstance(kind, type) and issubclass(kind, Error)
}
_ADMINISTRATION: Final = frozenset(map(action_name, get_args(Action)))


@attrs.frozen
class Happened:
    """An injected fault: the number of its rule (counted from 0), its operation and place."""

    rule: int
    action: Effect
    operation: str
    topic: str | None = None
    partition: int | None = None


class FaultPicker:
    """Picks the rule for each event, the same for the same seed and events, and lists the faults. Thread-safe."""

    def __init__(self, rules: Iterable[Rule], seed: int) -> None:
        self._rules = list(rules)
        self._random = [Random(f"{seed} {number}") for number, _ in enumerate(self._rules)]
        self._seen = [0] * len(self._rules)
        self._struck = [0] * len(self._rules)
        self._lock = Lock()
        self.happened: list[Happened] = []
        self.active = True

    def pick(
        self, operation: str, places: Sequence[TopicPartition] = (), among: Iterable[str] | None = None
    ) -> Rule | None:
        """Return the rule that strikes this event, or None. ``among`` names the faults that the event can have."""
        if not self.active:
            return None
        with self._lock:
            struck = [
                number
                for number, rule in enumerate(self._rules)
                if (among is None or rule.action in among) and rule.matches(operation, places)
                if self._strikes(number, rule)
            ]
            if not struck:
                return None
            number = struck[0]
            self._struck[number] += 1
            return self._log(number, operation, places)

    def _log(self, number: int, operation: str, places: Sequence[TopicPartition]) -> Rule:
        rule = self._rules[number]
        topic, partition = next(filter(rule.is_at, places), (None, None))
        self.happened.append(Happened(number, rule.action, operation, topic, partition))
        return rule

    def _strikes(self, number: int, rule: Rule) -> bool:
        """Return whether a rule strikes an event that it matches. Each event is counted, and drawn for, once."""
        self._seen[number] += 1
        drawn = self._random[number].random() < rule.probability
        if rule.nth is not None and self._seen[number] != rule.nth:
            return False
        return drawn and (rule.count is None or self._struck[number] < rule.count)

    def concerns(self, operation: str, actions: Iterable[str]) -> bool:
        """Return whether any rule injects one of these faults into an operation."""
        return any(rule.operation == operation and rule.action in actions for rule in self._rules)


T = TypeVar("T")


def before_call(rule: Rule | None, timeout: float) -> float:
    """Fail or delay a call that is about to be made. Return the rest of its timeout."""
    if rule is None:
        return timeout
    if rule.action == "fail":
        raise rule.make_error()
    if rule.action != "delay":
        return timeout
    time.sleep(min(rule.delay, timeout))
    if rule.delay > timeout:
        raise Timeout(f"mqplug_testing.faults delayed this call by {rule.delay:g} s, with {timeout:g} s left")
    return timeout - rule.delay


def after_call(rule: Rule | None) -> None:
    """Raise ``Timeout`` for a call that was made, if the rule loses its answer."""
    if rule is not None and rule.action == "lose_ack":
        raise Timeout("mqplug_testing.faults lost the answer: the call may or may not have taken effect")


def carry_out(rule: Rule | None, call: Callable[[float], T], timeout: float) -> T | None:
    """Make a call with its fault, and return its answer. A dropped call is skipped without an error."""
    left = before_call(rule, timeout)
    answer = call(left) if rule is None or rule.action != "drop" else None
    after_call(rule)
    return answer


def close(rule: Rule | None, call: Callable[[float], None], timeout: float) -> None:
    """Close with a fault. A close that is late or fails releases everything anyway."""
    if rule is not None and rule.action == "delay":
        time.sleep(min(rule.delay, timeout))
        timeout = max(0.0, timeout - rule.delay)
    call(timeout)
    if rule is not None and rule.action == "fail":
        raise rule.make_error()
