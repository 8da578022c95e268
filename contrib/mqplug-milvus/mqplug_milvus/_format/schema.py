"""Milvus' schemas of collections."""

from __future__ import annotations

from enum import IntEnum

import attrs

from mqplug_milvus._format.wire import FormatError, Message


class DataType(IntEnum):
    """The type of a field, with Milvus' number."""

    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT = 10
    DOUBLE = 11
    STRING = 20
    VARCHAR = 21
    ARRAY = 22
    JSON = 23
    BINARY_VECTOR = 100
    FLOAT_VECTOR = 101
    FLOAT16_VECTOR = 102
    BFLOAT16_VECTOR = 103
    SPARSE_FLOAT_VECTOR = 104
    INT8_VECTOR = 105


FIRST_FIELD = 100  # those before are Milvus' own: row ids and time stamps


def data_type(number: int, name: str) -> DataType:
    """Return a field's type. Raise ``FormatError`` if this version does not read it."""
    try:
        return DataType(number)
    except ValueError:
        raise FormatError(
            f"the field {name!r} has the type {number}, which is newer than what is read here",
            fix="Upgrade mqplug-milvus, or leave the field out of the collection",
        ) from None


@attrs.frozen
class Field:
    """A field of a collection."""

    name: str
    id: int
    type: DataType
    is_primary: bool = False
    is_dynamic: bool = False
    is_partition_key: bool = False
    auto_id: bool = False
    nullable: bool = False
    element_type: DataType | None = None
    """The type of an array's elements."""
    dim: int | None = None
    """The number of a vector's dimensions."""

    @classmethod
    def read(cls, message: Message) -> Field:
        """Return a field's description."""
        name = message.text(2)
        parameters = {each.text(1): each.text(2) for each in map(Message, message.each(6))}
        element = message.unsigned(10)
        return cls(
            name=name,
            id=message.integer(1),
            type=data_type(message.unsigned(5), name),
            is_primary=message.flag(3),
            is_dynamic=message.flag(12),
            is_partition_key=message.flag(13),
            auto_id=message.flag(8),
            nullable=message.flag(15),
            element_type=data_type(element, name) if element else None,
            dim=int(parameters["dim"]) if parameters.get("dim", "").isdecimal() else None,
        )


@attrs.frozen
class Schema:
    """The fields of a collection."""

    collection: str
    fields: tuple[Field, ...]

    @classmethod
    def read(cls, message: Message) -> Schema:
        """Return a collection's schema."""
        fields = (Field.read(Message(each)) for each in message.each(4))
        return cls(message.text(1), tuple(each for each in fields if each.id >= FIRST_FIELD))

    @property
    def primary(self) -> Field:
        """The field of the primary key."""
        for field in self.fields:
            if field.is_primary:
                return field
        raise FormatError(f"the schema of {self.collection!r} has no primary key")
