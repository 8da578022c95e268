"""Applies faults to calls: fails, delays and skips them, or loses their answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mqplug import Timeout
from mqplug_testing.faults._rules import Rule

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
    """Raise ``Timeout`` for a call that was made, if its answer is to be lost."""
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
