"""GRP: how partitions pass from one member to another, in each mode, with threads, and with gaps between acks."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

from mqplug import EARLIEST, LATEST, Consumer, ConsumerBusy, GroupNotFound, Message, MessageId, NotAssigned, Unsupported
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()


class Team:
    """Members of one group that are polled in turn, from one thread."""

    def __init__(self, bench: Bench, *members: Consumer) -> None:
        self.bench = bench
        self.members = members
        self.got: list[list[Message]] = [[] for _ in members]

    def poll(self) -> None:
        """Let each member receive once."""
        for member, got in zip(self.members, self.got, strict=True):
            got.extend(member.receive_many(100, self.bench.waiting.poll))

    @property
    def ids(self) -> set[MessageId]:
        """The ids of the messages delivered to any member."""
        return {message.id for got in self.got for message in got}

    def gather(self, wanted: Iterable[MessageId], what: str) -> None:
        """Poll until all these were delivered."""
        missing = set(wanted)

        def complete() -> bool:
            self.poll()
            return not missing - self.ids

        self.bench.wait(complete, what)


def one_each(bench: Bench, topic: str, partitions: int, times: int) -> list[MessageId]:
    """Send `times` messages to each partition, and return their ids."""
    return [each for number in range(partitions) for each in bench.fill(topic, times, partition=number)]


@case("GRP-03")
def test_without_a_group(bench: Bench) -> None:
    """Consumers without a group are independent: each gets everything, none can ack, and none leaves a trace."""
    topic, ids = bench.filled(5)
    one, other = bench.reader(topic), bench.reader(topic)
    bench.delivers(one, ids)
    bench.delivers(other, ids[:2])
    for refused in (lambda: one.ack(ids[0]), one.commit, one.committed):
        with bench.raises(Unsupported):
            refused()
    one.close()
    bench.delivers(other, ids[2:])
    other.close()
    bench.delivers(bench.reader(topic), ids)
    with bench.raises(TypeError):
        bench.client.consumer(topic)  # start= is missing


@case("GRP-06", needs=("durable_groups", "persistent"), hooks=("second_process",), timeout=180)
def test_killed(bench: Bench) -> None:
    """When a member's process is killed, another takes over with exactly the uncommitted messages."""
    topic, ids = bench.filled(20)
    group = bench.name()
    with bench.away(), ChildProcess(RECEIVES, str(bench.harness.second_process), topic, group) as child:
        child.wait_for(15, 2 * bench.patience)
        child.kill()
    bench.equal([MessageId.parse(line) for line in child.lines], ids[:15])
    heir = bench.member(topic, group)
    bench.equal([message.id for message in bench.take(heir, 10, within=60)], ids[10:])
    bench.only_new(heir, topic)


RECEIVES = """
import sys, time, mqplug
url, topic, group = sys.argv[1:]
with mqplug.connect(url) as client, client.consumer(topic, group=group) as member:
    for number, message in enumerate(member):
        if number < 10:
            member.ack(message)
        if number == 9:
            member.commit()
        print(message.id)
        if number == 14:
            time.sleep(600)
"""


@case("GRP-08", needs=("groups", "partitions", "assignment_events"))
def test_only_what_is_held(bench: Bench) -> None:
    """A member gets no message of a partition that it does not hold."""
    topic, group = bench.topic(partitions=4), bench.name()
    ids = one_each(bench, topic, 4, times=100)
    members = [bench.member(topic, group, prefetch_bytes=10_000) for _ in range(2)]
    seen: set[MessageId] = set()

    def poll() -> bool:
        for member in members:
            batch = member.receive_many(10, bench.waiting.poll)
            bench.equal({each.log for each in batch.ids} - set(member.assignment()), set())
            seen.update(batch.ids)
        return seen >= set(ids)

    bench.wait(poll, "all messages came")
    members.append(bench.member(topic, group))
    bench.wait(lambda: poll() and all(member.assignment() for member in members), "the third gets a partition")


@case("GRP-10", needs=("durable_groups", "partitions", "assignment_events"))
def test_acks_after_losing(bench: Bench) -> None:
    """An ack for a partition that was handed over is counted, not stored; a seek there raises ``NotAssigned``."""
    topic, group = bench.topic(partitions=2), bench.name()
    sent = one_each(bench, topic, 2, times=4)
    first = bench.member(topic, group)
    taken = bench.take(first, len(sent))
    second = bench.member(topic, group)
    team = Team(bench, first, second)

    def share() -> bool:
        team.poll()
        return len(first.assignment()) == len(second.assignment()) == 1

    bench.wait(share, "each has one partition")
    held = first.assignment()
    lost = [message for message in taken if message.id.log not in held]
    bench.equal(len(lost), 4)
    for message in lost:
        first.ack(message)
    bench.equal(first.late_acks, 4)
    first.commit()
    bench.stands(first.committed()[lost[0].partition], [message.id for message in lost], 0)
    for target in (lost[0].id, EARLIEST):
        with bench.raises(NotAssigned):
            first.seek(target, partition=lost[0].partition)
    team.gather({message.id for message in lost}, "the unacked messages that were handed over came again")
    bench.equal({message.id for message in lost} - {message.id for message in team.got[1]}, set())


