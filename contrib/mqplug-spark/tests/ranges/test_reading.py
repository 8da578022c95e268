"""Reading a range, over the memory backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from spark_options import options

import mqplug
from mqplug import ConnectError, Position, PositionLost, Timeout
from mqplug_spark._batch_read import plan_ranges
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.read_range import ReadRange
from mqplug_spark._ranges.task_rows import read_planned


def another() -> mqplug.Client:
    """Another client of the store that the fixture ``mq`` keeps."""
    return mqplug.connect("memory://orders")


def read(wanted: ReadRange, made: ReadOptions) -> Iterator[mqplug.Batch]:
    """The batches of a range, read by a new client."""
    with another() as client:
        yield from read_planned(lambda: client, mqplug.Client.close, wanted, made)


def send(mq: mqplug.Client, count: int, partition: int = 0) -> list[mqplug.MessageId]:
    """Send this many numbers to one partition. Return their ids."""
    with mq.producer("orders") as out:
        sent = out.send_many([mqplug.Record(str(n).encode(), partition=partition) for n in range(count)])
    return [each for each in sent if isinstance(each, mqplug.MessageId)]


def planned(mq: mqplug.Client, made: ReadOptions) -> ReadRange:
    """The first range of a plan made now."""
    return plan_ranges(mq, made)[0]


def values(wanted: ReadRange, made: ReadOptions) -> list[int]:
    """The numbers of a range."""
    return [int(value) for batch in read(wanted, made) for value in batch.values]


def trim(mq: mqplug.Client, message_id: mqplug.MessageId) -> None:
    """Remove the messages before one."""
    mq.trim("orders", {message_id.log.partition: Position(message_id.log, message_id.coordinates)})


def test_a_range_ends_where_it_was_planned(mq: mqplug.Client) -> None:
    """Messages sent after the planning are not read."""
    send(mq, 5)
    wanted = planned(mq, options())
    send(mq, 5)
    assert values(wanted, options()) == [0, 1, 2, 3, 4]


def test_only_the_partition_of_the_range_is_read(mq: mqplug.Client) -> None:
    """Another partition's messages do not appear."""
    send(mq, 3, partition=0)
    send(mq, 2, partition=1)
    assert values(planned(mq, options()), options()) == [0, 1, 2]


def test_more_than_one_batch(mq: mqplug.Client) -> None:
    """A long range is read whole and in order."""
    for _ in range(3):
        send(mq, 9_000)
    assert values(planned(mq, options()), options()) == [*range(9_000)] * 3


def test_what_retention_took_since_the_planning_is_an_error(mq: mqplug.Client) -> None:
    """A range whose start was removed after the planning raises PositionLost."""
    sent = send(mq, 5)
    wanted = planned(mq, options())
    trim(mq, sent[2])
    with pytest.raises(PositionLost):
        values(wanted, options())


def test_what_retention_took_is_stepped_over_where_allowed(mq: mqplug.Client, caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, the remaining messages of the range are read, and the log counts the lost ones."""
    lenient = options(failOnDataLoss="false")
    sent = send(mq, 5)
    wanted = planned(mq, lenient)
    trim(mq, sent[2])
    assert values(wanted, lenient) == [2, 3, 4]
    assert "2 messages of orders[0] are lost" in caplog.text


def test_a_range_of_which_nothing_is_left_ends(mq: mqplug.Client, caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a range that is gone completely is empty, although messages follow it."""
    lenient = options(failOnDataLoss="false")
    send(mq, 5)
    wanted = planned(mq, lenient)
    later = send(mq, 5)
    trim(mq, later[1])
    assert values(wanted, lenient) == []
    assert "5 messages of orders[0] are lost" in caplog.text


@pytest.mark.parametrize("allowed", [True, False])
def test_retention_overtakes_a_reader(mq: mqplug.Client, allowed: bool) -> None:
    """Messages removed between two batches are an error, or are skipped if that is allowed."""
    made = options(failOnDataLoss=str(not allowed))
    sent = [message_id for _ in range(3) for message_id in send(mq, 15_000)]
    batches = read(planned(mq, made), made)
    seen = len(next(batches))
    trim(mq, sent[44_990])
    if allowed:
        assert seen + sum(map(len, batches)) < 45_000
    else:
        with pytest.raises(PositionLost):
            list(batches)


def test_a_backend_that_does_not_answer_ends_in_a_timeout(mq: mqplug.Client) -> None:
    """If stored messages do not arrive, the read raises a Timeout that names the partition."""
    hasty = options(pollTimeoutMs="200")
    send(mq, 1)
    wanted = planned(mq, hasty)
    beyond = Position(wanted.until.log, (2,))
    with pytest.raises(Timeout, match=r"no message arrived from orders\[0\] for 0.2 s"):
        values(ReadRange(wanted.topic, wanted.partition, wanted.start, beyond), hasty)


def test_a_connection_that_fails_is_tried_again(mq: mqplug.Client) -> None:
    """A task whose backend is briefly unreachable still reads everything."""
    send(mq, 5)
    failures = [ConnectError("nobody is there"), ConnectError("still nobody")]

    def get() -> mqplug.Client:
        if failures:
            raise failures.pop()
        return mq

    batches = read_planned(get, mqplug.Client.close, planned(mq, options()), options())
    assert [int(value) for batch in batches for value in batch.values] == [0, 1, 2, 3, 4]
    assert failures == []


def test_a_client_that_is_closed_meanwhile_is_replaced(mq: mqplug.Client) -> None:
    """A task whose client is closed by other code gets a new one, and neither loses nor repeats a message."""
    for _ in range(3):
        send(mq, 9_000)
    dropped: list[mqplug.Client] = []
    closed, fresh = another(), another()
    batches = read_planned(lambda: fresh if dropped else closed, dropped.append, planned(mq, options()), options())
    seen = list(next(batches).values)
    closed.close()
    seen += [value for batch in batches for value in batch.values]
    fresh.close()
    assert [int(value) for value in seen] == [*range(9_000)] * 3
    assert dropped == [closed]


def test_a_connection_that_goes_on_failing_is_an_error(mq: mqplug.Client) -> None:
    """If nothing arrives within pollTimeoutMs, the task fails with the last error."""
    hasty = options(pollTimeoutMs="300")
    send(mq, 1)

    def get() -> mqplug.Client:
        raise ConnectError("nobody is there")

    with pytest.raises(ConnectError, match="nobody is there"):
        list(read_planned(get, mqplug.Client.close, planned(mq, hasty), hasty))
