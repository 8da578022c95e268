"""Messages: they cannot be changed, and do not behave as the tuple that they are."""

from __future__ import annotations

import copy
import pickle

import pytest

import mqplug
from mqplug import Batch, Log, Position
from mqplug.spi import ListColumns

pytestmark = pytest.mark.python

LOG = Log("memory", "here", "t", 0)


class CountedColumns(ListColumns):
    """Columns that count how often the values are decoded, or refuse decoding."""

    decoded = 0
    broken = False

    def values(self):
        CountedColumns.decoded += 1
        if CountedColumns.broken:
            raise mqplug.Corrupt("these values cannot be decoded")
        return super().values()


@pytest.fixture
def batch(monkeypatch):
    """A batch of three messages whose values were not decoded."""
    monkeypatch.setattr(CountedColumns, "decoded", 0)
    columns = CountedColumns([(0,), (1,), (2,)], [b"a", None, b"c"], [b"k"] * 3, [()] * 3, [0, 1, 2], [0, 1, 2])
    return Batch(LOG, Position(LOG, (3,)), 3, columns)


def both(batch):
    """A message from iteration, and one from an index."""
    return next(iter(batch)), batch[0]


ATTRIBUTES = [
    *("id", "topic", "partition", "key", "value", "headers", "timestamp", "log_time", "attempt"),
    *("_batch", "_index", "more"),
]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_nothing_of_a_message_can_be_set_or_deleted(batch, name):
    """Setting or deleting any attribute of a message, known or not, raises."""
    for message in both(batch):
        with pytest.raises(AttributeError):
            setattr(message, name, b"changed")
        with pytest.raises(AttributeError):
            object.__setattr__(message, name, b"changed")
        with pytest.raises(AttributeError):
            delattr(message, name)
        assert message.value == b"a"


@pytest.mark.parametrize(
    "use",
    [
        iter,
        list,
        tuple,
        sorted,
        lambda m: m[0],
        lambda m: m[:1],
        lambda m: b"a" in m,
        lambda m: m < m,
        lambda m: m >= m,
    ],
    ids=["iter", "list", "tuple", "sorted", "index", "slice", "in", "less", "not less"],
)
def test_a_message_is_no_sequence(batch, use):
    """A message cannot be iterated, indexed, searched or sorted."""
    for message in both(batch):
        with pytest.raises(TypeError):
            use(message)


def test_messages_are_equal_by_id_and_content(batch):
    """A message equals itself and its copies, however made, and no other message; and it is true."""
    first, indexed = both(batch)
    copies = [copy.copy(first), copy.deepcopy(first), *(pickle.loads(pickle.dumps(each)) for each in (first, indexed))]
    for each in (indexed, *copies):
        assert each == first
        assert (each != first) is False
        assert hash(each) == hash(first)
        assert repr(each) == repr(first) == "Message(memory t[0] 0, 1 bytes)"
        assert each
    assert first != batch[1]
    assert [message.value for message in batch] == [batch[row].value for row in range(3)] == [b"a", None, b"c"]


def test_values_are_decoded_when_messages_are_iterated_over(batch):
    """A message from an index, its id and its key do not decode the values. Iteration decodes them once."""
    assert (batch[2].id.coordinates, batch[0].key) == ((2,), b"k")
    assert CountedColumns.decoded == 0
    assert [message.value for message in (*batch, *batch)] == [b"a", None, b"c"] * 2
    assert batch[0].value == b"a"
    assert CountedColumns.decoded == 1


def test_a_value_that_cannot_be_decoded_raises_where_it_is_read(batch, monkeypatch):
    """Iteration continues over messages whose values cannot be decoded: only reading such a value raises."""
    monkeypatch.setattr(CountedColumns, "broken", True)
    messages = list(batch)
    assert [message.key for message in messages] == [b"k"] * 3
    for message in messages:
        with pytest.raises(mqplug.Corrupt):
            _ = message.value
