"""GRP: consumers without a group, and how partitions pass from one member to another."""

from __future__ import annotations

from collections.abc import Iterable

from mqplug import EARLIEST, LATEST, Consumer, Message, MessageId, NotAssigned, Unsupported
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
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
        """All that was delivered to any member."""
        return {message.id for got in self.got for message in got}

    def gather(self, wanted: Iterable[MessageId], what: str) -> None:
        """Poll until all these were delivered."""
        missing = set(wanted)

        def complete() -> bool:
            self.poll()
            return not missing - self.ids

        self.bench.wait(complete, what)


def one_each(bench: Bench, topic: str, partitions: int, times: int) -> list[MessageId]:
    """Send so many messages to each partition."""
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
        bench.client.consumer(topic)  # it must say where to start


@case("GRP-06", needs=("durable_groups", "persistent"), hooks=("second_process",), timeout=180)
def test_killed(bench: Bench) -> None:
    """When a member's process is killed another takes over, with exactly what was not committed."""
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
    """A member is never given a message of a partition that it does not hold."""
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
    """An ack for a partition that was handed over is counted and changes nothing; a seek there is ``NotAssigned``."""
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
    team.gather({message.id for message in lost}, "what was handed over without an ack came again")
    bench.equal({message.id for message in lost} - {message.id for message in team.got[1]}, set())


@case("GRP-19", needs=("durable_groups", "partitions"))
def test_latest_and_a_newcomer(bench: Bench) -> None:
    """A group opened at LATEST whose members change before the first commit loses nothing that was sent since."""
    topic, group = bench.topic(partitions=2), bench.name()
    old = one_each(bench, topic, 2, times=3)
    first = bench.member(topic, group, start=LATEST)
    sent = one_each(bench, topic, 2, times=3)
    second = bench.member(topic, group, start=LATEST)
    sent += one_each(bench, topic, 2, times=3)
    team = Team(bench, first, second)
    team.gather(sent, "what was sent after the group was opened came")
    bench.equal(team.ids & set(old), set(), "what was sent before does not come")
