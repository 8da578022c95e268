"""Protocol buffers' own classes of Milvus' insert messages: the fields of `msg.proto` and `schema.proto`, by number.

They are what pymilvus has, without its other requirements, which clash with those of the other suites.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

_INT32, _INT64, _UINT64, _FLOAT, _STRING, _MESSAGE = 5, 3, 4, 2, 9, 11  # numbers of descriptor.proto
_ONE, _MANY = 1, 3
_Fields = Mapping[str, tuple[int, int, int] | tuple[int, int, int, str]]

_MESSAGES: Mapping[str, _Fields] = {
    "MsgBase": {"msg_type": (1, _INT32, _ONE), "msgID": (2, _INT64, _ONE), "timestamp": (3, _UINT64, _ONE)},
    "Ints": {"data": (1, _INT32, _MANY)},
    "Longs": {"data": (1, _INT64, _MANY)},
    "Floats": {"data": (1, _FLOAT, _MANY)},
    "Texts": {"data": (1, _STRING, _MANY)},
    "ScalarField": {
        "int_data": (2, _MESSAGE, _ONE, "Ints"),
        "long_data": (3, _MESSAGE, _ONE, "Longs"),
        "string_data": (6, _MESSAGE, _ONE, "Texts"),
    },
    "VectorField": {"dim": (1, _INT64, _ONE), "float_vector": (2, _MESSAGE, _ONE, "Floats")},
    "FieldData": {
        "type": (1, _INT32, _ONE),
        "field_name": (2, _STRING, _ONE),
        "scalars": (3, _MESSAGE, _ONE, "ScalarField"),
        "vectors": (4, _MESSAGE, _ONE, "VectorField"),
        "field_id": (5, _INT64, _ONE),
    },
    "InsertRequest": {
        "base": (1, _MESSAGE, _ONE, "MsgBase"),
        "shardName": (2, _STRING, _ONE),
        "collection_name": (4, _STRING, _ONE),
        "partition_name": (5, _STRING, _ONE),
        "collectionID": (7, _INT64, _ONE),
        "partitionID": (8, _INT64, _ONE),
        "timestamps": (10, _UINT64, _MANY),
        "rowIDs": (11, _INT64, _MANY),
        "fields_data": (13, _MESSAGE, _MANY, "FieldData"),
        "num_rows": (14, _UINT64, _ONE),
        "version": (15, _INT32, _ONE),
    },
}


def insert_request() -> Any:
    """Return the class of an insert message."""
    described, pools, factory = (
        import_module(f"google.protobuf.{name}") for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    file = described.FileDescriptorProto(name="benchmark_milvus.proto", package="benchmark", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, label, *of) in fields.items():
            made = message.field.add(name=field, number=number, type=kind, label=label)
            if of:
                made.type_name = f".benchmark.{of[0]}"
    pool = pools.DescriptorPool()
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("benchmark.InsertRequest"))
