"""Coordinates and details of pulsar-client's message ids."""

from __future__ import annotations

import pytest

from mqplug_pulsar._format import message_ids

pytestmark = pytest.mark.python


class Native:
    """An id of pulsar-client with these bytes."""

    def __init__(self, ledger, entry, index, data):
        self._place = ledger, entry, index
        self._data = bytes.fromhex(data)

    def ledger_id(self):
        return self._place[0]

    def entry_id(self):
        return self._place[1]

    def batch_index(self):
        return self._place[2]

    def serialize(self):
        return self._data


def test_batched():
    """A message of a batch has its index in the coordinates, and the size of the batch as detail."""
    native = Native(5, 1, 3, "08051001180020033005")
    assert (message_ids.coordinates(native), message_ids.detail(native)) == ((5, 1, 3), (5,))


def test_sizes():
    """A batch size of any encoded length is read from an id; an id without one has none."""
    sizes = {"3005": (5,), "30ac02": (300,), "30b060": (12336,), "": ()}
    for tail, size in sizes.items():
        assert message_ids.batch_size(bytes.fromhex("0805100118002003" + tail)) == size
    assert message_ids.batch_size(bytes.fromhex("080510011800" + "20b060")) == ()


def test_chunked():
    """A chunked message has the coordinates of its last chunk, followed by those of the first."""
    native = Native(5, 9, -1, "0805100918003a0408051007")
    assert message_ids.coordinates(native) == (5, 9, -1, 5, 7)
    assert message_ids.start_of(message_ids.coordinates(native)) == (5, 7, -1)


@pytest.mark.parametrize(
    ("place", "detail", "behind"),
    [
        ((5, 1, -1), (), (5, 2, -1)),
        ((5, 1, 0), (1,), (5, 2, -1)),
        ((5, 1, 0), (5,), (5, 1, 1)),
        ((5, 1, 4), (5,), (5, 2, -1)),
        ((5, 1, 4), (), (5, 1, 5)),
        ((5, 9, -1, 5, 7), (), (5, 10, -1)),
    ],
)
def test_behind(place, detail, behind):
    """The position after the last message of a batch is the next entry."""
    assert message_ids.position_after(place, detail) == behind


def test_before():
    """The position before a batch's first message is its entry; before a chunked message it is the first chunk."""
    assert message_ids.position_before((5, 1, 0)) == (5, 1, -1)
    assert message_ids.position_before((5, 1, 2)) == (5, 1, 2)
    assert message_ids.start_of(message_ids.position_before((5, 9, -1, 5, 7))) == (5, 7, -1)
