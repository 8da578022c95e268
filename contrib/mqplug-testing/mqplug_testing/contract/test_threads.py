"""GRP: hand-overs with gaps, and between members that have a thread each; groups whose names are alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

from mqplug import GroupNotFound, MessageId, Unsupported
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_handover import Team, one_each

case = Registry()

PARTITIONS = 4
HAND_OVERS = 20


@case("GRP-22", needs=("durable_groups", "individual_ack", "ordered", "partitions"), timeout=300)
def test_gaps_after_a_hand_over(bench: Bench) -> None:
    """When a partition is handed over with gaps between its acks, only the gaps come again."""
    topic, group = bench.topic(partitions=2), bench.name()
    sent = [bench.fill(topic, 1, partition=number % 2, begin=number)[0] for number in range(20)]
    first = bench.member(topic, group)
    for message in bench.take(first, len(sent)):
        if sent.index(message.id) // 2 in {0, 3, 4, 7, 9}:
            first.ack(message)
    if not bench.client.capabilities.assignment_events:
        first.commit()  # nobody sees the hand-over there, and it may repeat the acks of the last second
    gaps = [each for number, each in enumerate(sent) if number // 2 not in {0, 3, 4, 7, 9}]
    second = bench.member(topic, group)
    team = Team(bench, first, second)

    def handed_over() -> bool:
        team.poll()
        return bool(team.got[1])

    bench.wait(handed_over, "the second member got something of its partition")
    first.close()
    rest = Team(bench, second)
    rest.got[0] += team.got[1]
    rest.gather(gaps, "all gaps came to the member that is left")
    came = [message.id for message in rest.got[0]]
    bench.equal(sorted(map(str, came)), sorted(map(str, gaps)))
    for number in range(2):
        bench.only_new(second, topic, partition=number)


class Worker:
    """A member with a thread of its own, which acks what it receives at once."""

    def __init__(self, team: Workers) -> None:
        self._team = team
        self._stopped = Event()
        self._thread = ThreadPoolExecutor(1)
        self._working = self._thread.submit(self._work)

    def _work(self) -> None:
        team = self._team
        with team.bench.member(team.topic, team.group) as member:
            while not self._stopped.is_set():
                for message in member.receive_many(3, team.bench.waiting.nothing):
                    late = member.late_acks
                    team.note(message.id)
                    member.ack(message)
                    if member.late_acks == late:
                        team.acked.add(message.id)

    def stop(self) -> None:
        """Close the member; what went wrong in its thread is raised here."""
        self._stopped.set()
        self._thread.shutdown()
        self._working.result()


class Workers:
    """The members of one group, and what came to any of them."""

    def __init__(self, bench: Bench, topic: str, group: str) -> None:
        self.bench = bench
        self.topic = topic
        self.group = group
        self.came = set[MessageId]()
        self.acked = set[MessageId]()
        self.twice = list[MessageId]()
        self._lock = Lock()

    def note(self, message_id: MessageId) -> None:
        """Note a message that came, and whether it was acked before."""
        with self._lock:
            self.came.add(message_id)
            if message_id in self.acked:
                self.twice.append(message_id)


@case("GRP-23", needs=("durable_groups", "ordered", "partitions"), timeout=600, profile="full")
def test_members_on_threads(bench: Bench) -> None:
    """With a thread for each member nothing is lost in twenty hand-overs, and nothing that was acked comes again."""
    topic, group = bench.topic(PARTITIONS), bench.name()
    team = Workers(bench, topic, group)
    wanted = set(one_each(bench, topic, PARTITIONS, times=5))
    workers = [Worker(team)]
    try:
        for number in range(HAND_OVERS):
            if number % 3 < 2:
                workers.append(Worker(team))
            else:
                workers.pop(0).stop()
                workers.pop(0).stop()
            wanted.update(one_each(bench, topic, PARTITIONS, times=5))
            bench.wait(lambda: team.came >= wanted, f"all came after {number} hand-overs")
    finally:
        for worker in workers:
            worker.stop()
    bench.equal(team.came, wanted)
    if bench.client.capabilities.assignment_events:
        bench.equal(team.twice, [], "what was acked never comes again")


@case("GRP-24", needs=("durable_groups",))
def test_names_in_another_case(bench: Bench) -> None:
    """Two groups whose names differ in upper and lower case only are two groups."""
    topic, ids = bench.filled(6)
    stem = bench.name()
    lower, upper = f"{stem}-group", f"{stem}-GROUP"
    one, other = (bench.member(topic, group) for group in (lower, upper))
    one.ack_through(bench.delivers(one, ids)[3])
    one.commit()
    bench.delivers(other, ids)
    bench.stands(bench.client.positions(topic, group=lower)[0].position, ids, 4)
    bench.stands(bench.client.positions(topic, group=upper)[0].position, ids, 0)
    one.close()
    other.close()
    bench.delivers(bench.member(topic, upper), ids)
    bench.delivers(bench.member(topic, lower), ids[4:])


@case("GRP-25", needs=("durable_groups", "individual_ack", "ordered"))
def test_reset_with_acks(bench: Bench) -> None:
    """A group that is set to where another one stands, with what that had acked behind it, gets the same gaps."""
    topic, ids = bench.dripped(8)
    one, other = bench.name(), bench.name()
    member = bench.member(topic, one)
    for message in bench.delivers(member, ids):
        if message.id in (ids[0], ids[2], ids[3], ids[6]):
            member.ack(message)
    member.close()
    try:
        bench.client.reset_group(other, topic, bench.client.positions(topic, group=one))
    except Unsupported:
        with bench.raises(GroupNotFound):
            bench.client.positions(topic, group=other)
        return
    bench.equal(bench.client.positions(topic, group=other), bench.client.positions(topic, group=one))
    for group in (other, one):
        bench.delivers(bench.member(topic, group), [ids[1], ids[4], ids[5], ids[7]])
