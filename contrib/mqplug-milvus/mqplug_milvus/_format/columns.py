"""A column of inserted rows: the values of one field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import attrs

from mqplug_milvus._format.schema import DataType, data_type
from mqplug_milvus._format.wire import FormatError, Message, decoded

BOOLS, INTS, LONGS, FLOATS, DOUBLES, TEXTS, BYTES, ARRAYS, JSONS = range(1, 10)
_FLOAT_VECTOR, _SPARSE = 2, 6
VECTOR_BYTES: Final[
    dict[int, Callable[[int], int]]
] = {  # how many bytes a vector of so many dimensions takes, by the field that holds it
    3: lambda dim: dim // 8,
    4: lambda dim: 2 * dim,
    5: lambda dim: 2 * dim,
    7: lambda dim: dim,
}

_SCALARS: Final[dict[int, Callable[[Message], list[Any]]]] = {
    BOOLS: lambda values: [value != 0 for value in values.unsigned_each(1)],
    INTS: lambda values: values.integers(1),
    LONGS: lambda values: values.integers(1),
    FLOATS: lambda values: values.floats(1, "f").tolist(),
    DOUBLES: lambda values: values.floats(1, "d").tolist(),
    TEXTS: lambda values: [decoded(each) for each in values.each(1)],
    BYTES: lambda values: [bytes(each) for each in values.each(1)],
    ARRAYS: lambda values: [scalars(Message(each)) for each in values.each(1)],
    JSONS: lambda values: [_json(each) for each in values.each(1)],
}


def scalars(message: Message) -> list[Any]:
    """Return the values of a column of scalars, or of one array."""
    for kind, read in _SCALARS.items():
        if kind in message:
            return read(message.message(kind))
    return []


def _json(data: memoryview) -> Any:
    if not data:
        return {}
    try:
        return json.loads(bytes(data))
    except ValueError as error:
        raise FormatError(f"a JSON value is damaged: {error}") from None


@attrs.frozen
class Column:
    """The values of one field, in the order of the rows."""

    name: str
    """Its name; ``$meta`` for the keys that are not in the schema."""
    field_id: int
    type: DataType
    is_dynamic: bool
    """Whether it holds the keys of each row that are not in the schema, as JSON."""
    dim: int | None
    """The number of a vector's dimensions."""
    rows: int
    _message: Message = attrs.field(repr=False)

    @classmethod
    def read(cls, message: Message, rows: int) -> Column:
        """Return the column of a message."""
        is_dynamic, name = message.flag(6), message.text(2)
        kind = data_type(message.unsigned(1), name)
        dim = message.message(4).integer(1) if 4 in message else None
        return cls(name or "$meta", message.integer(5), kind, is_dynamic or not name, dim, rows, message)

    def values(self) -> list[Any]:
        """Return the values: Python's own, lists of floats for vectors, bytes for vectors of other numbers."""
        found = self._vectors() if self.dim is not None else scalars(self._message.message(3))
        valid = self.valid()
        if valid is not None and len(found) == sum(valid) < self.rows:  # absent values take no place
            filled = iter(found)
            found = [next(filled) if each else None for each in valid]
        if len(found) != self.rows:
            raise FormatError(f"the column {self.name!r} has {len(found)} values for {self.rows} rows")
        return found if valid is None else [each if good else None for each, good in zip(found, valid, strict=True)]

    def valid(self) -> list[bool] | None:
        """Return which rows have a value; None if all have."""
        if 7 not in self._message:
            return None
        valid = [value != 0 for value in self._message.unsigned_each(7)]
        if len(valid) != self.rows:
            raise FormatError(f"the column {self.name!r} has {len(valid)} marks for {self.rows} rows")
        return valid

    def _vectors(self) -> list[Any]:
        vectors, dim = self._message.message(4), self.dim or 0
        if _FLOAT_VECTOR in vectors:
            numbers = vectors.message(_FLOAT_VECTOR).floats(1, "f").tolist()
            return [numbers[at : at + dim] for at in range(0, len(numbers), dim or 1)]
        if _SPARSE in vectors:
            return [bytes(each) for each in vectors.message(_SPARSE).each(1)]
        for kind, size in VECTOR_BYTES.items():
            if kind in vectors:
                data, width = vectors.data(kind), size(dim)
                return [bytes(data[at : at + width]) for at in range(0, len(data), width or 1)]
        return []
