"""Makes records from lines, envelopes and templates, following the options of ``produce``."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, cast
from uuid import uuid4

import mqplug
from mqplug_cli._messages.envelopes import BadEnvelope, record_of
from mqplug_cli._messages.sending import Block

_FIELD = re.compile(r"\{\{ *([a-z]+)(?: +([0-9]+))? *\}\}")
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"
MAX_RANDOM: Final = 1_000_000

TEMPLATE_HELP: Final = (
    "{{n}} the number of the message from 1, {{time}} the time in UTC, {{ms}} milliseconds since 1970, {{uuid}} a "
    "random UUID, {{random 16}} 16 random letters and digits"
)


class Template:
    """A text with fields. ``fill`` returns the bytes for one message."""

    def __init__(self, text: str) -> None:
        """Raise ``ValueError`` for an unknown field."""
        self._parts: list[bytes | Callable[[int], bytes]] = []
        end = 0
        for found in _FIELD.finditer(text):
            self._parts += [_encoded(text[end : found.start()]), _field(found)]
            end = found.end()
        self._parts.append(_encoded(text[end:]))

    def fill(self, number: int) -> bytes:
        """Return the bytes for the message with this number."""
        return b"".join(part if isinstance(part, bytes) else part(number) for part in self._parts)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # an argument may hold any bytes


def _field(found: re.Match[str]) -> Callable[[int], bytes]:
    name, size = found[1], found[2]
    if name == "random" and size is not None and 0 < int(size) <= MAX_RANDOM:
        return lambda _: bytes(random.choices(_LETTERS, k=int(size)))  # noqa: S311  no secret
    if name not in _FIELDS or size is not None:
        raise ValueError(f"unknown field {found[0]}; expected one of {TEMPLATE_HELP}")
    return _FIELDS[name]


_FIELDS: Mapping[str, Callable[[int], bytes]] = {
    "n": lambda number: b"%d" % number,
    "time": lambda _: datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").encode(),
    "ms": lambda _: b"%d" % (time.time_ns() // 1_000_000),
    "uuid": lambda _: str(uuid4()).encode(),
}


Texts = Sequence[tuple[str, Callable[[int], bytes]]]
"""Names of headers, each with a function from the number of a message to its value."""


class RecordMaker:
    """Makes the records of inputs. ``refuse`` is called with the number of an invalid input, and the reason."""

    def __init__(
        self,
        refuse: Callable[[int, str], None],
        *,
        envelopes: bool = False,
        partitions: int | None = None,
        keeps_partition: bool = True,
        separator: bytes | None = None,
        empty_is_null: bool = False,
        key: Callable[[int], bytes] | None = None,
        headers: Texts = (),
        partition: int | None = None,
    ) -> None:
        self._refuse = refuse
        self._envelopes = envelopes
        self._partitions = partitions
        self._keeps_partition = keeps_partition and partition is None
        self._separator = separator
        self._empty_is_null = empty_is_null
        self._key = key
        self._headers = headers
        self._partition = partition
        self._adds = not (key is None and not headers and partition is None)
        self._plain = not (envelopes or empty_is_null or self._adds or separator is not None)

    def block(self, inputs: Sequence[bytes], first: int, size: int) -> Block:
        """Return the records of inputs numbered from ``first``."""
        numbers = range(first, first + len(inputs))
        if self._plain:
            return Block(inputs, numbers, size)
        records: list[mqplug.Record | bytes] = []
        good: list[int] = []
        for number, line in zip(numbers, inputs, strict=True):
            try:
                records.append(self._record(line, number))
            except BadEnvelope as error:
                self._refuse(number, str(error))
            else:
                good.append(number)
        return Block(records, good, size)

    def _record(self, line: bytes, number: int) -> mqplug.Record:
        record = self._of_envelope(line) if self._envelopes else self._of_line(line)
        if self._adds:
            self._add(record, number)
        return record

    def _of_line(self, line: bytes) -> mqplug.Record:
        value: bytes | None = line
        key: bytes | None = None
        if self._separator is not None:
            before, found, after = line.partition(self._separator)
            if found:
                key, value = before, after
        if self._empty_is_null:
            key, value = key or None, value or None
        return mqplug.Record(value, key=key)

    def _of_envelope(self, line: bytes) -> mqplug.Record:
        record = record_of(line, keeps_partition=self._keeps_partition)
        if record.partition is not None and self._partitions is not None and record.partition >= self._partitions:
            raise BadEnvelope(
                f"unknown partition {record.partition}; the topic has 0 to {self._partitions - 1}. "
                f"--repartition chooses among these"
            )
        return record

    def _add(self, record: mqplug.Record, number: int) -> None:
        if self._key is not None:
            record.key = self._key(number)
        if self._headers:
            own = cast("Iterable[tuple[str, bytes | None]]", record.headers)  # an envelope has pairs
            record.headers = (*own, *((name, make(number)) for name, make in self._headers))
        if self._partition is not None:
            record.partition = self._partition
