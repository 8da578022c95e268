"""Sharing partitions among the members of a group in one process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqplug import Log
from mqplug.spi import Roster, Seat

LOGS = [Log("memory", "c", "orders", number, "i") for number in range(7)]


def settle(seats: list[Seat]) -> None:
    """Let every member look at its changes until nothing changes any more."""
    for _ in range(3):
        for seat in seats:
            leaving, _ = seat.changes()
            seat.release(leaving)


@given(joins=st.lists(st.booleans(), min_size=1, max_size=12))
def test_members_hold_everything_evenly_and_nothing_twice(joins: list[bool]) -> None:
    """Whoever joins and leaves: each log has exactly one holder, and shares differ by one at most."""
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
    """A new member gets nothing of another's before that has let go."""
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
