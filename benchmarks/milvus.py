"""The suite of Milvus: inserted rows of a topic to typed Arrow columns, compared with protocol buffers' own classes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import mqplug
import mqplug_milvus
from benchmarks._contests import Contest, Side, Work
from benchmarks._milvus_classes import insert_request
from mqplug_milvus import DataType, Insert

DIM = 128
MESSAGES = 100
ROWS = (10, 1000)
AIM = 5.0
TOPIC = "by-dev-rootcoord-dml_0"
INSERT = 400
_TIME = 446_000_000_000_000_000
_FIELDS = {
    "pk": DataType.INT64,
    "year": DataType.INT32,
    "name": DataType.VARCHAR,
    "vector": DataType.FLOAT_VECTOR,
}


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; their topics exist within the block."""
    request = insert_request()
    with mqplug.connect("memory://benchmark-milvus") as mq:
        found = []
        for rows in ROWS:
            topic = f"{TOPIC}_of_{rows}"
            mq.create_topic(topic)
            with mq.producer(topic) as producer:
                producer.send_many([insert(request, number, rows) for number in range(4 if quick else MESSAGES)])
            found.append(_contest(mq, topic, request, rows))
        yield found
        for rows in ROWS:
            mq.delete_topic(f"{TOPIC}_of_{rows}")


def _contest(mq: mqplug.Client, topic: str, request: Any, rows: int) -> Contest:
    return Contest(
        name=f"milvus: {rows} rows a message, {DIM} dimensions, to Arrow",
        unit="row",
        ours=_side("mqplug", "mqplug_milvus.decode(message).to_arrow()", mq, topic, _ours),
        rivals=[
            _side(
                "protobuf",
                "ParseFromString, and a pyarrow array of each field's data",
                mq,
                topic,
                lambda message: _theirs(request, message),
            )
        ],
        min_cpu_ratios={"protobuf": AIM} if rows == 1000 else {},
    )


def _side(
    name: str, words: str, mq: mqplug.Client, topic: str, decoded: Callable[[mqplug.Message], pa.RecordBatch]
) -> Side:
    def work() -> int:
        return sum(decoded(message).num_rows for message in mq.read(topic))

    @contextmanager
    def prepare() -> Iterator[Work]:
        yield work

    return Side(name, words, prepare)


def _ours(message: mqplug.Message) -> pa.RecordBatch:
    event = mqplug_milvus.decode(message)
    assert isinstance(event, Insert)
    return event.to_arrow()


def _theirs(request: Any, message: mqplug.Message) -> pa.RecordBatch:
    found = request()
    found.ParseFromString(message.value)
    columns = {field.field_name: _READERS[field.type](field) for field in found.fields_data}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


_READERS: dict[int, Callable[[Any], pa.Array]] = {
    DataType.INT32: lambda field: pa.array(field.scalars.int_data.data[:], pa.int32()),
    DataType.INT64: lambda field: pa.array(field.scalars.long_data.data[:], pa.int64()),
    DataType.VARCHAR: lambda field: pa.array(field.scalars.string_data.data[:], pa.string()),
    DataType.FLOAT_VECTOR: lambda field: pa.FixedSizeListArray.from_arrays(
        pa.array(field.vectors.float_vector.data[:], pa.float32()), field.vectors.dim
    ),
}


def insert(request: Any, number: int, rows: int) -> bytes:
    """Return an insert message as Milvus writes it: a key, a number, a text and a vector for each row."""
    first, draw = number * rows, random.Random(number)
    made = request(shardName=f"{TOPIC}_1v0", collection_name="things", collectionID=1, num_rows=rows, version=1)
    made.base.msg_type = INSERT
    made.timestamps.extend([_TIME + number] * rows)
    made.rowIDs.extend(_TIME + each for each in range(first, first + rows))
    for at, (name, kind) in enumerate(_FIELDS.items()):
        field = made.fields_data.add(type=kind, field_name=name, field_id=100 + at)
        match kind:
            case DataType.INT64:
                field.scalars.long_data.data.extend(_TIME + each for each in range(first, first + rows))
            case DataType.INT32:
                field.scalars.int_data.data.extend(each % 1000 - 500 for each in range(first, first + rows))
            case DataType.VARCHAR:
                field.scalars.string_data.data.extend(f"thing {each}" for each in range(first, first + rows))
            case _:
                field.vectors.dim = DIM
                field.vectors.float_vector.data.extend(draw.random() for _ in range(rows * DIM))
    data: bytes = made.SerializeToString()
    return data
