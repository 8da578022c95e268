"""The lease table: which member has which message of a shared log."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from mqplug import Log, Position
from mqplug.spi import GroupPosition, Numbers, Settlement
from mqplug.spi.groups import Lease, Leases, Recalled, Upcoming, tidy

LOG = Log("memory", "c", "orders", 0, "i")
KEYS = (None, b"a", b"b")


def at(number: int) -> Numbers:
    """The coordinates of a message: sparse."""
    return (number // 3, 10 * (number % 3))


def position(number: int) -> Position:
    """The position just before a message."""
    return Position(LOG, at(number))


class Shelf:
    """A log with a manual clock."""

    def __init__(self, *keys: bytes | None) -> None:
        self.keys = list(keys)
        self.time = 100.0

    def read(self, begin: Numbers, most: int) -> Iterator[Upcoming]:
        """Return what a backend passes to the table."""
        numbers = [number for number in range(len(self.keys)) if at(number) >= begin]
        for number in numbers[:most]:
            yield Upcoming(at(number), self.keys[number], (at(number)[0], at(number)[1] + 1))

    def table(self, start: GroupPosition | None = None, **options: object) -> Leases:
        """A table over this log."""
        return Leases(start or GroupPosition(position(0)), now=lambda: self.time, **options)  # type: ignore[arg-type]


def leased(*numbers: int, attempt: int = 1) -> list[Lease]:
    """Leases of these messages."""
    return [Lease(at(number), attempt) for number in numbers]


def acked(*numbers: int) -> Settlement:
    """Return a settlement with acks of these messages."""
    return Settlement([at(number) for number in numbers])


def test_nobody_gets_what_another_has() -> None:
    """Members take in turn, and each message goes to one of them."""
    shelf = Shelf(*[None] * 5)
    table = shelf.table()
    assert table.take("a", 2, shelf.read) == leased(0, 1)
    assert table.take("b", 2, shelf.read) == leased(2, 3)
    assert table.take("a", 2, shelf.read) == leased(4)
    assert table.take("b", 2, shelf.read) == []


def test_what_was_acked_before_is_passed_over() -> None:
    """Ranges that a stored position holds are not delivered, and stay acked."""
    shelf = Shelf(*[None] * 8)
    table = shelf.table(GroupPosition(position(1), ((at(2), at(3)), (at(5), at(6)))))
    assert table.take("a", 10, shelf.read) == leased(1, 4, 7)
    assert table.state().acked == ((at(2), at(3)), (at(5), at(6)))
    table.settle("a", acked(4))
    assert table.state() == GroupPosition(position(1), ((at(2), at(6)),))


def test_a_returned_message_comes_again_when_it_is_due() -> None:
    """A returned message waits for its delay; then any member gets it, with its attempt counted."""
    shelf = Shelf(None, None)
    table = shelf.table()
    table.take("a", 2, shelf.read)
    table.settle("a", Settlement([at(1)], [(at(0), 5.0)]))
    assert table.take("b", 1, shelf.read) == []
    assert table.next_due() == 105.0
    shelf.time = 105.0
    assert table.take("b", 1, shelf.read) == leased(0, attempt=2)


def test_a_settlement_of_what_is_not_held_changes_nothing() -> None:
    """Settling another member's message, a settled one or one that was never leased is ignored."""
    shelf = Shelf(None, None, None)
    table = shelf.table()
    table.take("a", 1, shelf.read)
    table.take("b", 1, shelf.read)
    table.settle("b", acked(0, 1))
    table.settle("b", Settlement([at(2)], [(at(1), 0.0)]))
    assert table.state() == GroupPosition(position(0), ((at(1), at(1)),))


