"""ACK: acks that are of somebody else by now, and as many gaps between acks as the backend takes."""

from __future__ import annotations

from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_returning import AWAY, again

case = Registry()

UNBOUNDED = 1_000_000  # acked ranges: who declares no bound has this one
RUNS = 1000


@case("ACK-29", needs=("ack_timeout", "nack", "ordered", "durable_groups"), timeout=180, profile="full")
def test_acked_by_the_loser(bench: Bench) -> None:
    """An ack by a member that lost the partition is passed over: when the new holder gives it back, it comes again."""
    topic, ids = bench.dripped(2)
    group = bench.name()
    slow = bench.member(topic, group, max_processing=AWAY)
    lost = bench.delivers(slow, ids)
    bench.wait(lambda: not slow.assignment(), "the member that is away lost its partition")
    other = bench.member(topic, group)
    taken = bench.delivers(other, ids)
    for message in lost:
        slow.ack(message)
    slow.commit()
    other.nack(taken[0], delay=0)
    other.ack(again(bench, other, ids[0], attempt=2))
    other.close()
    bench.delivers(bench.member(topic, group), ids[1:], "what nobody acked who had it")


@case("ACK-29-shared", needs=("ack_timeout", "nack", "shared"), timeout=180, profile="full")
def test_acked_by_the_loser_of_a_message(bench: Bench) -> None:
    """An ack by a member that lost the message is passed over: when the other gives it back, it comes again."""
    topic, ids = bench.dripped(1)
    group = bench.name()
    slow = bench.member(topic, group, mode="shared", max_processing=0.5)
    other = bench.member(topic, group, mode="shared")
    [lost] = bench.delivers(slow, ids)
    [taken] = bench.delivers(other, ids)
    slow.ack(lost)
    slow.commit()
    other.nack(taken, delay=0)
    [back] = bench.delivers(other, ids)
    bench.that(back.attempt > taken.attempt, "it is another attempt")
    slow.close()
    other.close()
    heir = bench.member(topic, group, mode="shared")
    heir.ack(bench.delivers(heir, ids, "the other had not acked it either")[0])
    bench.only_new(heir, topic)


@case("ACK-30", needs=("durable_groups", "individual_ack", "ordered"), timeout=300)
def test_many_gaps(bench: Bench) -> None:
    """As many acked runs as the backend declares survive a close; if it declares no bound, a thousand do."""
    able = bench.client.capabilities
    runs = RUNS
    if able.acked_ranges_max < UNBOUNDED:
        runs = min(able.acked_ranges_max, bench.sized(quick=RUNS, full=100 * RUNS))
    topic, ids = bench.dripped(2 * runs) if able.ack_granularity == "entry" else bench.filled(2 * runs)
    group = bench.name()
    member = bench.member(topic, group)
    odd = 0
    for number in range(2 * runs):
        [message] = bench.take(member, 1)
        if number % 2:
            member.ack(message)
            odd += message.id == ids[number]
    bench.equal(odd, runs)
    member.close()
    heir = bench.member(topic, group)
    came, gaps = [message.id for message in bench.take(heir, runs)], set(ids[::2])
    bench.equal([each for each in came if each not in gaps], [], "what was acked stays away")
    bench.that(came == ids[::2], "all gaps came, in order")
    bench.only_new(heir, topic)
