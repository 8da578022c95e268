"""GRP: groups on topics of which retention removed the beginning."""

from __future__ import annotations

from mqplug import EARLIEST, last
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("GRP-21", needs=("durable_groups",), hooks=("trim_before",))
def test_opened_on_a_trimmed_topic(bench: Bench) -> None:
    """A group opened at EARLIEST, or at the last messages, of a trimmed topic begins at the first retained message."""
    trimmed = bench.trimmed()
    topic, gone, left = trimmed.topic, trimmed.gone, trimmed.left
    starts = ((EARLIEST, 0), (last(len(gone + left) + 1), 0), (last(len(left)), 0), (last(2), len(left) - 2))
    for start, index in starts:
        bench.delivers(bench.reader(topic, start), left[index:], f"without a group, {start!r}")
        for mode in ("ordered", "shared", "key_shared"):
            if getattr(bench.client.capabilities, mode):
                member = bench.member(topic, bench.name(), start=start, mode=mode)
                bench.delivers(member, left[index:], f"{mode}, {start!r}")
        group = bench.name()
        bench.client.reset_group(group, topic, start)
        bench.stands(bench.client.positions(topic, group=group)[0].position, gone + left, len(gone) + index)
        bench.delivers(bench.member(topic, group), left[index:], f"reset to {start!r}")
