"""Download the needs of the environments with servers, in parallel: PySpark, built as a wheel, and the servers' jars.

Usage: python .ci/fetch.py FOLDER, for the wheel. Each server starts and stops once, which writes the archive of its
classes, so that later starts are fast. Without Java or Maven there are no servers, and the tests report it.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from mqplug_devbrokers import BrokerError, KafkaServer, MissingTool, PulsarServer, spark_kafka_jars


def main(folder: str) -> None:
    """Download everything; a failure of pip ends the run."""
    with ThreadPoolExecutor() as threads:
        spark = threads.submit(build_pyspark, folder)
        servers = threads.submit(start_servers)
        spark.result()
        servers.result()


def build_pyspark(folder: str) -> None:
    """Build PySpark, which is published only as source."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-cache-dir", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*command, "pyspark>=4.1"], check=True)


def start_servers() -> None:
    """Start and stop each server, and get the jars of Spark's own connector."""
    try:
        for server in (KafkaServer(), PulsarServer()):
            with server:
                server.stop()
        spark_kafka_jars()
    except (BrokerError, MissingTool) as error:  # the tests that need it fail, or are skipped
        print(error)


if __name__ == "__main__":
    main(sys.argv[1])
