"""Reading a planned range, called as Spark calls a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import attrs
import pyarrow as pa
import pytest
from clusters import Cluster, send, trim
from pyspark.sql.datasource import DataSourceReader, InputPartition
from reads import reader_of
from spark_options import drop_client_of

import mqplug
from mqplug import ConnectError, Position, PositionLost, Timeout

LENIENT = {"failOnDataLoss": "false"}


@attrs.frozen
class Planned:
    """A reader, and the first range that it planned."""

    reader: DataSourceReader
    range: InputPartition

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the range."""
        found: Any = self.reader.read(self.range)
        return iter(found)

    def values(self) -> list[int]:
        """Return the numbers of the range."""
        return [int(row["value"]) for batch in self.batches() for row in batch.to_pylist()]


def plan(orders: Cluster, **options: str) -> Planned:
    """Plan a read now."""
    reader = reader_of({"url": orders.url, "subscribe": "orders", **options})
    return Planned(reader, reader.partitions()[0])


def test_a_range_ends_where_it_was_planned(orders: Cluster) -> None:
    """Messages sent after the planning are not read."""
    send(orders, "orders", 5)
    planned = plan(orders)
    send(orders, "orders", 5)
    assert planned.values() == [0, 1, 2, 3, 4]


def test_only_the_partition_of_the_range_is_read(orders: Cluster) -> None:
    """Another partition's messages do not appear."""
    send(orders, "orders", 3, partition=0)
    send(orders, "orders", 2, partition=1)
    assert plan(orders).values() == [0, 1, 2]


def test_more_than_one_batch(orders: Cluster) -> None:
    """A long range is read whole and in order."""
    for _ in range(3):
        send(orders, "orders", 9_000)
    assert plan(orders).values() == [*range(9_000)] * 3


def test_what_retention_took_since_the_planning_is_an_error(orders: Cluster) -> None:
    """A range whose start was removed after the planning raises PositionLost."""
    sent = send(orders, "orders", 5)
    planned = plan(orders)
    trim(orders, sent[2])
    with pytest.raises(PositionLost):
        planned.values()


def test_what_retention_took_is_stepped_over_where_allowed(orders: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, the remaining messages of the range are read, and the log counts the lost ones."""
    sent = send(orders, "orders", 5)
    planned = plan(orders, **LENIENT)
    trim(orders, sent[2])
    assert planned.values() == [2, 3, 4]
    assert "2 messages of orders[0] are lost" in caplog.text


def test_a_range_of_which_nothing_is_left_ends(orders: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a range that is gone completely is empty, although messages follow it."""
    send(orders, "orders", 5)
    planned = plan(orders, **LENIENT)
    later = send(orders, "orders", 5)
    trim(orders, later[1])
    assert planned.values() == []
    assert "5 messages of orders[0] are lost" in caplog.text


@pytest.mark.parametrize("allowed", [True, False])
def test_retention_overtakes_a_reader(orders: Cluster, allowed: bool) -> None:
    """Messages removed between two batches are an error, or are skipped if that is allowed."""
    sent = [message_id for _ in range(3) for message_id in send(orders, "orders", 15_000)]
    batches = plan(orders, failOnDataLoss=str(not allowed)).batches()
    seen = next(batches).num_rows
    trim(orders, sent[44_990])
    if allowed:
        assert seen + sum(batch.num_rows for batch in batches) < 45_000
    else:
        with pytest.raises(PositionLost):
            list(batches)


def test_a_backend_that_does_not_answer_ends_in_a_timeout(orders: Cluster) -> None:
    """If stored messages do not arrive, the read raises a Timeout that names the partition."""
    send(orders, "orders", 1)
    planned = plan(orders, pollTimeoutMs="200")
    beyond = attrs.evolve(planned.range.value, until=Position(planned.range.value.until.log, (2,)))
    with pytest.raises(Timeout, match=r"no message arrived from orders\[0\] for 0.2 s"):
        Planned(planned.reader, InputPartition(beyond)).values()


@pytest.fixture
def connecting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[mqplug.Client]]:
    """Return a function that makes later connections fail first. It returns the clients that are made."""
    connect = mqplug.connect

    def record(failures: Iterator[ConnectError]) -> list[mqplug.Client]:
        made = []

        def failing(*arguments: Any, **options: Any) -> mqplug.Client:
            if (error := next(failures, None)) is not None:
                raise error
            made.append(connect(*arguments, **options))
            return made[-1]

        monkeypatch.setattr(mqplug, "connect", failing)
        return made

    return record


def test_a_connection_that_fails_is_tried_again(
    orders: Cluster, connecting: Callable[..., list[mqplug.Client]]
) -> None:
    """A task whose backend is briefly unreachable still reads everything."""
    send(orders, "orders", 5)
    planned = plan(orders)
    drop_client_of(orders.url)
    made = connecting(iter([ConnectError("nobody is there"), ConnectError("still nobody")]))
    assert planned.values() == [0, 1, 2, 3, 4]
    assert len(made) == 1


def test_a_client_that_is_closed_meanwhile_is_replaced(
    orders: Cluster, connecting: Callable[..., list[mqplug.Client]]
) -> None:
    """A task whose client is closed by other code gets a new one, and neither loses nor repeats a message."""
    for _ in range(3):
        send(orders, "orders", 9_000)
    made = connecting(iter([]))
    batches = plan(orders).batches()
    seen = next(batches).to_pylist()
    made[0].close()
    seen += [row for batch in batches for row in batch.to_pylist()]
    assert [int(row["value"]) for row in seen] == [*range(9_000)] * 3
    assert len(made) == 2


def test_a_connection_that_goes_on_failing_is_an_error(
    orders: Cluster, connecting: Callable[..., list[mqplug.Client]]
) -> None:
    """If nothing arrives within pollTimeoutMs, the task fails with the last error."""
    send(orders, "orders", 1)
    planned = plan(orders, pollTimeoutMs="300")
    drop_client_of(orders.url)
    connecting(repeat(ConnectError("nobody is there")))
    with pytest.raises(ConnectError, match="nobody is there"):
        planned.values()
