"""A streaming read as PySpark 4.2 and newer call it: with limits, and with ``availableNow``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from mqplug_spark._errors import cut_short
from mqplug_spark._stream_read.reader import StreamReader
from mqplug_spark._stream_read.stream_offsets import StoredOffset, StreamOffset


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Plans batches within limits. Spark names the limit, or none where its trigger takes all at once."""

    knows_starts = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the options. Spark knows no pair: with both, the least is applied here."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @cut_short
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the end of all that is stored: the query reads up to it, and ends."""
        self._progress.set_target()

    @cut_short
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> StoredOffset:  # noqa: N802
        """Return the end of the next batch, which is ``start`` if there is none now."""
        reached = StreamOffset.from_stored(start)
        self._progress.processed(reached)
        limited = not isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._progress.next(reached, most=most, limited=limited).to_store()

    def reportLatestOffset(self) -> StoredOffset | None:  # noqa: N802
        """Return the end of all that was stored when the last batch was planned, for the progress of the query."""
        end = self._progress.seen
        return None if end is None else end.to_store()
