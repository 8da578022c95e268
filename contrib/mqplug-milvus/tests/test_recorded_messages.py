"""Messages of a real Milvus, read from all three of its queues."""

from __future__ import annotations

import json

import pytest
from recordings import QUEUES, answers, messages, plain, replay

import mqplug
import mqplug_milvus
from mqplug_milvus import CollectionCreated, CollectionDropped, DataType, Delete, Insert, Other, Tables, TimeTick


@pytest.fixture
def mq():
    """A client of the memory backend."""
    with mqplug.connect("memory") as client:
        yield client


@pytest.fixture(params=QUEUES)
def queue(request):
    """The queue on which the Milvus ran."""
    return request.param


def decoded(queue):
    """Return all events of a recording."""
    return [mqplug_milvus.decode_bytes(*each) for stored in messages(queue).values() for each in stored]


def test_rows_equal_the_query(mq, queue):
    """The rows that the events make are those that Milvus' query answered, value by value; a dropped one is gone."""
    tables = Tables()
    for topic in replay(mq, queue):
        for event in mqplug_milvus.read_events(mq, topic):
            tables.apply(event)
    for collection in ("things", "words"):
        assert plain(tables[collection].rows) == answers(queue, collection)
    with pytest.raises(KeyError):
        tables["gone"]


def test_every_kind_is_met(queue):
    """A recording has each kind of event that the other tests read."""
    assert {type(each) for each in decoded(queue)} == {
        TimeTick, Insert, Delete, CollectionCreated, CollectionDropped, Other,
    }  # fmt: skip


def test_the_schema(queue):
    """The event of a new collection has its name, its topics and its fields with their types."""
    created = next(
        each for each in decoded(queue) if isinstance(each, CollectionCreated) and each.collection == "things"
    )
    assert created.topics == ("by-dev-rootcoord-dml_0", "by-dev-rootcoord-dml_1")
    fields = {field.name: field for field in created.schema.fields}
    assert list(fields) == [
        "pk", "flag", "tiny", "small", "whole", "big", "real", "exact", "name", "tags", "words", "doc", "vec", "$meta",
    ]  # fmt: skip
    assert created.schema.primary == fields["pk"]
    assert (fields["vec"].type, fields["vec"].dim) == (DataType.FLOAT_VECTOR, 8)
    assert (fields["tags"].type, fields["tags"].element_type) == (DataType.ARRAY, DataType.INT64)
    assert fields["$meta"].is_dynamic


def test_arrow_equals_the_rows(queue):
    """Each insert's Arrow columns have the values of its rows, and vectors are lists of a fixed size."""
    pytest.importorskip("pyarrow")
    for insert in decoded(queue):
        if not isinstance(insert, Insert):
            continue
        batch = insert.to_arrow()
        got = batch.to_pylist()
        for column in insert.columns:
            want = column.values()
            if column.type is DataType.JSON:
                assert [json.loads(row[column.name]) for row in got] == want
            else:
                assert [row[column.name] for row in got] == want
        if insert.collection == "things":
            assert str(batch.schema.field("vec").type) == "fixed_size_list<item: float>[8]"
            assert str(batch.schema.field("tiny").type) == "int8"


def test_an_upsert_is_marked(mq, queue):
    """An upsert's delete comes just before its insert, which is marked, though Milvus gives it no time stamp."""
    upserts = 0
    for topic in replay(mq, queue):
        before = None
        for event in mqplug_milvus.read_events(mq, topic):
            if isinstance(event, Insert) and event.is_upsert:
                assert isinstance(before, Delete)
                assert (before.time, before.shard) == (event.time, event.shard)
                assert set(before.keys) == {row["pk"] for row in event.rows()}
                upserts += 1
            before = event
    assert upserts == 2  # one in each shard


def test_times_never_go_back(mq, queue):
    """The events of a topic come in the order of their time stamps."""
    for topic in replay(mq, queue):
        times = [event.time for event in mqplug_milvus.read_events(mq, topic)]
        assert times == sorted(times)


def test_collections_are_listed(mq, queue):
    """All collections whose creation is still in the topics are listed, with their schemas."""
    replay(mq, queue)
    found = mqplug_milvus.collections(mq)
    assert sorted(each.collection for each in found.values()) == ["gone", "things", "words"]