@case("GRP-19", needs=("durable_groups", "partitions"))
def test_latest_and_a_newcomer(bench: Bench) -> None:
    """A group opened at LATEST whose members change before the first commit loses no message sent since."""
    topic, group = bench.topic(partitions=2), bench.name()
    old = one_each(bench, topic, 2, times=3)
    first = bench.member(topic, group, start=LATEST)
    sent = one_each(bench, topic, 2, times=3)
    second = bench.member(topic, group, start=LATEST)
    sent += one_each(bench, topic, 2, times=3)
    team = Team(bench, first, second)
    team.gather(sent, "the messages sent after the group was opened came")
    bench.equal(team.ids & set(old), set(), "older messages do not come")


@case("GRP-11", needs=("exclusive", "durable_groups"))
def test_exclusive(bench: Bench) -> None:
    """An exclusive group has one member: a second gets ``ConsumerBusy``, and is admitted once the first is closed."""
    topic, ids = bench.dripped(4)
    group = bench.name()
    first = bench.member(topic, group, mode="exclusive")
    for message in bench.delivers(first, ids[:2]):
        first.ack(message)
    with bench.raises(ConsumerBusy) as caught:
        bench.member(topic, group, mode="exclusive")
    bench.equal(caught.value.retryable, True)  # type: ignore[attr-defined]
    bench.delivers(bench.member(topic, bench.name(), mode="exclusive"), ids, "another group is not affected")
    bench.delivers(first, ids[2:])
    first.close()
    bench.delivers(bench.member(topic, group, mode="exclusive"), ids[2:])


@case("GRP-12", needs=("groups", "ordered"), timeout=300, profile="full")
def test_standby(bench: Bench) -> None:
    """In order, a standby member gets nothing while the active one lives, however much that one leaves unacked."""
    topic, group = bench.topic(), bench.name()
    members = [bench.member(topic, group) for _ in range(2)]
    team = Team(bench, *members)
    ids = bench.fill(topic, 3)
    team.gather(ids, "the first messages came")
    active = max((0, 1), key=lambda number: len(team.got[number]))
    standing_by = members[1 - active]
    team.got[1 - active].clear()
    later = bench.fill(topic, 5)
    bench.rests(standing_by)
    bench.delivers(members[active], later)
    bench.rests(standing_by)
    members[active].close()
    team = Team(bench, standing_by)
    team.gather(ids + later, "the standby member got all unacked messages")


@case("GRP-13", needs=("shared", "groups"))
def test_shared(bench: Bench) -> None:
    """Members that share a log each get a part of it, nothing twice; messages that one holds delay no other."""
    topic, ids = bench.dripped(20)
    group = bench.name()
    one, other = (bench.member(topic, group, mode="shared") for _ in range(2))
    [kept] = bench.take(one, 1)
    got: dict[Consumer, list[Message]] = {one: [kept], other: []}

    def poll() -> bool:
        for member, mine in got.items():
            if (message := member.receive(bench.waiting.poll)) is not None:
                member.ack(message)
                mine.append(message)
        return sum(map(len, got.values())) >= len(ids)

    bench.wait(poll, "all came to one of them")
    bench.equal(sorted(message.id for mine in got.values() for message in mine), ids)
    bench.that(len(got[one]) > 1 and got[other], "both had their share")
    one.close()
    [again] = bench.delivers(other, [kept.id])
    other.ack(again)
    bench.only_new(other, topic)


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
        first.commit()  # an unreported hand-over may repeat the messages acked in the last second
    gaps = [each for number, each in enumerate(sent) if number // 2 not in {0, 3, 4, 7, 9}]
    second = bench.member(topic, group)
    team = Team(bench, first, second)

    def handed_over() -> bool:
        team.poll()
        return bool(team.got[1])

    bench.wait(handed_over, "the second member got messages of its partition")
    first.close()
    rest = Team(bench, second)
    rest.got[0] += team.got[1]
    rest.gather(gaps, "all gaps came to the remaining member")
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
        """Close the member, and raise the error of its thread, if any."""
        self._stopped.set()
        self._thread.shutdown()
        self._working.result()


class Workers:
    """The members of one group, and the messages that came to any of them."""

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
    """With a thread for each member, nothing is lost in twenty hand-overs, and no acked message comes again."""
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
        bench.equal(team.twice, [], "no acked message comes again")


@case("GRP-24", needs=("durable_groups",))
def test_names_in_another_case(bench: Bench) -> None:
    """Two groups whose names differ only in upper and lower case are two groups."""
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
    """A group that is reset to the ``GroupPosition`` of another gets its position and later acks: the same gaps."""
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