def test_after_max_processing_another_gets_it() -> None:
    """A member that exceeds max_processing loses its message, and its later settlement is ignored."""
    shelf = Shelf(None)
    table = shelf.table()
    table.take("a", 1, shelf.read, max_processing=10)
    assert table.next_due() == 110.0
    shelf.time = 110.0
    assert table.take("b", 1, shelf.read) == leased(0, attempt=2)
    table.settle("a", acked(0))
    assert table.state().position == position(0)


def test_what_a_member_had_is_free_when_it_leaves() -> None:
    """Other members get its messages at once, as the next attempt."""
    shelf = Shelf(None, None)
    table = shelf.table()
    table.take("a", 2, shelf.read)
    table.leave("a")
    assert table.take("b", 5, shelf.read) == leased(0, 1, attempt=2)


def test_a_seek_frees_all_and_forgets_acks() -> None:
    """A seek ends every lease; all messages come again from there on, as the first attempt."""
    shelf = Shelf(*[None] * 4)
    table = shelf.table()
    table.take("a", 4, shelf.read)
    table.settle("a", acked(2))
    table.seek(position(1))
    table.settle("a", acked(1))
    assert table.state() == GroupPosition(position(1))
    assert table.take("b", 9, shelf.read) == leased(1, 2, 3)


def test_what_was_trimmed_counts_as_acked() -> None:
    """After a trim no earlier message is delivered, and no member holds one."""
    shelf = Shelf(*[None] * 6)
    table = shelf.table()
    table.take("a", 3, shelf.read)
    table.settle("a", Settlement([], [(at(1), 0.0)]))
    assert table.wanted == position(1)
    table.trim(position(4))
    assert table.state() == GroupPosition(position(4))
    assert table.take("b", 9, shelf.read) == leased(4, 5)


def test_nothing_new_is_opened_when_too_much_is_open() -> None:
    """The table's memory is bounded: at its limit it waits for acks."""
    shelf = Shelf(*[None] * 5)
    table = shelf.table(most_open=2)
    assert table.take("a", 9, shelf.read) == leased(0, 1)
    assert table.take("b", 9, shelf.read) == []
    table.settle("a", acked(1))
    assert table.take("b", 9, shelf.read) == leased(2)


def test_what_was_handed_out_before_the_log_failed_goes_its_way() -> None:
    """A log that fails loses no earlier message; the next call raises the error."""
    shelf = Shelf(None, None, None)
    table = shelf.table()
    table.take("a", 1, shelf.read)
    table.settle("a", Settlement([], [(at(0), 0.0)]))

    def fails(begin: Numbers, most: int) -> Iterator[Upcoming]:
        raise OSError("the disk is gone")

    assert table.take("b", 2, fails) == leased(0, attempt=2)
    with pytest.raises(OSError, match="gone"):
        table.take("b", 2, fails)
    assert table.take("b", 2, shelf.read) == leased(1, 2)


def test_what_is_open_and_what_waits_is_told() -> None:
    """A table is full at its limit, and knows whether any message waits for its turn."""
    shelf = Shelf(None, None, None)
    table = shelf.table(most_open=2)
    assert (table.is_full, table.has_waiting) == (False, False)
    table.take("a", 3, shelf.read)
    assert (table.is_full, table.has_waiting) == (True, False)
    table.settle("a", Settlement([at(0)], [(at(1), 60.0)]))
    assert (table.is_full, table.has_waiting) == (False, True)


@pytest.mark.parametrize("state", ["with a member", "put off", "behind a key"])
def test_what_is_open_costs_nothing(state: str) -> None:
    """Taking, settling and querying take no longer with a hundred times as many open messages."""
    few, many = (min(_seconds(state, count) for _ in range(3)) for count in (100, 10_000))
    assert many < 10 * few


