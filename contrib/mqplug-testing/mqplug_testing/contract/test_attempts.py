"""ACK: how often a message was delivered is known when whoever had it is gone."""

from __future__ import annotations

from mqplug import Consumer, MessageId, Retry
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()

NEEDS = ("durable_delivery_count", "shared")


def attempts(bench: Bench, member: Consumer, count: int) -> dict[MessageId, int]:
    """Take so many messages: which delivery of each it is."""
    return {message.id: message.attempt for message in bench.take(member, count)}


@case("ACK-22", needs=NEEDS)
def test_attempts_outlive_members(bench: Bench) -> None:
    """What members had, and did not settle, is one attempt more when all of them and their clients were closed."""
    topic, ids = bench.dripped(3)
    group = bench.name()
    for attempt in (1, 2, 3):
        member = bench.member(topic, group, mode="shared")
        bench.equal(attempts(bench, member, 3), dict.fromkeys(ids, attempt))
        with bench.away():
            pass
    member = bench.member(topic, group, mode="shared")
    for message in bench.take(member, 3):
        if message.id != ids[1]:
            member.ack(message)
    member.close()
    member = bench.member(topic, group, mode="shared")
    bench.equal(attempts(bench, member, 1), {ids[1]: 5})
    sent = bench.fill(topic, 1)
    bench.equal(attempts(bench, member, 1), {sent[0]: 1})


@case("ACK-23", needs=(*NEEDS, "persistent"), hooks=("kill", "start"), timeout=180)
def test_attempts_outlive_the_broker(bench: Bench) -> None:
    """What members had when the broker was killed comes again, as a later attempt."""
    assert bench.harness.kill is not None and bench.harness.start is not None
    topic, ids = bench.dripped(2)
    group, before = bench.name(), dict[MessageId, int]()
    for _ in range(2):
        found = attempts(bench, bench.member(topic, group, mode="shared"), 2)
        bench.that(all(found[each] > before.get(each, 0) for each in ids), f"{before}, and then {found}")
        before = found
        bench.harness.kill()
        with bench.away():
            bench.harness.start()
    found = attempts(bench, bench.member(topic, group, mode="shared"), 2)
    bench.that(all(found[each] > before[each] for each in ids), f"{before}, and then {found}")


@case("ACK-24", needs=(*NEEDS, "persistent"), hooks=("second_process",), timeout=180)
def test_attempts_outlive_processes(bench: Bench) -> None:
    """What a process had when it was killed comes again, as the next attempt."""
    topic, ids = bench.dripped(1)
    group = bench.name()
    for attempt in ("1", "2"):
        with bench.away(), ChildProcess(TAKES, str(bench.harness.second_process), topic, group) as child:
            child.wait_for(1, 2 * bench.patience)
            child.kill()
        bench.equal(child.lines, [attempt])
    bench.equal(attempts(bench, bench.member(topic, group, mode="shared"), 1), {ids[0]: 3})


TAKES = """
import sys, time, mqplug
url, topic, group = sys.argv[1:]
member = mqplug.connect(url).consumer(topic, group=group, mode="shared")
print(member.receive(60).attempt)
time.sleep(600)
"""


@case("ACK-25", needs=(*NEEDS, "dead_letter", "headers"))
def test_spent(bench: Bench) -> None:
    """What was taken as often as ``retry=`` says, and never settled, is not delivered again: it is a dead letter."""
    topic, dead, group = bench.topic(), bench.topic(), bench.name()
    poison = bench.fill(topic, 1)
    options = {"mode": "shared", "retry": Retry(2, delay=0), "dead_letter": dead}
    for attempt in (1, 2):
        member = bench.member(topic, group, **options)
        bench.equal(attempts(bench, member, 1), {poison[0]: attempt})
        with bench.away():
            pass
    member = bench.member(topic, group, **options)
    sent = bench.fill(topic, 1, begin=1)
    bench.equal(attempts(bench, member, 1), {sent[0]: 1}, "the others are delivered")
    bench.wait(lambda: _is_there(bench, dead, member), "it is among the dead letters, and nothing more came")
    [letter] = bench.read(dead)
    bench.equal(letter.value, b"0")
    headers = dict(letter.headers)
    bench.equal(headers.get("mqplug-dead-source"), str(poison[0]).encode())
    bench.equal(headers.get("mqplug-dead-attempts"), b"2")


def _is_there(bench: Bench, dead: str, member: Consumer) -> bool:
    bench.equal(member.receive(bench.waiting.poll), None)
    return bench.bounds(dead).first_id is not None
