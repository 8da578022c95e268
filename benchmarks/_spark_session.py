"""A Spark session for the contests: two cores, the connector's jars, and a place for the sides' output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from benchmarks._constant_source import ConstantSource
from mqplug_devbrokers import spark_kafka_jars

_SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_TOP = str(Path(__file__).parent.parent)  # Spark's Python processes import the constant source from there


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Yield a session on two threads, with the constant source and spark-sql-kafka."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_TOP, os.environ.get("PYTHONPATH")]))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with TemporaryDirectory(prefix="spark-") as folder:
        builder = SparkSession.builder.master("local[2]").config(map=_SETTINGS)
        builder = builder.config("spark.jars", ",".join(map(str, spark_kafka_jars())))
        session = builder.config("spark.sql.warehouse.dir", folder).getOrCreate()
        session.dataSource.register(ConstantSource)
        try:
            yield session
        finally:
            session.stop()
