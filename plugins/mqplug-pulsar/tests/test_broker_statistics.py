"""Facts read from the broker's internal statistics."""

from __future__ import annotations

import pytest

from mqplug_pulsar._cluster.broker_statistics import AckProgress, Cursor, Ledgers
from mqplug_pulsar._format.note_texts import BATCH_ACKS_PROPERTY


def stats(last, *ledgers):
    """Return statistics as the broker answers them."""
    return {"lastConfirmedEntry": last, "ledgers": [{"ledgerId": number, "entries": n} for number, n in ledgers]}


@pytest.mark.parametrize(
    ("answer", "low", "high"),
    [
        (stats("5:-1", (5, 0)), (5, 0, -1), (5, 0, -1)),
        (stats("5:6", (5, 0)), (5, 0, -1), (5, 7, -1)),
        (stats("5:6", (5, 7), (6, 0)), (5, 0, -1), (5, 7, -1)),
        (stats("6:-1", (5, 7), (6, 0)), (5, 0, -1), (5, 7, -1)),
        (stats("6:2", (5, 7), (6, 0)), (5, 0, -1), (6, 3, -1)),
        (stats("5:6", (6, 0)), (6, 0, -1), (6, 0, -1)),
        (stats("5:6"), (5, 7, -1), (5, 7, -1)),
    ],
)
def test_low_and_high(answer, low, high):
    """The last confirmed entry shows how many entries the open ledger has; empty ledgers do not count."""
    ledgers = Ledgers.read(answer)
    assert (ledgers.low, ledgers.high) == (low, high)


def test_entries():
    """Entries are counted forward and backward across ledgers."""
    ledgers = Ledgers.read(stats("8:1", (5, 7), (8, 0)))
    assert [ledgers.entries_from(place) for place in [(5, 0, -1), (5, 6, 2), (5, 7, -1), (8, 2, -1)]] == [9, 3, 2, 0]
    assert [ledgers.back(count) for count in (1, 2, 3, 9, 10)] == [
        (8, 1, -1), (8, 0, -1), (5, 6, -1), (5, 0, -1), (5, 0, -1),
    ]  # fmt: skip


def test_cursor():
    """A cursor has a position and the acked entries after it; acks that begin the next batch move it into the batch."""
    answer = {"markDeletePosition": "5:2", "individuallyDeletedMessages": "[(5:3..5:5],(5:7..6:0]]"}
    ledgers = Ledgers.read(stats("6:3", (5, 9), (6, 0)))
    cursor = Cursor.read(answer, {BATCH_ACKS_PROPERTY: "5:2;5:3=13"}, ledgers)
    assert cursor.position == (5, 3, 2)
    assert cursor.ranges == (((5, 4), (5, 5)), ((5, 8), (6, 0)))
    assert cursor.acks.ranges() == [((5, 3, 0), (5, 3, 1)), ((5, 3, 4), (5, 3, 4))]
    assert Cursor.read(answer, {BATCH_ACKS_PROPERTY: "5:1;5:2=1;5:4=1"}, ledgers).position == (5, 3, -1)


def test_cursor_that_was_moved_back():
    """Acks inside batches that were noted at a later position no longer count: the group was moved back."""
    answer = {"markDeletePosition": "5:2"}
    cursor = Cursor.read(answer, {BATCH_ACKS_PROPERTY: "5:3;5:4=1;5:9=1"}, Ledgers.read(stats("5:9", (5, 0))))
    assert (cursor.position, cursor.acks.ranges()) == ((5, 3, -1), [])


def test_cursor_at_the_end_of_a_ledger():
    """After the last entry of a closed ledger comes the first one of the next, where acks inside a batch count."""
    answer = {"markDeletePosition": "5:8"}
    ledgers = Ledgers.read(stats("8:3", (5, 9), (6, 0), (8, 0)))
    acks = {BATCH_ACKS_PROPERTY: "5:8;8:0=3"}
    assert Cursor.read(answer, acks, ledgers).position == (8, 0, 2)
    assert Cursor.read(answer, {}, ledgers).position == (5, 9, -1)
    assert Cursor.read(answer, acks, Ledgers.read(stats("5:8", (5, 9)))).position == (
        5,
        9,
        -1,
    )


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [((-1, -1), (6, 0), False), ((-1, -1), (6, 1), True), ((6, 1), (6, 1), False), ((6, 1), (6, 2), True),
     ((6, 9), (7, 0), False), ((6, 9), (7, 1), True)],
)  # fmt: skip
def test_written_acks(before, now, written):
    """A position counts as written when the group's ledger grew; the first entry of a ledger repeats an older one."""
    acks = AckProgress.read(with_cursor(now), "g")
    assert acks.written_after(AckProgress.read(with_cursor(before), "g")) is written


def test_acks_that_have_not_arrived():
    """Entries up to the mark, and in the ranges after it, are acked; all others are left."""
    acks = AckProgress.read(with_cursor((6, 1)), "g")
    assert acks.left([(4, 9), (5, 2), (5, 3), (5, 4), (5, 5), (5, 6), (6, 0)]) == [(5, 3), (5, 6), (6, 0)]


def test_no_acks_yet():
    """A group that the broker does not know has acked nothing."""
    acks = AckProgress.read(stats("5:8", (5, 9)) | {"cursors": {}}, "g")
    assert acks.left([(5, 0)]) == [(5, 0)]


def with_cursor(written):
    """Return statistics in which the group's position was written at this entry of a ledger."""
    cursor = {
        "markDeletePosition": "5:2", "individuallyDeletedMessages": "[(5:3..5:5]]",
        "cursorLedger": written[0], "cursorLedgerLastEntry": written[1],
    }  # fmt: skip
    return stats("5:8", (5, 9)) | {"cursors": {"g": cursor}}
