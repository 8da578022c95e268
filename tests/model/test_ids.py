"""The laws of ids and positions, over any log and any coordinates."""

from __future__ import annotations

import functools
import json
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mqplug import EARLIEST, LATEST, Batch, InvalidMessageId, Log, MessageId, Position, after, before
from mqplug.spi import ListColumns

pytestmark = pytest.mark.python

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "ids-1.json").read_text())

names = st.text(max_size=30) | st.sampled_from(["", "orders", "a.b_c-d", ".", "~", "persistent://t/n/x", "\ud800"])
logs = st.builds(Log, names, names, names, st.integers(0, 10_000), names)
numbers = st.integers() | st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, 2**64, 2**200])
coordinates = st.lists(numbers, min_size=1, max_size=4).map(tuple)
details = st.lists(numbers, max_size=3).map(tuple)
ids = st.builds(MessageId, logs, coordinates, details)
positions = st.builds(Position, logs, coordinates)
ORDERS = ("__lt__", "__le__", "__gt__", "__ge__")


def of_one_log(count: int, kind=MessageId):
    """A number of ids of one log, as backends make them: their coordinates have the same length."""
    each = st.integers(1, 3).flatmap(
        lambda size: st.lists(st.tuples(*[numbers] * size), min_size=count, max_size=count)
    )
    return st.builds(lambda log, made: [kind(log, one) for one in made], logs, each)


@given(ids)
def test_the_text_of_an_id_reads_back(each):
    """ID-01: the text reads back as the same id, with its detail, and is written the same again."""
    again = MessageId.parse(str(each))
    assert (again, again.detail, str(again)) == (each, each.detail, str(each))
    assert again.log is each.log


@given(positions)
def test_the_text_of_a_position_reads_back(each):
    """ID-01: the text of a position reads back as that position, and is written the same again."""
    again = Position.parse(str(each))
    assert (again, str(again)) == (each, str(each))


@given(st.text() | st.text("m1p~.-_0123456789abcdef"))
def test_garbage_is_refused(text):
    """ID-02: the reader never crashes, and refuses every text that was not written by str()."""
    for kind in (MessageId, Position):
        with pytest.raises(InvalidMessageId):
            kind.parse(text)


@given(ids, st.data())
def test_a_changed_text_is_refused(each, data):
    """ID-02: a text that was cut, or has one other character, is no longer an id."""
    text = str(each)
    index = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda char: char != text[index]))
    for bad in (text[:index], text[:index] + other + text[index + 1 :], text[:index] + other + text[index:]):
        with pytest.raises(InvalidMessageId):
            MessageId.parse(bad)


@pytest.mark.parametrize("wrong", [None, b"m1~", 1, ["m1"]])
def test_the_text_is_a_str(wrong):
    """ID-02: a text that is not a str raises ``TypeError``."""
    with pytest.raises(TypeError):
        MessageId.parse(wrong)


@given(st.lists(logs, min_size=2, max_size=2, unique=True), coordinates)
def test_ids_of_different_logs_are_unequal(two, where):
    """ID-03, ID-04, ID-07: ids of different logs are unequal and have no order."""
    one, other = (MessageId(log, where) for log in two)
    assert one != other
    assert str(one) != str(other)
    for order in ORDERS:
        with pytest.raises(TypeError):
            getattr(one, order)(other)
        with pytest.raises(TypeError):
            getattr(Position(one.log, where), order)(Position(other.log, where))


@given(ids, details)
def test_equality_and_hash_agree(each, detail):
    """ID-04: equal ids have the same hash, and the detail does not count."""
    for copy in (MessageId(each.log, tuple(each.coordinates)), MessageId(each.log, each.coordinates, detail)):
        assert copy == each
        assert each == copy
        assert hash(copy) == hash(each)


@given(of_one_log(3))
def test_order_is_total_and_transitive(three):
    """ID-05, ID-06: of two ids of a log exactly one of <, == and > holds, and < is transitive."""
    one, two, other = three
    assert [one < two, one == two, one > two].count(True) == 1
    assert (one <= two, one >= two) == (not one > two, not one < two)
    assert (one < two) == (two > one)
    if one < two and two < other:
        assert one < other


