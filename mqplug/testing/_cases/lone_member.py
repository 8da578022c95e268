"""Stories of a member that is alone, told so often that no hand-over came in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqplug import LATEST, Consumer, Log
from mqplug.testing._cases.bench import Bench
from mqplug.testing._cases.broken_promise import PromiseBroken

TELLINGS = 5

Story = Callable[[Bench, str, Consumer], None]


def as_lone_member(bench: Bench, story: Story, *, partitions: int = 1, **options: Any) -> None:
    """Check what a member does that is alone in its group, on a new topic.

    A hand-over may come at any time, also back to the same member, and what was not acked then comes again. So a story
    that fails is told again, further on in the log, if there was one. A backend that does not come to rest fails.
    """
    topic, lost = bench.topic(partitions), list[Log]()
    if bench.client.capabilities.assignment_events:
        options["on_revoked"] = lost.extend
    member = bench.member(topic, bench.name(), **options)
    for _ in range(TELLINGS - 1):
        try:
            return story(bench, topic, member)
        except PromiseBroken:
            if not lost:
                raise
        lost.clear()
        member.seek(LATEST)
        member.resume()
    return story(bench, topic, member)
