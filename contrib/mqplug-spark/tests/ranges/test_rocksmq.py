"""A peculiarity of RocksMQ: one process owns a store, and that process may die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from queries import SCHEMA, rows_of
from spark_options import drop_client_of

from mqplug_spark import MqplugDataSource

OWNER = """
import sys, mqplug
with mqplug.connect(sys.argv[1]) as mq:
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        for start in range(0, 60_000, 1_000):
            out.send_many([mqplug.Record(str(number).encode()) for number in range(start, start + 1_000)])
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_the_owner_of_a_store_dies_while_it_is_read(tmp_path: Path) -> None:
    """A task continues where it was if the process that serves it is killed: nothing is lost or repeated."""
    url = f"rocksmq://{tmp_path}"
    command = [sys.executable, "-c", OWNER, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        reader = MqplugDataSource({"url": url, "subscribe": "orders"}).reader(SCHEMA)
        (planned,) = reader.partitions()
        batches = reader.read(planned)
        rows = rows_of(next(batches))
        owner.kill()
        owner.wait()
        rows += [row for batch in batches for row in rows_of(batch)]
        drop_client_of(url)
    assert [number for _, _, number in rows] == list(range(60_000))
