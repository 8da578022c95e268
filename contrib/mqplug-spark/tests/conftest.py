"""Fixtures of all tests: a memory backend, one Spark session and real backends."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from clusters import SERVERS, Cluster, new_name
from peers import Peer
from spark_options import drop_client_of

import mqplug
from mqplug_spark import MqplugDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqplug_devbrokers import KafkaServer

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # fast start for a short session
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.eventLog.compress": "false",
    "spark.eventLog.enabled": "true",
    "spark.ui.port": "0",
}


@pytest.fixture(scope="session", autouse=True)
def sockets() -> Iterator[None]:
    """Remove sockets of killed RocksMQ owners after the run. A tmp_path would be too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="mq-") as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """The memory store ``orders`` with an empty topic ``orders`` of two partitions."""
    with mqplug.connect("memory://orders") as client:
        client.create_topic("orders", partitions=2)
        yield client
        client.delete_topic("orders")


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Cluster]:
    """A RocksMQ store of this test, with an empty topic ``orders`` of two partitions."""
    url = f"rocksmq://{tmp_path / 'store'}"
    with mqplug.connect(url) as client:
        client.create_topic("orders", partitions=2)
        yield Cluster(url, client)
        drop_client_of(url)


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session on two threads, or as ``tests/deploying/test_sessions.py`` sets in the environment."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        if "MQPLUG_SPARK_REMOTE" in os.environ:
            builder = SparkSession.builder.remote(os.environ["MQPLUG_SPARK_REMOTE"])
        else:
            builder = SparkSession.builder.master(os.environ.get("MQPLUG_SPARK_MASTER", "local[2]"))
            builder = builder.config(map=SETTINGS)
            builder = builder.config("spark.eventLog.dir", str(tmp_path_factory.mktemp("events")))
            builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            builder = builder.config("spark.jars", ",".join(map(str, _connector_jars())))
        session = builder.getOrCreate()
        if "MQPLUG_SPARK_BUNDLE" in os.environ:
            session.addArtifacts(os.environ["MQPLUG_SPARK_BUNDLE"], pyfile=True)
            session.dataSource.register(MqplugDataSource)
        yield session
        session.stop()


@pytest.fixture(scope="session")
def java() -> None:
    """Require Java for Spark: skip without it, or fail if the variable CI is ``true``."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and (Path(home) / "bin" / "java").is_file()):
        return
    reason = "Spark needs Java 17 or newer, and there is none: install one, or set JAVA_HOME"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def _connector_jars() -> list[Path]:
    """Return the jars of Spark's own connector for Kafka: none without Maven, or a failure if CI is ``true``.

    They are built for PySpark 4.2, and work with newer versions.
    """
    from mqplug_devbrokers import MissingTool, spark_kafka_jars

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
        return []
    try:
        return spark_kafka_jars()
    except MissingTool:
        if os.environ.get("CI", "").lower() == "true":
            raise
        return []


@pytest.fixture(scope="session")
def peer(spark: SparkSession, shared_kafka: KafkaServer) -> Peer:
    """The same Kafka read and written by mqplug and by spark-sql-kafka."""
    if not _connector_jars() or "MQPLUG_SPARK_REMOTE" in os.environ:
        pytest.skip("no spark-sql-kafka to compare with: it needs Maven, PySpark 4.2, and a session of this process")
    return Peer(spark, shared_kafka.url, shared_kafka.bootstrap)


@pytest.fixture(scope="session", params=["rocksmq", *(pytest.param(each, marks=pytest.mark.night) for each in SERVERS)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a RocksMQ store that this process owns, a real Kafka and a real Pulsar, each for one run of the test.

    By day only the store. The mark ``over`` from ``clusters`` chooses others, for operations that some backends do not
    support, and for tests that run over Kafka and Pulsar by day too.
    """
    if request.param == "rocksmq":
        url = f"rocksmq://{tmp_path_factory.mktemp('rocksmq')}"
    else:
        url = request.getfixturevalue(f"shared_{request.param}").url
    with mqplug.connect(url) as client:
        yield Cluster(url, client)


@pytest.fixture(scope="session")
def make_topic(cluster: Cluster) -> Callable[..., str]:
    """Return a function that creates a topic with a new name, and accepts the arguments of ``create_topic``."""

    def make(partitions: int = 2, **settings: object) -> str:
        name = new_name("orders")
        cluster.client.create_topic(name, partitions=partitions, **settings)  # type: ignore[arg-type]
        return name

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """An empty topic of two partitions."""
    return make_topic()
