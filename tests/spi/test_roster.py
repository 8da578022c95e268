"""Sharing partitions among the members of a group in one process."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from mqplug import ConsumerBusy, Log
from mqplug.spi import Mode
from mqplug.spi.groups import Roster, Seat

LOGS = [Log("memory", "c", "orders", number, "i") for number in range(7)]


def settle(seats: list[Seat]) -> None:
    """Let every member process its changes until nothing changes any more."""
    for _ in range(3):
        for seat in seats:
            leaving, _ = seat.changes()
            seat.release(leaving)


@given(joins=st.lists(st.booleans(), min_size=1, max_size=12))
def test_members_hold_everything_evenly_and_nothing_twice(joins: list[bool]) -> None:
    """Whichever members join and leave, each log has exactly one holder, and shares differ by one at most."""
    roster = Roster()
    seats: list[Seat] = []
    for join in joins:
        if join or not seats:
            seats.append(roster.join(LOGS, lambda: None))
        else:
            seats.pop(0).leave()
        settle(seats)
        held = [log for seat in seats for log in seat.held]
        assert sorted(held, key=lambda log: log.partition) == (LOGS if seats else [])
        if seats:
            assert max(len(seat.held) for seat in seats) - min(len(seat.held) for seat in seats) <= 1


def test_a_log_moves_only_after_it_was_released() -> None:
    """A new member gets no log before its holder has released it."""
    roster = Roster()
    first = roster.join(LOGS, lambda: None)
    first.changes()
    second = roster.join(LOGS, lambda: None)
    assert second.changes() == ([], [])
    leaving, _ = first.changes()
    assert second.changes() == ([], [])
    first.release(leaving)
    assert second.changes() == ([], leaving)


def test_a_member_keeps_what_it_has() -> None:
    """When a member leaves, the others only gain."""
    roster = Roster()
    seats = [roster.join(LOGS, lambda: None) for _ in range(3)]
    settle(seats)
    before = [set(seat.held) for seat in seats[1:]]
    seats[0].leave()
    settle(seats[1:])
    assert all(old <= seat.held for old, seat in zip(before, seats[1:], strict=True))


def test_others_are_woken_when_something_changes() -> None:
    """A join, a release and a leave wake the other members."""
    woken: list[str] = []
    roster = Roster()
    first = roster.join(LOGS, lambda: woken.append("first"))
    second = roster.join(LOGS, lambda: woken.append("second"))
    first.changes()
    first.release([LOGS[0]])
    second.leave()
    assert woken == ["first", "second", "first"]


def test_an_exclusive_member_is_alone() -> None:
    """A second member is refused at once; when the first has left, the place is free."""
    roster = Roster()
    first = roster.join(LOGS, lambda: None, "exclusive")
    with pytest.raises(ConsumerBusy, match="only member"):
        roster.join(LOGS, lambda: None, "exclusive")
    assert len(roster) == 1
    assert first.changes() == ([], LOGS)
    first.leave()
    roster.join(LOGS, lambda: None, "exclusive")


@pytest.mark.parametrize(
    ("first", "second"), [("ordered", "shared"), ("shared", "key_shared"), ("ordered", "exclusive")]
)
def test_members_are_in_one_mode(first: Mode, second: Mode) -> None:
    """A member that wants another mode is refused with the group's mode."""
    roster = Roster()
    roster.join(LOGS, lambda: None, first)
    with pytest.raises(ConsumerBusy, match=first):
        roster.join(LOGS, lambda: None, second)
    assert roster.mode == first


def test_members_that_share_hold_everything() -> None:
    """Each member is given all its logs once, and none is ever taken away."""
    roster = Roster()
    seats = [roster.join(LOGS, lambda: None, "shared") for _ in range(2)]
    assert [seat.changes() for seat in seats] == [([], LOGS)] * 2
    assert [seat.changes() for seat in seats] == [([], [])] * 2
    seats[0].leave()
    assert seats[1].changes() == ([], [])


def test_members_are_reported() -> None:
    """Each member is reported with its given name and host, or its process, and the logs that it holds now."""
    roster = Roster()
    named = roster.join(LOGS[:2], lambda: None, name="billing-1", host="web1")
    other = roster.join(LOGS[1:3], lambda: None)
    assert [each.logs for each in roster.members()] == [(), ()]
    settle([named, other])
    first, second = roster.members()
    assert (first.name, first.host, first.logs) == ("billing-1", "web1", tuple(LOGS[:1]))
    assert second.name.startswith(f"pid-{os.getpid()}-")
    assert set(second.logs or ()) == {LOGS[1], LOGS[2]} - set(first.logs or ())
    assert roster.wanted() == set(LOGS[:3])
    other.leave()
    assert [each.name for each in roster.members()] == ["billing-1"]


def test_a_log_that_nobody_took_yet_is_moving() -> None:
    """The roster knows whether members have processed all their changes."""
    roster = Roster()
    seat = roster.join(LOGS, lambda: None)
    assert roster.moving
    seat.changes()
    assert not roster.moving


def test_members_read_partitions_that_are_added() -> None:
    """Members that read the topic are given its new logs, shared out as evenly as the old ones."""
    roster = Roster()
    seats = [roster.join(LOGS[:4], lambda: None) for _ in range(2)]
    settle(seats)
    roster.extend(LOGS[0], LOGS[4:6])
    settle(seats)
    assert sorted(len(seat.held) for seat in seats) == [3, 3]
