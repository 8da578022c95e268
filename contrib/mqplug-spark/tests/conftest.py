"""What several test modules need: a memory backend, one Spark for the whole run, and backends that Spark can reach."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

import mqplug

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@attrs.frozen
class Cluster:
    """A backend: where it is, and a client of it."""

    url: str
    client: mqplug.Client


@pytest.fixture(scope="session", autouse=True)
def sockets() -> Iterator[None]:
    """The sockets of RocksMQ owners that tests kill go with the run. The path has to be short, so it is no tmp_path."""
    with tempfile.TemporaryDirectory(prefix="mq-") as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """The memory store ``orders`` with a topic ``orders`` of two partitions, empty."""
    with mqplug.connect("memory://orders") as client:
        client.create_topic("orders", partitions=2)
        yield client
        client.delete_topic("orders")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session on two threads. Without Java a skip; where the variable CI is ``true``, a failure."""
    _need_java()
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").config(map=SETTINGS)
        builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        session = builder.getOrCreate()
        yield session
        session.stop()


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and (Path(home) / "bin" / "java").is_file()):
        return
    reason = "Spark needs Java 17 or newer, and there is none: install one, or set JAVA_HOME"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session", params=["rocksmq", "kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A RocksMQ store that this process owns, and a real Kafka."""
    if request.param == "rocksmq":
        url = f"rocksmq://{tmp_path_factory.mktemp('rocksmq')}"
    else:
        url = request.getfixturevalue("kafka_server").url
    with mqplug.connect(url) as client:
        yield Cluster(url, client)
