"""What goes wrong on Spark says so when the data frame is made or planned, in words of mqplug, without secrets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(180)  # the first test that asks for Spark starts it


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_an_unknown_option_is_refused_before_any_query(spark: SparkSession) -> None:
    """A misspelt option fails load(), and the error names the good one."""
    reader = spark.read.format("mqplug").option("url", "kafka://localhost").option("subscribe", "orders")
    with pytest.raises(PySparkException, match="Did you mean 'startingOffsets'"):
        reader.option("startingOffset", "latest").load()


def test_memory_is_refused_when_the_read_is_planned(spark: SparkSession) -> None:
    """The memory backend is Unsupported, with the reason."""
    frame = spark.read.format("mqplug").option("url", "memory://shared").option("topic", "orders").load()
    with pytest.raises(PySparkException, match=r"Unsupported.*Spark's tasks run in others"):
        frame.collect()


def test_a_password_is_never_shown(spark: SparkSession, silent_port: int) -> None:
    """The error of a broker that is not there does not show the URL's password; nor does the plan."""
    url = f"kafka://me:hunter2@127.0.0.1:{silent_port}"
    frame = spark.read.format("mqplug").option("url", url).option("topic", "orders").load()
    with pytest.raises(PySparkException, match="mqplug") as refused:
        frame.collect()
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in frame._jdf.queryExecution().toString()  # type: ignore[operator]
