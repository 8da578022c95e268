"""GRP: members that stand still while others take over, and go on."""

from __future__ import annotations

from mqplug import Consumer, MessageId
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()

TAKES_OVER_S = 120.0  # a backend takes its time to find out that somebody stands still


STOPPED = ("durable_groups", "ordered", "persistent")


@case("GRP-41", needs=STOPPED, hooks=("second_process",), timeout=400, profile="full")
def test_stopped_member(bench: Bench) -> None:
    """A member that stands still while another takes over and commits moves nothing back when it goes on."""
    _goes_on(bench, beside_the_heir=True)


@case("GRP-42", needs=STOPPED, hooks=("second_process",), timeout=400, profile="full")
def test_stopped_for_long(bench: Bench) -> None:
    """Nor does it when the one that took over has left again: what nobody holds is not where it was, either."""
    _goes_on(bench, beside_the_heir=False)


def _goes_on(bench: Bench, *, beside_the_heir: bool) -> None:
    topic, ids = bench.dripped(10)
    group, within = bench.name(), TAKES_OVER_S * bench.scale
    with ChildProcess(STANDS_STILL, str(bench.harness.second_process), topic, group) as child:
        child.wait_for(5, within)
        child.wait_until_stopped()
        bench.equal([MessageId.parse(line) for line in child.lines], ids[:5])
        heir = _takes_over(bench, topic, group, ids)
        if not beside_the_heir:
            heir.close()
        child.go_on()
        child.wait_for(6, within)
        bench.that(child.lines[5] in {"committed", "NotAssigned"}, f"a commit of what was lost was {child.lines[5]}")
        _stands_at_the_end(bench, topic, group, ids)
        if beside_the_heir:
            bench.rests(heir)
            heir.close()
        _stands_at_the_end(bench, topic, group, ids)
        sent = bench.fill(topic, 1, begin=10)
        child.wait_for(9, within)
        late, told = map(int, child.lines[6].split())
        if bench.client.capabilities.assignment_events:
            bench.equal(late, 2, "acks of what it had lost are counted")
            bench.equal(told, 1, "it was told, once, that the partition was lost")
        bench.equal(child.lines[7], str(sent[0]), "it joins again, and gets what comes next")
    bench.stands(bench.client.positions(topic, group=group)[0].position, [*ids, *sent], 11)


def _takes_over(bench: Bench, topic: str, group: str, ids: list[MessageId]) -> Consumer:
    """Another member gets what was not stored, and stores that all is done."""
    heir = bench.member(topic, group, timeout=TAKES_OVER_S * bench.scale)
    taken = bench.take(heir, 1, within=TAKES_OVER_S)
    bench.that(taken[0].id in ids[:4], "what was not stored comes to the heir")
    left = ids[ids.index(taken[0].id) + 1 :]
    taken += bench.delivers(heir, left)
    heir.ack_through(taken[-1])
    heir.commit()
    return heir


def _stands_at_the_end(bench: Bench, topic: str, group: str, ids: list[MessageId]) -> None:
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, len(ids), "the group did not go back")


# Receives five, acks three, and stands still; then commits, and acks the other two when it holds them no more. That may
# be a moment after it is told, by another thread. What comes meanwhile, when it has joined again, is kept.
STANDS_STILL = """
import os, signal, sys, mqplug
url, topic, group = sys.argv[1:]
with mqplug.connect(url) as client:
    told, given, lost, following = client.capabilities.assignment_events, [], [], None
    tell = {"on_assigned": given.extend, "on_revoked": lost.extend} if told else {}
    with client.consumer(topic, group=group, **tell) as member:
        taken = [member.receive(60) for _ in range(5)]
        for message in taken[:3]:
            member.ack(message)
        for message in taken:
            print(message.id)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            member.commit(60)
            print("committed")
        except mqplug.Error as error:
            print(type(error).__name__)
        while told and len(given) < 2 and (not lost or member.state()):
            following = member.receive(0.1)
        for message in taken[3:]:
            member.ack(message)
        following = following or member.receive(120)
        print(member.late_acks, len(lost))
        print(following.id)
        member.ack(following)
        member.commit(60)
        print("stored")
        sys.stdin.read()
"""
