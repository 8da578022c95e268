"""Received messages as columns that the compiled part has filled. Bytes are copied out of them when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self, cast

from mqplug.spi import Headers, Numbers
from mqplug_pulsar._consume.entry_runs import EntryRun
from mqplug_pulsar._format.escapes import headers_from_properties, key_from_text, with_schema_version
from mqplug_pulsar_native import ODD_HEADERS, ODD_KEY, Rows

if TYPE_CHECKING:
    import pyarrow


class NativeRows:
    """Messages of one partition, in order, that were never Python objects."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def only(self, numbers: Sequence[int]) -> Self:
        """Return these rows."""
        return type(self)(self._rows.only(numbers))

    @cached_property
    def runs(self) -> list[EntryRun]:
        """These messages by entry."""
        return [EntryRun(*run) for run in self._rows.runs()]

    @property
    def behind(self) -> Numbers:
        """The position behind the last message."""
        return self.runs[-1].behind

    def coordinates(self) -> Sequence[Numbers]:
        return self._rows.coordinates()

    def details(self) -> Sequence[Numbers]:
        return self._rows.details()

    def keys(self) -> Sequence[bytes | None]:
        keys = self._rows.keys()
        if self._rows.any & ODD_KEY:
            return [key_from_text(key) if isinstance(key, str) else key for key in keys]
        return cast("list[bytes | None]", keys)

    def values(self) -> Sequence[bytes | None]:
        return self._rows.values()

    def headers(self) -> Sequence[Headers]:
        found = self._rows.headers()
        if not self._rows.any & ODD_HEADERS:
            return cast("list[Headers]", found)
        versions = self._numbers("schema_version", "q")
        return [
            with_schema_version(headers_from_properties(each), version) if isinstance(each, dict) else each
            for each, version in zip(found, versions, strict=True)
        ]

    def timestamps(self) -> Sequence[int]:
        return self._numbers("timestamp", "Q")

    def log_times(self) -> Sequence[int]:
        return self._numbers("published", "Q")

    def attempts(self) -> Sequence[int]:
        return self._numbers("attempt", "i")

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        from mqplug_pulsar._consume import native_arrow

        return native_arrow.arrays(self._rows, names)

    def _numbers(self, column: str, kind: str) -> list[int]:
        numbers: list[int] = memoryview(self._rows.buffer(column)).cast("B").cast(kind).tolist()  # type: ignore[call-overload]
        return numbers
