"""What can happen to a call."""

from __future__ import annotations

import time
from collections.abc import Callable

from mqplug._model.errors import Timeout
from mqplug.faults._rules import Rule


def before_call(rule: Rule | None, timeout: float) -> float:
    """Fail or delay a call that is about to be made; what is left of its timeout."""
    if rule is None:
        return timeout
    if rule.action == "fail":
        raise rule.make_error()
    if rule.action != "delay":
        return timeout
    time.sleep(min(rule.delay, timeout))
    if rule.delay > timeout:
        raise Timeout(f"mqplug.faults delayed this by {rule.delay:g} s")
    return timeout - rule.delay


def after_call(rule: Rule | None) -> None:
    """Lose the answer of a call that was made."""
    if rule is not None and rule.action == "lose_ack":
        raise Timeout("mqplug.faults lost the answer: it may have been done, or not")


def carry_out(rule: Rule | None, call: Callable[[float], None], timeout: float) -> None:
    """A call, with what happens to it; one that is dropped is not made, and nobody is told."""
    left = before_call(rule, timeout)
    if rule is None or rule.action != "drop":
        call(left)
    after_call(rule)


def close(rule: Rule | None, call: Callable[[float], None], timeout: float) -> None:
    """A close that may come late or fail, and lets go all the same."""
    if rule is not None and rule.action == "delay":
        time.sleep(min(rule.delay, timeout))
        timeout = max(0.0, timeout - rule.delay)
    call(timeout)
    if rule is not None and rule.action == "fail":
        raise rule.make_error()
