"""A group's position, against a model of lists."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mqplug import Log, MessageId, Position
from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.delivery import Delivery
from mqplug.spi import Batch, GroupPosition, ListColumns

LOG = Log("memory", "c", "orders", 0, "i")


def a_batch(offsets: list[int], next_offset: int) -> Batch:
    """A batch of empty messages at these offsets."""
    count = len(offsets)
    columns = ListColumns(
        [(offset,) for offset in offsets], [b""] * count, [None] * count, [()] * count, [0] * count, [0] * count
    )
    return Batch(LOG, Position(LOG, (next_offset,)), count, columns)


def batches_of(gaps: list[list[int]]) -> list[Batch]:
    """Return consecutive batches whose offsets have these gaps between them."""
    offset, made = 0, []
    for sizes in gaps:
        offsets = []
        for gap in sizes:
            offset += gap
            offsets.append(offset)
            offset += 1
        made.append(a_batch(offsets, offset))
    return made


def acked_by(state: GroupPosition, offsets: list[int]) -> set[int]:
    """Return the offsets that a group at this position has acked."""
    return {
        offset
        for offset in offsets
        if offset < state.position.coordinates[0] or any(first[0] <= offset <= last[0] for first, last in state.acked)
    }


def handed_out(tracker: Tracker, batches: list[Batch]) -> list[tuple[Delivery, int]]:
    """Deliver whole batches, with each message as (delivery, row)."""
    rows = []
    for batch in batches:
        delivery = tracker.deliver(batch)
        rows += [(delivery, index) for index, _ in enumerate(delivery.messages)]
    return rows


@given(
    gaps=st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5),
    chosen=st.sets(st.integers(0, 29)),
    asked=st.booleans(),
    folds=st.booleans(),
)
def test_the_state_is_exactly_what_was_acked(gaps: list[list[int]], chosen: set[int], asked: bool, folds: bool) -> None:
    """Whatever is acked in any order, the position and the ranges cover exactly that, also when queried in between."""
    batches = batches_of(gaps)
    offsets = [coordinates[0] for batch in batches for coordinates in batch.coordinates]
    tracker = Tracker(None, GroupPosition(Position(LOG, (0,))), keeps=True)
    tracker.folds = folds
    rows = handed_out(tracker, batches)
    expected = set()
    for number in sorted(chosen, reverse=True):
        if number < len(rows):
            delivery, index = rows[number]
            delivery.flags[index] = 1
            expected.add(offsets[number])
            if asked:
                tracker.state()
    assert acked_by(tracker.state(), offsets) == expected


@given(
    gaps=st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5), chosen=st.sets(st.integers(0, 29))
)
def test_a_restored_state_hands_out_just_the_rest(gaps: list[list[int]], chosen: set[int]) -> None:
    """A new tracker that begins at a stored state delivers exactly the unacked messages, and ends with all acked."""
    batches = batches_of(gaps)
    offsets = [coordinates[0] for batch in batches for coordinates in batch.coordinates]
    tracker = Tracker(None, GroupPosition(Position(LOG, (0,))), keeps=True)
    for number, (delivery, index) in enumerate(handed_out(tracker, batches)):
        delivery.flags[index] = number in chosen
    state = tracker.state()
    again = Tracker(None, state, keeps=True)
    fetched = [
        batch[[c[0] >= state.position.coordinates[0] for c in batch.coordinates].index(True) :]
        for batch in batches_of(gaps)
        if any(c[0] >= state.position.coordinates[0] for c in batch.coordinates)
    ]
    rows = handed_out(again, [again.without_acked(batch) for batch in fetched])
    delivered = [delivery.batch.coordinates[index][0] for delivery, index in rows]
    assert delivered == [offset for number, offset in enumerate(offsets) if number not in chosen]
    for delivery, index in rows:
        delivery.flags[index] = 1
    if rows:
        assert again.state() == GroupPosition(Position(LOG, (offsets[-1] + 1,)))


def test_a_split_delivery_keeps_what_was_handed_out() -> None:
    """The rest of a batch after an iteration becomes a batch again, with correct positions on both sides."""
    tracker = Tracker(None, GroupPosition(Position(LOG, (0,))), keeps=True)
    delivery = tracker.deliver(a_batch([0, 2, 4, 6], 9))
    first = next(delivery.messages)
    rest = delivery.split()
    assert first.id.coordinates == (0,)
    assert [coordinates[0] for coordinates in rest.coordinates] == [2, 4, 6]
    assert rest.next_position == Position(LOG, (9,))
    assert tracker.position == Position(LOG, (2,))
    delivery.flags[0] = 1
    assert tracker.state() == GroupPosition(Position(LOG, (2,)))


def test_a_dropped_delivery_hands_out_nothing_more() -> None:
    """After a seek or a hand-over the rest of a batch is not delivered, even by an existing iterator."""
    tracker = Tracker(None, GroupPosition(Position(LOG, (0,))), keeps=True)
    delivery = tracker.deliver(a_batch([0, 1, 2], 3))
    messages = delivery.messages
    next(messages)
    tracker.drop()
    assert list(messages) == []
    assert not delivery.live


def test_without_a_group_nothing_is_kept() -> None:
    """Without a group, delivered batches are forgotten."""
    tracker = Tracker(None, GroupPosition(Position(LOG, (0,))), keeps=False)
    for start in range(0, 3000, 3):
        list(tracker.deliver(a_batch([start, start + 1, start + 2], start + 3)).messages)
    assert len(tracker._deliveries) == 1
    assert tracker.position == Position(LOG, (3000,))


def test_runs_of_acks_go_on_from_batch_to_batch() -> None:
    """One unacked message leaves one acked range after it, however many batches follow."""
    tracker = Tracker(None, GroupPosition(Position(LOG, (0,))), keeps=True)
    rows = handed_out(tracker, [a_batch([start, start + 1, start + 2], start + 3) for start in range(0, 300, 3)])
    for delivery, index in rows[1:]:
        delivery.flags[index] = 1
    assert tracker.state() == GroupPosition(Position(LOG, (0,)), (((1,), (299,)),))
    assert tracker.ranges == 1
    rows[150][0].flags[rows[150][1]] = 0
    assert tracker.state().acked == (((1,), (149,)), ((151,), (299,)))


def test_messages_that_are_acked_behind_an_unacked_one_are_let_go_of() -> None:
    """A folding tracker releases acked batches after an unacked message, and still knows that they are acked."""
    tracker = Tracker(None, GroupPosition(Position(LOG, (0,))), keeps=True)
    tracker.folds = True
    rows = handed_out(tracker, [a_batch(list(range(start, start + 10)), start + 10) for start in range(0, 1000, 10)])
    batches = {id(delivery): delivery.batch for delivery, _ in rows}
    for delivery, index in rows[1:]:
        delivery.flags[index] = 1
    assert tracker.state() == GroupPosition(Position(LOG, (0,)), (((1,), (999,)),))
    assert tracker.kept == 10 + 2 + 10
    assert sum(batch.delivery is tracker.passed for batch in batches.values()) == 98
    found = tracker.find(MessageId(LOG, (500,)))
    assert found is not None
    assert found[0].flags[found[1]]
    rows[0][0].flags[0] = 1
    assert tracker.state() == GroupPosition(Position(LOG, (1000,)))
    assert tracker.kept == 0
