"""A peculiarity of RocksMQ: one process owns a store, and that process may die."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from spark_options import options

import mqplug
from mqplug_spark._batch_read import plan_ranges
from mqplug_spark._clients import drop_client, process_client
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._ranges.task_rows import read_planned

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
        with mqplug.connect(url) as mq:
            (planned,) = plan_ranges(mq, options())
        backend = BackendSettings(url=url)
        batches = read_planned(partial(process_client, backend), partial(drop_client, backend), planned, options())
        values = list(next(batches).values)
        owner.kill()
        owner.wait()
        values += [value for batch in batches for value in batch.values]
        drop_client(backend)
    assert values == [str(number).encode() for number in range(60_000)]
