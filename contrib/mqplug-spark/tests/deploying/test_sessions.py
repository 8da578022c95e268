"""The same tests with executors in separate processes, and over Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from another_session import run_again
from waiting import wait_until

from mqplug_spark.bundle import write_bundle
from mqplug_testing import free_port

pytestmark = [pytest.mark.night, pytest.mark.timeout(900), pytest.mark.usefixtures("java")]

LOCAL_CLUSTER = "local-cluster[2,1,1024]"  # two executors with a core each, and 1024 MiB


def test_several_processes_on_a_local_cluster(tmp_path: Path) -> None:
    """Executors in separate processes share a store, whichever process owns it."""
    run_again("deploying/test_several_processes.py", tmp_path, MQPLUG_SPARK_MASTER=LOCAL_CLUSTER)


def test_spark_connect(tmp_path: Path) -> None:
    """A session that ``remote("local[2]")`` starts works like any other."""
    run_again("deploying/test_every_session.py", tmp_path, "-k", "not limits", MQPLUG_SPARK_REMOTE="local[2]")


def test_a_connect_server_that_has_no_mqplug(tmp_path: Path) -> None:
    """A client brings mqplug as a zip to a server and executors where it is not installed."""
    bundle = tmp_path / "mqplug.zip"
    write_bundle(bundle, ["mqplug-rocksmq"])
    with connect_server(tmp_path) as url:
        where = {"MQPLUG_SPARK_REMOTE": url, "MQPLUG_SPARK_BUNDLE": str(bundle)}
        run_again("deploying/test_every_session.py", tmp_path, "-k", "batch or error", **where)  # streams lack the zip


@contextmanager
def connect_server(scratch: Path) -> Iterator[str]:
    """Yield the URL of a Connect server on a local cluster, whose Python has mqplug's requirements, but not mqplug."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    home = Path(pyspark.__file__).parent
    command = [home / "bin/spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", LOCAL_CLUSTER, *(f"--conf={name}={text}" for name, text in settings.items())]
    # This environment's packages except editable ones, because their .pth files are not read there.
    python = {"PYSPARK_PYTHON": sys._base_executable, "PYTHONPATH": str(home.parent)}  # type: ignore[attr-defined]
    with (scratch / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=scratch, env={**os.environ, **python, "SPARK_LOCAL_IP": "127.0.0.1"}, stdout=log, stderr=log
        )
    try:
        started = scratch / "server.log"
        wait_until(lambda: "Spark Connect server started" in started.read_text() or server.poll() is not None, 300)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
