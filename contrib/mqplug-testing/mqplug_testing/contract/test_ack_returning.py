"""ACK: unacked messages come again, with their attempts counted, and finally go to the dead letters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from mqplug import ConfigError, Consumer, Message, MessageId, Retry
from mqplug.spi import Mode
from mqplug_testing._case_tools.bench import Bench, as_lone_member
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()

FAR_OFF = 3600.0  # seconds
AWAY = 1.2  # seconds; after one without a receive, mqplug polls for the member in the background
BRIEF = 0.5  # seconds; shorter than the second between two commits by mqplug


@case("ACK-34", needs=("ack_timeout", "shared"), timeout=180)
def test_time_of_the_last_partition(bench: Bench) -> None:
    """The time of ``max_processing`` begins when a message is handed out, not when its partition was looked at."""
    for mode in sharing_modes(bench):
        topic = bench.topic(partitions=2)
        with bench.client.producer(topic) as out:
            for partition in (0, 1):
                out.send(b"%d" % partition, partition=partition)
        member = bench.member(topic, bench.name(), mode=mode, max_processing=BRIEF)
        first = member.receive_many(100, bench.patience)[0]
        time.sleep(2 * BRIEF)  # as a program does that works on it
        handed_out, last = time.monotonic(), first
        while last.partition == first.partition:  # the first may come again
            handed_out = time.monotonic()
            last = member.receive_many(100, bench.patience)[0]
        while (left := handed_out + BRIEF - time.monotonic()) > 0:
            came = [each.id for each in member.receive_many(100, left)]
            bench.that(last.id not in came or time.monotonic() > handed_out + BRIEF, "it came again before its time")


def again(bench: Bench, member: Consumer, message_id: MessageId, attempt: int) -> Message:
    """Check that this message comes next, as this attempt."""
    [message] = bench.delivers(member, [message_id])
    bench.equal(message.attempt, attempt)
    return message


@case("ACK-06", needs=("nack", "ordered"))
def test_first_word(bench: Bench) -> None:
    """The first ack or nack of a message counts: an ack or nack after it changes nothing, and is counted."""
    topic, ids = bench.dripped(3)
    group = bench.name()
    member = bench.member(topic, group)
    acked, returned, last = bench.delivers(member, ids)
    member.ack(acked)
    member.nack(acked, delay=0)
    member.nack(returned, delay=0)
    member.ack(returned)
    member.nack(returned, delay=0)
    bench.equal(member.late_acks, 3)
    second = again(bench, member, ids[1], attempt=2)
    if bench.client.capabilities.cumulative_ack:
        member.ack_through(returned)
        member.nack(second, delay=0)
        member.ack_through(second)
        bench.equal(member.late_acks, 5)
        second = again(bench, member, ids[1], attempt=3)
    member.ack(second)
    member.ack(last)
    probe = bench.only_new(member, topic)
    member.close()
    if bench.client.capabilities.durable_groups:
        bench.delivers(bench.member(topic, group), [probe])


@case("ACK-07", needs=("nack", "ordered", "durable_groups"))
def test_nack(bench: Bench) -> None:
    """A returned message comes again, to this member or to its successor, until it is acked."""
    topic, ids = bench.dripped(3)
    group = bench.name()
    member = bench.member(topic, group)
    for message in bench.delivers(member, ids[:2]):
        if message.id == ids[1]:
            member.nack(message, delay=0)
        else:
            member.ack(message)
    member.nack(again(bench, member, ids[1], attempt=2), delay=FAR_OFF)
    bench.equal(member.statistics().returned, 2)
    member.close()
    heir = bench.member(topic, group)
    for message in bench.delivers(heir, ids[1:]):
        heir.ack(message)
    heir.commit()
    bench.stands(heir.committed()[0], ids, 3)


@case("ACK-07-shared", needs=("nack", "shared"))
def test_nack_among_many(bench: Bench) -> None:
    """If members share a log, a returned message comes again, to any of them, as another attempt."""
    topic, ids = bench.dripped(1)
    group = bench.name()
    members = [bench.member(topic, group, mode="shared") for _ in range(2)]
    [message] = bench.take(members[0], 1)
    members[0].nack(message, delay=0)
    came = list[tuple[MessageId, int]]()

    def poll() -> bool:
        for member in members:
            for each in member.receive_many(10, bench.waiting.poll):
                came.append((each.id, each.attempt))
                member.ack(each)
        return bool(came)

    bench.wait(poll, "the returned message came again")
    bench.equal(came, [(ids[0], 2)])


@case("ACK-08", needs=("nack", "ordered"))
def test_held_back(bench: Bench) -> None:
    """In order, a returned message comes before all others of its partition, as one attempt more each time."""
    as_lone_member(bench, _held_back)
    if bench.client.capabilities.partitions:
        as_lone_member(bench, _others_continue, partitions=2)


def _held_back(bench: Bench, topic: str, member: Consumer) -> None:
    ids = bench.fill(topic, 4)
    first, second = bench.delivers(member, ids[:2])
    member.nack(second, delay=0)
    first = _comes_after_its_delay(bench, member, first)
    for attempt in (3, 4):
        member.nack(first, delay=0)
        first = again(bench, member, ids[0], attempt)
    bench.rests(member)
    bench.equal([(each.waits_for, each.blocked_by) for each in member.state()], [("returned", ids[0])])
    member.ack(first)
    member.ack(again(bench, member, ids[1], attempt=2))
    bench.delivers(member, ids[2:])


def _comes_after_its_delay(bench: Bench, member: Consumer, message: Message) -> Message:
    """Return a message for the first time, and check that it comes next, and not at once.

    What is compared is when it came: on a busy machine any wait may outlast the delay.
    """
    nacked = time.monotonic()
    member.nack(message, delay=2 * bench.waiting.nothing)
    message = again(bench, member, message.id, attempt=2)
    bench.that(time.monotonic() - nacked > bench.waiting.nothing, "a returned message waits for its delay")
    return message


def _others_continue(bench: Bench, topic: str, member: Consumer) -> None:
    bench.fill(topic, 3, partition=0)
    member.nack(bench.take(member, 1)[0], delay=FAR_OFF)
    bench.delivers(member, bench.fill(topic, 3, partition=1), "another partition continues")


@case("ACK-08-shared", needs=("nack", "shared"))
def test_nobody_held_back(bench: Bench) -> None:
    """If members share a log, other messages come while a returned one waits for its delay."""
    topic, ids = bench.dripped(4)
    member = bench.member(topic, bench.name(), mode="shared")
    [message] = bench.delivers(member, ids[:1])
    member.nack(message, delay=FAR_OFF)
    *others, last = bench.delivers(member, ids[1:])
    for each in others:
        member.ack(each)
    member.ack(_comes_after_its_delay(bench, member, last))
    bench.only_new(member, topic)


@case("ACK-11", needs=("ack_timeout", "ordered", "durable_groups"), timeout=180, profile="full")
def test_away_too_long(bench: Bench) -> None:
    """A member that takes nothing for longer than ``max_processing`` loses its work: another gets the unacked part."""
    topic, ids = bench.dripped(4)
    group = bench.name()
    slow = bench.member(topic, group, max_processing=AWAY)
    done, stuck = bench.delivers(slow, ids[:2])
    slow.ack(done)
    slow.commit()
    bench.wait(lambda: not slow.assignment(), "the slow member lost its partition")
    other = bench.member(topic, group)
    for message in bench.delivers(other, ids[1:]):
        other.ack(message)
    slow.ack(stuck)
    bench.equal(slow.late_acks, 1)
    other.commit()
    bench.stands(other.committed()[0], ids, 4)


@case("ACK-11-shared", needs=("ack_timeout", "shared"), timeout=180)
def test_kept_too_long(bench: Bench) -> None:
    """If members share a log, a message is taken back from a member that has it for longer than ``max_processing``."""
    for mode in sharing_modes(bench):
        _take_back(bench, mode)


def sharing_modes(bench: Bench) -> Iterator[Mode]:
    """Yield the modes of the backend in which members share a log."""
    modes: tuple[Mode, ...] = ("shared", "key_shared")
    for mode in modes:
        if getattr(bench.client.capabilities, mode):
            yield mode


def _take_back(bench: Bench, mode: Mode) -> None:
    topic, ids = bench.dripped(2)
    group = bench.name()
    slow = bench.member(topic, group, mode=mode, max_processing=BRIEF)
    kept, done = bench.delivers(slow, ids)
    slow.ack(done)
    slow.commit()
    bench.equal([kept.attempt, again(bench, slow, ids[0], attempt=2).attempt], [1, 2])
    other = bench.member(topic, group, mode=mode, max_processing=BRIEF)
    [last] = bench.delivers(other, ids[:1])
    counted = bench.client.capabilities.durable_delivery_count  # otherwise each member may count for itself
    bench.that(last.attempt in ({3} if counted else {2, 3}), f"the attempt is {last.attempt}")
    other.ack(last)
    bench.only_new(other, topic)


@case("ACK-31", needs=("ack_timeout", "shared"), timeout=180)
def test_acked_in_time(bench: Bench) -> None:
    """An ack stops the clock of ``max_processing``: the message does not come again, however late it is committed."""
    for mode in sharing_modes(bench):
        topic, group = bench.topic(), bench.name()
        members = [bench.member(topic, group, mode=mode, max_processing=BRIEF) for _ in range(2)]
        sent = bench.fill(topic, 1)
        members[0].commit()  # mqplug's next commit is a second later
        members[0].ack(bench.delivers(members[0], sent)[0])
        bench.equal(members[1].receive(3 * BRIEF), None, "an acked message does not come again")
        members[0].commit()
        bench.equal(members[0].late_acks, 0)
        bench.only_new(members[1], topic)


@case("ACK-32", needs=("ack_timeout", "shared"), timeout=180)
def test_acked_too_late(bench: Bench) -> None:
    """An ack after ``max_processing`` counts, unless another member has got the message since: then it is late."""
    for mode in sharing_modes(bench):
        topic, ids = bench.dripped(2)
        group = bench.name()
        slow = bench.member(topic, group, mode=mode, max_processing=BRIEF)
        free, taken = bench.delivers(slow, ids)
        time.sleep(2 * BRIEF)  # its time is over, whatever the backend does about it
        slow.ack(free)
        slow.commit()
        bench.equal(slow.late_acks, 0)
        other = bench.member(topic, group, mode=mode, max_processing=60)
        mine = again(bench, other, ids[1], attempt=2)
        slow.ack(taken)
        slow.commit()
        bench.equal(slow.late_acks, 1, "another member has it")
        other.ack(mine)
        other.commit()
        bench.equal(other.late_acks, 0)
        bench.only_new(other, topic)


@case("ACK-33", needs=("ack_timeout", "shared"), timeout=180)
def test_acked_too_late_and_moved_back(bench: Bench) -> None:
    """A seek undoes an ack that came after ``max_processing`` and was stored: the message comes again."""
    for mode in sharing_modes(bench):
        topic, ids = bench.dripped(2)
        slow = bench.member(topic, bench.name(), mode=mode, max_processing=BRIEF)
        taken = bench.delivers(slow, ids)
        time.sleep(2 * BRIEF)  # the time of both is over, whatever the backend does then
        for message in taken:
            slow.ack(message)
        slow.commit()
        bench.equal(slow.late_acks, 0)
        slow.seek(ids[0])
        for message in bench.delivers(slow, ids):
            slow.ack(message)
        slow.commit()
        bench.only_new(slow, topic)


@case("ACK-18", needs=("dead_letter", "ordered", "headers", "durable_groups"))
def test_dead_letter(bench: Bench) -> None:
    """When its attempts are used up, a message goes to the dead letters unchanged, with the reason, and is acked."""
    topic, dead, able = bench.topic(), bench.topic(), bench.client.capabilities
    key, moment = b"k" if able.keys else None, 1_700_000_000_000 if able.timestamps_producer else None
    poison = bench.filler(topic).send(b"poison", key=key, headers=(("a", b"b"),), timestamp=moment, partition=0)
    ids = [poison, *bench.fill(topic, 1)]
    member = bench.member(topic, bench.name(), retry=Retry(3, delay=0), dead_letter=dead)
    for attempt in (1, 2, 3):
        member.nack(again(bench, member, poison, attempt), reason=ValueError("it does not parse"))
    member.ack(bench.delivers(member, ids[1:])[0])
    [letter] = bench.take(bench.reader(dead), 1)
    bench.equal((letter.value, letter.key), (b"poison", key))
    if moment is not None:
        bench.equal(letter.timestamp.timestamp() * 1000, moment)
    headers = dict(letter.headers)
    bench.that("it does not parse" in (headers.pop("mqplug-dead-reason", None) or b"").decode(), "the reason is there")
    source = str(poison).encode()
    bench.equal(headers, {"a": b"b", "mqplug-dead-source": source, "mqplug-dead-attempts": b"3"})
    bench.equal(member.statistics().dead_lettered, 1)
    member.commit()
    bench.stands(member.committed()[0], ids, 2)
    bench.only_new(member, topic)


NEEDS = ("durable_delivery_count", "shared")


def attempts(bench: Bench, member: Consumer, count: int) -> dict[MessageId, int]:
    """Take `count` messages, and return the attempt of each."""
    return {message.id: message.attempt for message in bench.take(member, count)}


@case("ACK-22", needs=NEEDS)
def test_attempts_outlive_members(bench: Bench) -> None:
    """Unsettled messages come again as one attempt more once all members and their clients are closed."""
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
    """Messages that members had when the broker was killed come again, as a later attempt."""
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
    """Messages that a process had when it was killed come again, as the next attempt."""
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
    """A message taken as often as ``retry=`` permits, and never settled, does not come again: it is a dead letter."""
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


ENOUGH = 50  # hops of a message: mqplug ends a cycle of dead letters long before


@case("ACK-26", needs=("dead_letter",))
def test_own_dead_letters(bench: Bench) -> None:
    """A dead-letter topic that the consumer itself reads is refused, and no group is created."""
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
    """A message passed on between two topics, each the dead-letter topic of the other, finally stays in one of them."""
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
    bench.that(sent < ENOUGH, f"it was passed on {sent} times")
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