def _seconds(state: str, count: int) -> float:
    keys = [b"k"] * count if state == "behind a key" else [None] * count
    messages = [Upcoming((number,), key, (number + 1,)) for number, key in enumerate([*keys, *[None] * 100])]

    def read(begin: Numbers, most: int) -> list[Upcoming]:
        return messages[begin[0] : begin[0] + most]

    table = Leases(GroupPosition(Position(LOG, (0,))), by_key=state == "behind a key")
    table.take("a", 1 if state == "behind a key" else count, read)
    if state == "put off":
        table.settle("a", Settlement([], [((number,), 3600.0) for number in range(count)]))
    table.take("b", 1, read)
    began = time.process_time()
    for number in range(99):
        [lease] = table.take("c", 1, read, 60.0)
        table.settle(
            "c", Settlement([lease.coordinates]) if number % 2 else Settlement([], [(lease.coordinates, 60.0)])
        )
        _ = table.state(), table.next_due(), table.wanted
    return time.process_time() - began


def test_a_key_is_with_one_member() -> None:
    """While a member has a message of a key, others get none of that key; messages without a key are all free."""
    shelf = Shelf(b"a", b"a", None, b"b", b"a")
    table = shelf.table(by_key=True)
    assert table.take("one", 1, shelf.read) == leased(0)
    assert table.take("two", 9, shelf.read) == leased(2, 3)
    assert table.take("one", 1, shelf.read) == leased(1)
    table.settle("one", acked(0, 1))
    assert table.take("two", 9, shelf.read) == leased(4)


def test_a_returned_message_holds_its_key_back() -> None:
    """Until a returned message is due, no later one of the same key is delivered."""
    shelf = Shelf(b"a", b"a", b"b")
    table = shelf.table(by_key=True)
    table.take("one", 1, shelf.read)
    table.settle("one", Settlement([], [(at(0), 5.0)]))
    assert table.take("two", 9, shelf.read) == leased(2)
    shelf.time += 5
    assert table.take("two", 9, shelf.read) == [*leased(0, attempt=2), *leased(1)]


def test_tidy_ranges() -> None:
    """Ranges ascend, do not overlap, and lie after the position."""
    ranges = ((at(7), at(8)), (at(0), at(1)), (at(2), at(4)), (at(4), at(5)))
    assert tidy(GroupPosition(position(3), ranges)) == GroupPosition(position(3), ((at(3), at(5)), (at(7), at(8))))


# against a model -------------------------------------------------------------------------------------------


class Job:
    """The model's state of a message."""

    def __init__(self, *, acked: bool) -> None:
        self.member: str | None = None
        self.ends = float("inf")
        self.due = 0.0
        self.attempt = 1
        self.acked = acked
        self.lapsed: str | None = None
        self.lost: set[str] = set()

    def free(self, due: float) -> None:
        """Free the message for the next member that asks."""
        self.member, self.lapsed, self.ends, self.due = None, None, float("inf"), due
        self.attempt += 1

    def give(self, member: str, ends: float) -> None:
        """Lease the message to a member."""
        self.lost = (self.lost | {self.lapsed} if self.lapsed else self.lost) - {member}
        self.member, self.lapsed, self.ends = member, None, ends


