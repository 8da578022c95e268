"""Messages with times that no datetime can represent."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta

import pytest

import mqplug
from mqplug import Batch, InvalidTimestamp, Log, Position
from mqplug.spi import ListColumns

pytestmark = pytest.mark.python

LOG = Log("kafka", "here", "t", 0)
TIMES = [1_700_000_000_000_000, 1_700_000_000_000_000_000, -5, 2**63 - 1, -(2**63), 1_700_000_000_000]
IMPOSSIBLE = [0, 1, 3, 4]


@pytest.fixture
def batch():
    """A batch of messages, most of which have such times."""
    rows = range(len(TIMES))
    columns = ListColumns([(each,) for each in rows], [b"v"] * 6, [None] * 6, [()] * 6, TIMES, TIMES)
    return Batch(LOG, Position(LOG, (len(TIMES),)), len(TIMES), columns)


@pytest.mark.parametrize("row", IMPOSSIBLE)
@pytest.mark.parametrize("name", ["timestamp", "log_time"])
def test_a_time_that_is_no_datetime_is_a_typed_error(batch, row, name):
    """The error names the message, has the milliseconds, says what to read instead, and can be pickled."""
    with pytest.raises(InvalidTimestamp, match=r"t\[0\]") as caught:
        getattr(batch[row], name)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.milliseconds, error.topic) == (TIMES[row], "t")
    assert str(TIMES[row]) in str(error)
    assert "timestamps" in error.fix
    assert isinstance(error, mqplug.Error)
    assert isinstance(error, ValueError)


def test_a_time_before_1970_is_a_datetime(batch):
    """A time before 1970 is a correct datetime."""
    assert batch[2].timestamp == datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=5)


def test_everything_else_of_such_a_message_works(batch):
    """A message with such a time can be shown, compared, hashed, copied and pickled, and so can its batch."""
    for row, message in enumerate(batch):
        for again in (copy.copy(message), pickle.loads(pickle.dumps(message)), batch[row]):
            assert again == message
            assert hash(again) == hash(message)
        assert repr(message).startswith("Message(kafka t[0]")
    assert batch.timestamps == pickle.loads(pickle.dumps(batch)).timestamps == TIMES


def test_messages_that_differ_in_time_alone_differ(batch):
    """Messages that differ only in time are unequal."""
    moved = Batch(
        LOG, batch.next_position, 6, ListColumns(batch.coordinates, batch.values, batch.keys, batch.headers,
                                                 [each // 2 for each in TIMES], TIMES)
    )  # fmt: skip
    assert batch[0] != moved[0]


def test_arrow_is_exact(batch):
    """Arrow columns hold any time, in milliseconds, and their type does not depend on the messages."""
    pa = pytest.importorskip("pyarrow")
    table = batch.to_arrow(["timestamp", "log_time"])
    table.validate(full=True)
    for column in table.columns:
        assert column.type == pa.timestamp("ms", tz="UTC") == batch[5:].to_arrow(["timestamp"]).column(0).type
        assert column.cast(pa.int64()).to_pylist() == TIMES


def test_a_time_that_arrow_does_not_have_is_a_typed_error():
    """A time of 2**63 ms and more raises ``InvalidTimestamp`` when Arrow data is requested."""
    pytest.importorskip("pyarrow")
    columns = ListColumns([(0,)], [b"v"], [None], [()], [2**63], [0])
    batch = Batch(LOG, Position(LOG, (1,)), 1, columns)
    assert batch.to_arrow(["value", "log_time"]).num_rows == 1
    with pytest.raises(InvalidTimestamp, match="Arrow cannot hold") as caught:
        batch.to_arrow()
    assert (caught.value.milliseconds, caught.value.topic) == (2**63, "t")


def test_what_was_read_is_refused_before_anything_is_sent(batch):
    """send_many of Arrow data with such times raises ValueError with advice; without the column it is sent."""
    pa = pytest.importorskip("pyarrow")
    with mqplug.connect("memory") as mq:
        mq.create_topic("t")
        with mq.producer("t") as out:
            with pytest.raises(ValueError, match="make these null"):
                out.send_many(batch.to_arrow(["value", "timestamp"]))
            assert mq.watermarks("t")[0].count == 0
            read = batch.to_arrow(["value", "timestamp"])
            times = read.column("timestamp").cast(pa.int64())
            kept = pa.array([each if 0 <= each < 2**47 else None for each in times.to_pylist()], pa.int64())
            out.send_many(read.set_column(1, "timestamp", kept))
        assert [message.value for message in mq.read("t")] == [b"v"] * 6
