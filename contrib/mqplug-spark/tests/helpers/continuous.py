"""Queries that run until they are stopped, on every PySpark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def process_all(begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Let a query process everything, then stop and return it.

    Restart it if Spark's own start-up took longer than the ten seconds that Spark allows a source's process.
    """
    while True:
        query = begin()
        try:
            query.processAllAvailable()
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return query
        finally:
            query.stop()
