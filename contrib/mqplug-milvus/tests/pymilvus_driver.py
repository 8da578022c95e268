"""Makes collections of every field type in a Milvus, changes them, and writes what its queries answer as JSON.

A program for an environment of its own: pymilvus 2.3 needs an older gRPC than the other tests have.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from urllib.parse import urlsplit

from pymilvus import Collection, CollectionSchema, DataType, FieldSchema, connections, utility

ROWS = 5000
AT_ONCE = 500
DIM = 16
ELEMENTS = {
    "bools": (DataType.BOOL, lambda i: [i % 2 == 0, i % 3 == 0]),
    "tinies": (DataType.INT8, lambda i: [i % 256 - 128, -1]),
    "smalls": (DataType.INT16, lambda i: [-i]),
    "wholes": (DataType.INT32, lambda i: [i * 65536 % 2**31, -i]),
    "bigs": (DataType.INT64, lambda i: [i - 2**62, 2**62 - i][: i % 3]),
    "reals": (DataType.FLOAT, lambda i: [i / 4, -0.0]),
    "exacts": (DataType.DOUBLE, lambda i: [i / 3, 1e300]),
    "words": (DataType.VARCHAR, lambda i: [f"ü{i}", ""]),
}


def scalar_fields():
    """Return a field of each type of 2.3.5 that is no vector."""
    kinds = {
        "flag": DataType.BOOL,
        "tiny": DataType.INT8,
        "small": DataType.INT16,
        "whole": DataType.INT32,
        "big": DataType.INT64,
        "real": DataType.FLOAT,
        "exact": DataType.DOUBLE,
        "doc": DataType.JSON,
    }
    fields = [FieldSchema(name, kind) for name, kind in kinds.items()]
    fields.append(FieldSchema("name", DataType.VARCHAR, max_length=64))
    for name, (kind, _) in ELEMENTS.items():
        more = {"max_length": 16} if kind == DataType.VARCHAR else {}
        fields.append(FieldSchema(name, DataType.ARRAY, element_type=kind, max_capacity=4, **more))
    return fields


def scalars(i, version):
    """Return the values of those fields, and two keys outside the schema."""
    arrays = {name: make(i) for name, (_, make) in ELEMENTS.items()}
    return {
        "flag": i % 2 == 0,
        "tiny": i % 256 - 128,
        "small": i % 65536 - 32768,
        "whole": i * 65536 % 2**32 - 2**31,
        "big": i * 2**40 - 2**62,
        "real": i / 8,
        "exact": i / 3,
        "doc": {"i": i, "deep": [version, None, {"ü": True}]},
        "name": f"n{i}-{version}",
        **arrays,
        "outside": f"ö{i}",
        **({"sometimes": [i, {"x": None}]} if i % 3 == 0 else {}),
    }


def made(name, fields, index, **options):
    """Return a new collection with an index."""
    schema = CollectionSchema(fields, enable_dynamic_field=True)
    collection = Collection(name, schema, consistency_level="Strong", **options)
    kind, metric = index
    vector = next(each.name for each in fields if each.dtype in {DataType.FLOAT_VECTOR, DataType.BINARY_VECTOR})
    collection.create_index(vector, {"index_type": kind, "metric_type": metric, "params": {}})
    return collection


def numbers():
    """A float vector, integer keys, and named partitions, of which one is dropped."""
    key = FieldSchema("pk", DataType.INT64, is_primary=True)
    vector = FieldSchema("vec", DataType.FLOAT_VECTOR, dim=DIM)
    collection = made("numbers", [key, vector, *scalar_fields()], ("FLAT", "L2"), num_shards=2)
    for name in ("second", "third"):
        collection.create_partition(name)

    def row(i, version=0):
        draw = random.Random(f"{i} {version}")
        return {"pk": i, "vec": [draw.random() for _ in range(DIM)], **scalars(i, version)}

    for number, first in enumerate(range(0, ROWS, AT_ONCE)):
        partition = (None, "second", "third")[number % 3]
        collection.insert([row(i) for i in range(first, first + AT_ONCE)], partition_name=partition)
    collection.upsert([row(i, 1) for i in range(300)])  # they lie in the default partition already
    collection.delete(f"pk in {list(range(200, 400))}")
    collection.insert([row(i, 2) for i in range(250, 260)])  # once more, after the delete
    collection.drop_partition("third")
    return collection, "pk >= 0"


def texts():
    """A binary vector, texts as keys, and a partition key."""
    key = FieldSchema("pk", DataType.VARCHAR, is_primary=True, max_length=32)
    part = FieldSchema("part", DataType.INT64, is_partition_key=True)
    vector = FieldSchema("bits", DataType.BINARY_VECTOR, dim=DIM)
    collection = made("texts", [key, part, vector, *scalar_fields()], ("BIN_FLAT", "HAMMING"), num_partitions=4)

    def row(i, version=0):
        return {"pk": f"k{i}", "part": i % 7, "bits": bytes([i % 256, version]), **scalars(i, version)}

    for first in range(0, ROWS, AT_ONCE):
        collection.insert([row(i) for i in range(first, first + AT_ONCE)])
    collection.upsert([row(i, 1) for i in range(300)])
    collection.delete(f"pk in {json.dumps([f'k{i}' for i in range(200, 400)])}")
    return collection, "part >= 0"


def gone():
    """A collection that is dropped."""
    fields = [
        FieldSchema("pk", DataType.INT64, is_primary=True, auto_id=True),
        FieldSchema("vec", DataType.FLOAT_VECTOR, dim=2),
    ]
    collection = Collection("gone", CollectionSchema(fields))
    collection.insert([[[1.0, 2.0], [3.0, 4.0]]])
    utility.drop_collection("gone")


def answers(collection, everything):
    """Return what the query answers: each row with the fields, and the keys outside the schema.

    pymilvus puts each binary vector into a list of its own.
    """
    collection.load()
    names = [field.name for field in collection.schema.fields]
    rows = collection.query(everything, output_fields=[*names, "outside", "sometimes"])
    return [plain({**row, **({"bits": row["bits"][0]} if "bits" in row else {})}) for row in rows]


def plain(value):
    """Return a value as JSON has it: bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple) or type(value).__name__.startswith("Repeated"):
        return [plain(each) for each in value]
    return value.item() if hasattr(value, "item") else value


def main(address, out):
    """Make all collections, and write the rows of each."""
    place = urlsplit(address)
    connections.connect(host=place.hostname, port=str(place.port), timeout=60)
    found = {collection.name: answers(collection, everything) for collection, everything in (numbers(), texts())}
    gone()
    Path(out).write_text(json.dumps({**found, "gone": []}))


if __name__ == "__main__":
    main(*sys.argv[1:])