class LeaseMachine(RuleBasedStateMachine):
    """The table against a plain list of messages."""

    by_key = False
    out = Bundle("out")

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.jobs: list[Job] = []
        self.floor = 0

    @initialize(done=st.sets(st.integers(0, 8)), begin=st.integers(0, 3), keys=st.lists(st.sampled_from(KEYS)))
    def open(self, done: set[int], begin: int, keys: list[bytes | None]) -> None:
        """Start with a group that has a position and acks."""
        ranges = tuple((at(number), at(number)) for number in sorted(done))
        self.add([*keys, *[None] * max(0, 9 - len(keys))])
        for number, job in enumerate(self.jobs):
            job.acked = number < begin or number in done
        start = GroupPosition(position(begin), ranges)
        self.table = self.shelf.table(start, by_key=self.by_key)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4))
    def add(self, keys: list[bytes | None]) -> None:
        """Send more messages."""
        self.shelf.keys += keys
        self.jobs += [Job(acked=number < self.floor) for number in range(len(self.jobs), len(self.jobs) + len(keys))]

    @rule(target=out, member=st.sampled_from("abc"), most=st.integers(1, 5), limit=st.sampled_from([None, 3.0]))
    def take(self, member: str, most: int, limit: float | None) -> object:
        """Take the messages that the model allows a member."""
        expected = []
        for number in self.allowed(member):
            if len(expected) == most:
                break
            job = self.jobs[number]
            job.give(member, self.shelf.time + limit if limit else float("inf"))
            expected.append(Lease(at(number), job.attempt))
        assert self.table.take(member, most, self.shelf.read, limit) == expected
        return multiple(*[(member, lease.coordinates) for lease in expected])

    def allowed(self, member: str) -> Iterator[int]:
        """Yield the messages that a member may have, in order."""
        self.expire()
        held_back: set[bytes] = set()
        for number, job in enumerate(self.jobs):
            key = self.shelf.keys[number]
            if job.acked or job.member is not None:
                continue
            owners = {each.member for each, other in zip(self.jobs, self.shelf.keys, strict=True) if other == key}
            mine = not self.by_key or key is None or (key not in held_back and owners <= {member, None})
            if job.due <= self.shelf.time and mine:
                yield number
            elif key is not None:
                held_back.add(key)

    @rule(lease=out, member=st.sampled_from("abc"), delay=st.sampled_from([None, 0.0, 2.0]), right=st.booleans())
    def settle(self, lease: tuple[str, Numbers], member: str, delay: float | None, right: bool) -> None:
        """Settle a message that was leased once, by its member or another."""
        owner, coordinates = lease
        member = owner if right else member
        self.expire()
        job, late = self.job_at(coordinates), 0
        if member in (job.member, job.lapsed):
            if delay is None:
                job.member, job.lapsed, job.acked = None, None, True
            elif job.member:
                job.free(self.shelf.time + delay)
            else:
                job.lapsed, job.due = None, self.shelf.time + delay
        elif member in job.lost and delay is None:
            job.lost.remove(member)
            late = 1
        settled = Settlement([coordinates]) if delay is None else Settlement([], [(coordinates, delay)])
        assert self.table.settle(member, settled) == late

    def job_at(self, coordinates: Numbers) -> Job:
        """Return the message with these coordinates."""
        return self.jobs[next(number for number in range(len(self.jobs)) if at(number) == coordinates)]

    @rule(lease=out)
    def stop_clock(self, lease: tuple[str, Numbers]) -> None:
        """Stop the clock of a message that was leased once, as its ack is on its way."""
        member, coordinates = lease
        self.expire()
        job, key = self.job_at(coordinates), self.shelf.keys[[at(n) for n in range(len(self.jobs))].index(coordinates)]
        owners = {each.member for each, other in zip(self.jobs, self.shelf.keys, strict=True) if other == key}
        if job.member == member:
            job.ends = float("inf")
        elif job.lapsed == member and (not self.by_key or key is None or owners <= {member, None}):
            job.give(member, float("inf"))
            job.attempt -= 1
        self.table.stop_clock(member, coordinates)

    @rule(member=st.sampled_from("abc"))
    def leave(self, member: str) -> None:
        """Remove a member."""
        for job in self.jobs:
            if job.member == member:
                job.free(self.shelf.time)
            if job.lapsed == member:
                job.lapsed = None
            job.lost.discard(member)
        self.table.leave(member)

    @rule(seconds=st.sampled_from([1.0, 2.0, 10.0]))
    def wait(self, seconds: float) -> None:
        """Advance the clock."""
        self.shelf.time += seconds

    @rule(number=st.integers(0, 12))
    def seek(self, number: int) -> None:
        """Move the group."""
        self.floor = number
        before = self.jobs
        self.jobs = [Job(acked=index < number) for index in range(len(before))]
        for job, old in zip(self.jobs, before, strict=True):
            job.lost = {*old.lost, *filter(None, [old.member or old.lapsed])}
        self.table.seek(position(number))

    @rule(number=st.integers(0, 6))
    def trim(self, number: int) -> None:
        """Remove the beginning, as retention does."""
        for job in self.jobs[:number]:
            job.acked, job.member, job.lapsed = True, None, None
        self.table.trim(position(min(number, len(self.jobs))))

    def expire(self) -> None:
        """End the leases that have run out."""
        for job in self.jobs:
            if job.member is not None and job.ends <= self.shelf.time:
                member = job.member
                job.free(self.shelf.time)
                job.lapsed = member

    @invariant()
    def stands_where_the_model_says(self) -> None:
        """A message counts as acked in the table's position exactly if it is acked in the model."""
        state = self.table.state()
        found = [
            at(number) < state.position.coordinates or any(first <= at(number) <= last for first, last in state.acked)
            for number in range(len(self.jobs))
        ]
        assert found == [job.acked for job in self.jobs]
        assert list(state.acked) == sorted(state.acked)


