"""ACK: where dead letters may go, and that they do not go round for ever."""

from __future__ import annotations

from typing import Any

from mqplug import ConfigError, Consumer, Message, Retry
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

ENOUGH = 50  # times to give a message back: a circle of dead letters has ended long before


@case("ACK-26", needs=("dead_letter",))
def test_own_dead_letters(bench: Bench) -> None:
    """A dead-letter topic that the consumer itself reads is refused, and no group is made by that."""
    topic, other = bench.topic(), bench.topic()
    group, mode = bench.name(), _mode(bench)
    for topics in (topic, [other, topic]):
        with bench.raises(ValueError) as caught:
            bench.client.consumer(topics, group=group, mode=mode, retry=Retry(2), dead_letter=topic)
        bench.that(topic in str(caught.value), "the message names the topic")
    ids = bench.fill(topic, 1)
    bench.delivers(bench.client.consumer(topic, group=group, mode=mode, retry=Retry(2), dead_letter=other), ids)


@case("ACK-27", needs=("dead_letter", "ordered", "headers", "durable_groups"))
def test_circle(bench: Bench) -> None:
    """What goes round between two topics, each the dead-letter topic of the other, is kept in one in the end."""
    here, there = bench.topic(), bench.topic()
    groups = {here: bench.name(), there: bench.name()}
    [poison] = bench.fill(here, 1)
    options: dict[str, Any] = {"retry": Retry(1, delay=0)}
    members = {
        here: bench.member(here, groups[here], dead_letter=there, **options),
        there: bench.member(there, groups[there], dead_letter=here, **options),
    }
    topic, sent = here, 1
    message = bench.delivers(members[topic], [poison])[0]
    while not _is_kept(members[topic], message) and sent < ENOUGH:
        topic, sent = (there if topic == here else here), sent + 1
        message = bench.take(members[topic], 1)[0]
    bench.that(sent < ENOUGH, f"it went round {sent} times")
    bench.equal(members[topic].state()[0].blocked_by, message.id, "it waits where it is")
    for each in groups:
        members[each].close()
    bench.equal(len(bench.read(here)) + len(bench.read(there)), sent, "nothing more was sent")
    bench.delivers(bench.member(topic, groups[topic]), [message.id], "and is not lost")


def _is_kept(member: Consumer, message: Message) -> bool:
    try:
        member.nack(message, reason="poison")
    except ConfigError:
        return True
    return False


@case("ACK-28", needs=("dead_letter",))
def test_nothing_would_go_there(bench: Bench) -> None:
    """A dead-letter topic without ``retry=`` is refused: nothing says when a message goes there."""
    topic, dead, mode = bench.topic(), bench.topic(), _mode(bench)
    with bench.raises(ValueError) as caught:
        bench.client.consumer(topic, group=bench.name(), mode=mode, dead_letter=dead)
    bench.that("retry=" in str(caught.value), "the message says what is missing")
    for retry in (Retry(1), Retry(None)):
        bench.client.consumer(topic, group=bench.name(), mode=mode, retry=retry, dead_letter=dead).close()


def _mode(bench: Bench) -> Any:
    modes = ("ordered", "shared", "exclusive", "key_shared")
    return next(each for each in modes if getattr(bench.client.capabilities, each))
