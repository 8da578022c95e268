"""Makes the reader that this PySpark can call."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from mqplug import Unsupported
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._rows.columns import ReadColumns
from mqplug_spark._stream_read.admission import limits_of
from mqplug_spark._stream_read.reader import StreamReader, UnlimitedStreamReader

HAS_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None  # since PySpark 4.2


def make_stream_reader(options: ReadOptions, columns: ReadColumns) -> StreamReader:
    """Return a reader with limits, or where PySpark has none a reader without. Then raise for options that set one."""
    if HAS_LIMITS:
        from mqplug_spark._stream_read.limited_reader import LimitedStreamReader

        return LimitedStreamReader(options, columns)
    if limits := limits_of(options):
        raise Unsupported(
            "limits", f"{limits[0]} needs PySpark 4.2 or newer, which tells a source where a batch begins",
            fix=f"Use PySpark 4.2, or leave {' and '.join(limits)} out",
        )  # fmt: skip
    return UnlimitedStreamReader(options, columns)
