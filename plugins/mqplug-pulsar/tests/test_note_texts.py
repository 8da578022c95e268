"""The text in which a subscription's property holds acks inside batches."""

from __future__ import annotations

import pytest

from mqplug_pulsar._format.note_texts import MAX_TEXT, BatchAcks


def test_round_trip():
    """Acks written as text are read back, sorted by batch."""
    acks = BatchAcks({(5, 9): 0b100, (5, 3): 0b11101}, (5, 2))
    assert acks.text() == "5:2;5:3=1d;5:9=4"
    assert BatchAcks.parse(acks.text()) == acks


@pytest.mark.parametrize("text", ["", "nonsense", "5:2;5:3", "5:2;5:3=xyz", "5;5:3=1", "1:2:3;5:3=1"])
def test_foreign_text(text):
    """A property that does not parse means that nothing is acked."""
    assert BatchAcks.parse(text) == BatchAcks()


def test_bound():
    """A text that would become too long leaves out the last batches and can still be parsed."""
    acks = BatchAcks({(7, entry): (1 << 999) - 1 for entry in range(1000)})
    text = acks.text()
    assert MAX_TEXT < len(text) < MAX_TEXT + 1000
    kept = BatchAcks.parse(text).masks
    assert list(kept) == [(7, entry) for entry in range(len(kept))]
    assert 200 < len(kept) < 300


def test_ranges():
    """Runs of acked messages are reported with their first and last coordinates."""
    acks = BatchAcks({(1, 1): 0b1011, (0, 4): 0b1})
    assert acks.ranges() == [((0, 4, 0), (0, 4, 0)), ((1, 1, 0), (1, 1, 1)), ((1, 1, 3), (1, 1, 3))]


def test_joined_and_behind():
    """Acks of two members are joined; acks at or before the mark are left out."""
    joined = BatchAcks({(1, 1): 0b01, (1, 2): 0b01}).joined({(1, 1): 0b10, (1, 3): 0b1})
    assert joined.masks == {(1, 1): 0b11, (1, 2): 0b01, (1, 3): 0b1}
    assert joined.after((1, 1)) == BatchAcks({(1, 2): 0b01, (1, 3): 0b1}, (1, 1))
