"""Arrow record batches from batches. Imported on first use; needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mqplug._model.errors import ConfigError, InvalidTimestamp
from mqplug._model.id_text import encode_texts

try:
    import pyarrow as pa
except ImportError as error:
    raise ConfigError("to_arrow() needs pyarrow", fix="Run pip install 'mqplug[arrow]'") from error

if TYPE_CHECKING:
    from mqplug._model.message import Rows

_TIME = pa.timestamp("ms", tz="UTC")  # the unit of logs, so that their times fit
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def to_record_batch(batch: Rows, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Return the chosen columns of a batch, or all of them."""
    chosen = list(_DEFAULT_MAKERS) if columns is None else list(columns)
    unknown = [name for name in chosen if name not in _MAKERS]
    if unknown:
        raise ValueError(f"unknown column {unknown[0]!r}; expected one of {', '.join(_MAKERS)}")
    ready = batch.arrow_columns(chosen)
    arrays = [ready[name] if name in ready else _MAKERS[name](batch) for name in chosen]
    return pa.record_batch(arrays, names=chosen)


def _offsets(batch: Rows) -> pa.Array:
    """Return the coordinate of each id if ids have one, otherwise nulls."""
    coordinates = batch.coordinates
    if any(len(numbers) != 1 for numbers in coordinates):
        return pa.nulls(len(batch), pa.int64())
    return pa.array([numbers[0] for numbers in coordinates], pa.int64())


def _ids(batch: Rows) -> pa.Array:
    """Return the text of each id. The head and its checksum are computed once."""
    if len(batch) == 0:
        return pa.array([], pa.string())
    details = batch.details if any(batch.details) else None
    return pa.array(encode_texts("m", batch.log, batch.coordinates, details), pa.binary()).cast(pa.string())


def _headers(batch: Rows) -> pa.Array:
    rows = batch.headers
    if not any(rows):
        nothing, offsets = pa.array([], _HEADERS.value_type), pa.py_buffer(bytes(4 * len(batch) + 4))
        return pa.Array.from_buffers(_HEADERS, len(batch), [None, offsets], children=[nothing])
    return pa.array([[{"key": name, "value": value} for name, value in row] for row in rows], _HEADERS)


def _times(milliseconds: Sequence[int], batch: Rows) -> pa.Array:
    try:
        return pa.array(milliseconds, pa.int64()).view(_TIME)
    except OverflowError:
        raise InvalidTimestamp(
            f"a message of {batch.log!r} has a time of {max(milliseconds)} ms since 1970, which Arrow cannot hold",
            milliseconds=max(milliseconds),
            topic=batch.log.topic,
            fix="Read the batch's timestamps, which hold any time, or omit the column from to_arrow",
        ) from None


def _same(value: Any, kind: pa.DataType, batch: Rows) -> pa.Array:
    rows = len(batch)
    return _repeated(value, kind, 1 << rows.bit_length()).slice(0, rows)


@lru_cache(maxsize=16)
def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Return the same value in each row. Most batches of a consumer share two such arrays: topic and partition."""
    return pa.repeat(pa.scalar(value, kind), rows)


_DEFAULT_MAKERS: dict[str, Callable[[Rows], pa.Array]] = {
    "key": lambda batch: pa.array(batch.keys, pa.binary()),
    "value": lambda batch: pa.array(batch.values, pa.binary()),
    "topic": lambda batch: _same(batch.log.topic, pa.string(), batch),
    "partition": lambda batch: _same(batch.log.partition, pa.int32(), batch),
    "offset": _offsets,
    "id": _ids,
    "headers": _headers,
    "timestamp": lambda batch: _times(batch.timestamps, batch),
    "log_time": lambda batch: _times(batch.log_times, batch),
    "attempt": lambda batch: pa.array(batch.attempts, pa.int32()),
}
_MAKERS: dict[str, Callable[[Rows], pa.Array]] = _DEFAULT_MAKERS | {
    "timestamp_type": lambda batch: pa.nulls(len(batch), pa.int32()),  # unless the driver provides it
}
