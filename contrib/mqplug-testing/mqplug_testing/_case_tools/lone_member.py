"""Runs the steps of a member that is alone in its group, again if a hand-over interrupted them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqplug import LATEST, Consumer, Log
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.broken_promise import PromiseBroken

MAX_ATTEMPTS = 5

MemberSteps = Callable[[Bench, str, Consumer], None]


def as_lone_member(bench: Bench, steps: MemberSteps, *, partitions: int = 1, **options: Any) -> None:
    """Check the steps of a member that is alone in its group, on a new topic.

    A hand-over may happen at any time, also back to the same member, and redelivers unacked messages. So steps that
    fail during one are repeated, further on in the log. The case fails if every attempt is interrupted.
    """
    topic, lost = bench.topic(partitions), list[Log]()
    if bench.client.capabilities.assignment_events:
        options["on_revoked"] = lost.extend
    member = bench.member(topic, bench.name(), **options)
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return steps(bench, topic, member)
        except PromiseBroken:
            if not lost:
                raise
        lost.clear()
        member.seek(LATEST)
        member.resume()
    return steps(bench, topic, member)
