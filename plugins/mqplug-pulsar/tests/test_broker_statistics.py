"""What is read from the broker's internal statistics."""

from __future__ import annotations

import pytest

from mqplug_pulsar._cluster.broker_statistics import WITHIN_PROPERTY, AckProgress, Cursor, Ledgers


def stats(last, *ledgers):
    """What the broker would answer."""
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
    """The open ledger's entries are told by the last confirmed entry; ledgers without entries do not count."""
    ledgers = Ledgers.read(answer)
    assert (ledgers.low, ledgers.high) == (low, high)


def test_entries():
    """Entries are counted, forward and back, over ledgers."""
    ledgers = Ledgers.read(stats("8:1", (5, 7), (8, 0)))
    assert [ledgers.entries_from(place) for place in [(5, 0, -1), (5, 6, 2), (5, 7, -1), (8, 2, -1)]] == [9, 3, 2, 0]
    assert [ledgers.back(count) for count in (1, 2, 3, 9, 10)] == [
        (8, 1, -1), (8, 0, -1), (5, 6, -1), (5, 0, -1), (5, 0, -1),
    ]  # fmt: skip


def test_cursor():
    """A cursor tells its position and the acked entries behind; a noted place counts only while the cursor is there."""
    answer = {"markDeletePosition": "5:2", "individuallyDeletedMessages": "[(5:3..5:5],(5:7..6:0]]"}
    ledgers = Ledgers.read(stats("6:3", (5, 9), (6, 0)))
    cursor = Cursor.read(answer, {WITHIN_PROPERTY: "5:3:2"}, ledgers)
    assert cursor.position == (5, 3, 2)
    assert cursor.ranges == (((5, 4), (5, 5)), ((5, 8), (6, 0)))
    assert Cursor.read(answer, {WITHIN_PROPERTY: "5:2:1"}, ledgers).position == (5, 3, -1)


def test_cursor_at_the_end_of_a_ledger():
    """Behind the last entry of a closed ledger stands the first one of the next; a place inside that counts."""
    answer = {"markDeletePosition": "5:8"}
    ledgers = Ledgers.read(stats("8:3", (5, 9), (6, 0), (8, 0)))
    assert Cursor.read(answer, {WITHIN_PROPERTY: "8:0:2"}, ledgers).position == (8, 0, 2)
    assert Cursor.read(answer, {}, ledgers).position == (5, 9, -1)
    assert Cursor.read(answer, {WITHIN_PROPERTY: "8:0:2"}, Ledgers.read(stats("5:8", (5, 9)))).position == (5, 9, -1)


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [((-1, -1), (6, 0), False), ((-1, -1), (6, 1), True), ((6, 1), (6, 1), False), ((6, 1), (6, 2), True),
     ((6, 9), (7, 0), False), ((6, 9), (7, 1), True)],
)  # fmt: skip
def test_written_acks(before, now, written):
    """A group's position was written when the broker added to the ledger where it keeps it; the first entry is old."""
    stats = {"subscriptions": {"g": {"consumers": [{"consumerName": "m", "lastAckedTimestamp": 7}]}}}
    internal = {"cursors": {"g": {"cursorLedger": now[0], "cursorLedgerLastEntry": now[1]}}}
    acks = AckProgress.read(stats, internal, "g", "m")
    assert acks.received == 7
    assert acks.written_after(AckProgress(7, before)) is written


def test_no_acks_yet():
    """A group that the broker does not know, and a member that is not connected, have acked nothing."""
    assert AckProgress.read({"subscriptions": {}}, {"cursors": {}}, "g", "m") == AckProgress(0, (-1, -1))
