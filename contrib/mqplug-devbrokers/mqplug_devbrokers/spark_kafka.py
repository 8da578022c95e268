"""The jars of Spark's own Kafka connector, spark-sql-kafka, for tests and benchmarks that compare with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._checksums import check_jars
from mqplug_devbrokers._tools import maven

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "4.2.0"  # the newest that Maven Central has; Spark 4.3 takes it too
_NAME = f"spark-kafka-{VERSION}"


def spark_kafka_jars() -> list[Path]:
    """Return the jars of the connector for Spark's setting `spark.jars`, downloaded on demand."""
    jars = provide(_NAME, _download)
    check_jars(jars, _NAME)
    return sorted(jars.glob("*.jar"))


def _download(folder: Path) -> None:
    maven("spark-kafka-pom.xml", VERSION, "dependency:copy-dependencies", folder)
    check_jars(folder, _NAME)