@given(of_one_log(8), st.randoms())
def test_sorting_is_the_order_of_coordinates(made, chance):
    """ID-06: sorted ids are in the order of their coordinates, whatever order they came in."""
    wanted = sorted(made, key=lambda each: each.coordinates)
    chance.shuffle(made)
    assert sorted(made) == wanted
    assert sorted(made, key=functools.cmp_to_key(lambda one, two: (one > two) - (one < two))) == wanted


@given(of_one_log(2, kind=Position))
def test_positions_are_ordered(two):
    """ID-05: of two positions of a log exactly one of <, == and > holds."""
    one, other = two
    assert [one < other, one == other, one > other].count(True) == 1
    assert (one <= other, one >= other) == (not one > other, not one < other)


@given(of_one_log(2))
def test_a_position_precedes_what_lies_behind_it(two):
    """A position precedes the message at its own coordinates, and all larger ones."""
    one, other = two
    assert Position(one.log, one.coordinates).precedes(other) == (one <= other)


@given(ids)
def test_points_are_no_ids(each):
    """ID-09: EARLIEST, LATEST and positions are not ids: unequal, without order, with another text."""
    position = Position(each.log, each.coordinates)
    for point in (EARLIEST, LATEST, position):
        assert point != each
        with pytest.raises(TypeError):
            assert each < point
        with pytest.raises(TypeError):
            before(point)
    with pytest.raises(InvalidMessageId):
        MessageId.parse(str(position))
    with pytest.raises(InvalidMessageId):
        Position.parse(str(each))


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["why"])
def test_golden_texts(row):
    """ID-11: texts that the first version wrote still read, and are still written the same."""
    log = Log(*row["log"])
    message_id = MessageId(log, tuple(row["coordinates"]), tuple(row["detail"]))
    position = Position(log, tuple(row["coordinates"]))
    assert (str(message_id), str(position)) == (row["id"], row["position"])
    assert MessageId.parse(row["id"]) == message_id
    assert MessageId.parse(row["id"]).detail == message_id.detail
    assert Position.parse(row["position"]) == position


@given(ids)
def test_the_text_is_plain(each):
    """ID-13: the text has only ASCII characters that need no escaping in a URL."""
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", str(each))


@given(ids, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_ids_are_immutable_and_can_be_pickled(each, protocol):
    """ID-14: an id and a position cannot be changed, and a pickled one is the same."""
    for thing in (each, Position(each.log, each.coordinates)):
        copy = pickle.loads(pickle.dumps(thing, protocol))
        assert (copy, hash(copy), str(copy)) == (thing, hash(thing), str(thing))
        assert copy.log is thing.log
        for field in ("log", "coordinates", "new"):
            with pytest.raises(AttributeError):
                setattr(thing, field, None)
            with pytest.raises(AttributeError):
                delattr(thing, field)


@given(numbers, numbers)
def test_coordinates_of_any_size(one, other):
    """ID-15: coordinates keep their value and their order, however large."""
    log = Log("b", "c", "t", 0)
    assert (MessageId(log, (one,)) < MessageId(log, (other,))) == (one < other)
    assert MessageId.parse(str(MessageId(log, (one, other)))).coordinates == (one, other)


@given(ids, st.none() | st.integers() | st.text() | st.tuples(st.integers()))
def test_comparison_with_strangers(each, stranger):
    """ID-16: comparing with any other object is left to the other side."""
    for name in ("__eq__", *ORDERS):
        assert getattr(each, name)(stranger) is NotImplemented
        assert getattr(Position(each.log, each.coordinates), name)(stranger) is NotImplemented
    with pytest.raises(TypeError):
        after(stranger)


@given(of_one_log(5), st.none() | st.lists(details, min_size=5, max_size=5))
def test_the_texts_of_a_batch_are_those_of_its_ids(made, known):
    """The Arrow column of ids holds the text of each, with and without details."""
    log = made[0].log
    columns = ListColumns([each.coordinates for each in made], [b""] * 5, [None] * 5, [()] * 5, [0] * 5, [0] * 5, known)
    batch = Batch(log, Position(log, made[-1].coordinates), 5, columns)
    assert batch.to_arrow(["id"]).column("id").to_pylist() == [str(message_id) for message_id in batch.ids]