class KeyMachine(LeaseMachine):
    """The same for keys, each of which is with one member at a time."""

    by_key = True


LeaseMachine.TestCase.settings = KeyMachine.TestCase.settings = settings(max_examples=100, deadline=None)
TestLeases = LeaseMachine.TestCase
TestLeasesByKey = KeyMachine.TestCase


def test_what_was_handed_out_before_is_taken_up() -> None:
    """A table that takes over counts recalled leases as attempts, and keeps delays; other messages are new."""
    shelf = Shelf(*[None] * 5)
    table = shelf.table(GroupPosition(position(1), ((at(2), at(2)),)))
    table.recall({at(1): Recalled(2), at(3): Recalled(1, 5.0)}, shelf.read)
    assert table.take("a", 9, shelf.read) == [Lease(at(1), 3), Lease(at(4), 1)]
    shelf.time += 5
    assert table.take("a", 9, shelf.read) == leased(3, attempt=2)


def test_a_member_goes_on_with_what_it_had() -> None:
    """Messages that a member claims stay its own, as the same attempt, unless another has some of them."""
    shelf = Shelf(*[None] * 4)
    table = shelf.table()
    table.recall({at(number): Recalled(1, 1.0) for number in range(4)}, shelf.read)
    assert table.claim("a", [at(0), at(1)])
    assert [table.attempts(at(number)) for number in range(3)] == [1, 1, 1]
    assert table.take("b", 9, shelf.read) == []
    shelf.time += 1
    assert table.take("b", 1, shelf.read) == leased(2, attempt=2)
    assert not table.claim("c", [at(3), at(2)])
    table.settle("a", acked(0))
    assert table.state().position == position(1)


def test_a_key_that_another_member_has_is_not_claimed() -> None:
    """A late member cannot claim a message whose key is with another."""
    shelf = Shelf(b"k", b"k")
    table = shelf.table(by_key=True)
    table.recall({at(0): Recalled(1), at(1): Recalled(1)}, shelf.read)
    assert table.take("b", 1, shelf.read) == leased(0, attempt=2)
    assert not table.claim("a", [at(1)])


def test_what_is_settled_late_counts() -> None:
    """A recalled lease that is acked late counts, whichever member has it, read or not; a returned one waits."""
    shelf = Shelf(*[None] * 6)
    table = shelf.table()
    table.recall({at(0): Recalled(1), at(1): Recalled(1)}, shelf.read)
    table.take("b", 1, shelf.read)
    table.settle_late(Settlement([at(0), at(4)], [(at(1), 5.0)]))
    assert [table.is_open(at(0)), table.is_idle(at(1)), table.open_messages] == [False, True, 1]
    assert table.take("b", 9, shelf.read) == leased(2, 3, 5)
    shelf.time += 5
    assert table.take("b", 9, shelf.read) == leased(1, attempt=2)
