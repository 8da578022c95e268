"""What a task tells the driver of its write."""

from __future__ import annotations

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from mqplug import Staged
from mqplug_spark._options.write_options import WriteMark


@attrs.frozen
class WrittenByTask(WriterCommitMessage):
    """The number of rows, and what is staged of them: the driver ingests that under the mark.

    ``execution`` is that of a write whose tasks have committed under marks.
    """

    rows: int
    mark: WriteMark
    staged: tuple[Staged, ...] = ()
    execution: str | None = None
