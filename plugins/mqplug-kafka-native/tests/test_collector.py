"""Collecting records: rows, handles, and the choice of a partition."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from itertools import count

import pytest

from mqplug_kafka_native import Collector, Row, Rows

MANY = 1000


class Handle(Row):
    """A handle, as the core derives one."""

    __slots__ = ()


class Run:
    """The owner of rows."""


def collector(rows, keyless=0, keyed=0, most_bytes=100):
    """Return a collector of these rows, by partition."""
    made = Collector(Handle, most_bytes, None)
    made.follow(rows, keyless, keyed)
    return made


def test_a_collected_record_is_a_row():
    """Each record becomes the next row, and its handle has the run and the row. Keys are None where there are none."""
    run = Run()
    rows = Rows(run, MANY, MANY)
    collect = collector({0: rows}).collect
    handles = [collect(b"a", None), collect(b"bb", b"key"), collect(b"", None)]
    assert [(type(each), each._run, each._row) for each in handles] == [(Handle, run, row) for row in range(3)]
    assert rows.columns() == ((b"a", b"bb", b""), (None, b"key", None))
    assert (len(rows), rows.bytes_left) == (3, MANY - 6)


def test_rows_without_keys():
    """Rows of which none has a key have no column of keys."""
    rows = Rows(Run(), MANY, MANY)
    for number in range(200):
        assert rows.add(b"%d" % number, None, 1) == number
    assert rows.columns() == (tuple(b"%d" % number for number in range(200)), None)


@pytest.mark.parametrize(("most", "most_bytes"), [(2, MANY), (MANY, 5)])
def test_full_rows(most, most_bytes):
    """A record for which the rows of its partition have no room is not taken; its partition is returned."""
    rows = Rows(Run(), most, most_bytes)
    collect = collector({7: rows}, keyless=7).collect
    assert [type(collect(b"xx", None)) for _ in range(3)] == [Handle, Handle, int]
    assert collect(b"xx", None) == 7
    assert len(rows) == 2
    assert rows.has_room(0) is (most > 2)


def test_sealed_rows():
    """Sealed rows take no more records, and keep the ones that they have."""
    rows = Rows(Run(), MANY, MANY)
    collect = collector({0: rows}).collect
    collect(b"a", None)
    rows.seal()
    assert collect(b"b", None) == 0
    assert rows.columns() == ((b"a",), None)


def test_a_partition_without_rows():
    """A record of a partition without rows is not taken; its partition is returned."""
    assert collector({}, keyless=3).collect(b"a", None) == 3


def test_partitions_come_from_an_iterator_and_a_function():
    """Without a key, the next partition of the iterator is used; with one, the partition of the function."""
    rows = {partition: Rows(Run(), MANY, MANY) for partition in range(4)}
    collect = collector(rows, count(1), len).collect
    collect(b"first", None), collect(b"second", None), collect(b"keyed", b"")
    assert [rows[partition].columns()[0] for partition in range(3)] == [(b"keyed",), (b"first",), (b"second",)]


@pytest.mark.parametrize(
    ("value", "key"), [(None, None), ("text", None), (bytearray(), None), (b"", "key"), (b"x" * 99, b"xx")]
)
def test_what_is_not_collected(value, key):
    """A value or a key that is not bytes, and a record of too many bytes, are left to the caller."""
    rows = Rows(Run(), MANY, MANY)
    assert collector({0: rows}).collect(value, key) is None
    assert len(rows) == 0


def test_a_collector_that_follows_nothing():
    """A new collector leaves all records to the caller."""
    assert Collector(Handle, MANY, None).collect(b"a", None) is None


def test_an_error_of_the_function_is_raised():
    """An error of the user's partitioner is raised, and the record is not taken."""
    rows = Rows(Run(), MANY, MANY)
    with pytest.raises(ZeroDivisionError):
        collector({0: rows}, keyed=lambda _: 1 // 0).collect(b"a", b"key")
    with pytest.raises(StopIteration):
        collector({0: rows}, keyless=iter(())).collect(b"a", None)
    assert len(rows) == 0


def test_strange_rows_are_refused():
    """Rows of another type are refused with ``TypeError``."""
    with pytest.raises(TypeError):
        collector({0: [b"a"]}).collect(b"a", None)
    with pytest.raises(TypeError):
        Collector(Handle, MANY, None).follow([], 0, 0)


def test_a_child_process_collects_nothing():
    """After a fork, a collector of the parent process leaves all records to its caller."""
    rows = Rows(Run(), MANY, MANY)
    collect = collector({0: rows}).collect
    child = os.fork()
    if child == 0:
        os._exit(0 if collect(b"a", None) is None and len(rows) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert type(collect(b"a", None)) is Handle


def test_rows_sealed_while_a_handle_is_made():
    """Making a handle may collect garbage, and so run code that seals the rows: they get no record after that."""
    rows = Rows(Run(), MANY, MANY)
    collect = collector({0: rows}).collect
    sent = []

    def seal_and_send(phase, info):
        rows.seal()
        sent[:] = rows.columns()[0]

    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(seal_and_send)
    gc.set_threshold(50)
    try:
        taken = [collect(b"a", None) for _ in range(200)]
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(seal_and_send)
    assert 0 < len(sent) == sum(type(each) is Handle for each in taken) < 200


def test_everything_is_released():
    """Rows, collectors and handles release what they refer to, even in a cycle."""
    run, value, key = Run(), bytes(50), bytes(40)
    before = sys.getrefcount(value), sys.getrefcount(key)
    run.rows = Rows(run, MANY, MANY)
    run.collector = collector({0: run.rows})
    run.handles = [run.collector.collect(value, key) for _ in range(100)]
    gone = weakref.ref(run)
    del run
    gc.collect()
    assert gone() is None
    assert (sys.getrefcount(value), sys.getrefcount(key)) == before
