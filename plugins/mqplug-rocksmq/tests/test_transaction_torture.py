"""Programs that consume, transform and produce in transactions are killed at random: each input counts exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from rocksmq_stores import eventually, line, nightly
from transaction_drivers import read

import mqplug
from mqplug import Record

WORKER = Path(__file__).parent / "transaction_worker.py"


@pytest.mark.parametrize(
    ("workers", "kills", "inputs"),
    [(2, 3, 1500), *nightly((1, 8, 4000), (3, 8, 4000))],
)
def test_each_input_is_in_the_output_exactly_once(path: Path, workers: int, kills: int, inputs: int) -> None:
    """While workers and the store's owner are killed, no input is lost, and none is in the output twice."""
    chance = random.Random(workers)
    values = [b"%d" % each for each in range(inputs)]
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("in", partitions=3)
        for topic in ("out", "audit"):
            mq.create_topic(topic, partitions=2)
        with mq.producer("in") as out:
            out.send_many([Record(value, partition=each % 3) for each, value in enumerate(values)])
    running = [start(path, each, 0) for each in range(workers)]
    busy = 0
    try:
        for kill in range(kills):
            victim = chance.randrange(workers)
            busy += is_at_work(running[victim])
            time.sleep(chance.uniform(0, 0.2))  # the moment is random on purpose
            stop(running[victim])
            running[victim] = start(path, victim, kill + 1)
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            eventually(lambda: sum(mq.lag("in", group="copiers").values()) == 0, 90)
    finally:
        for worker in running:
            stop(worker)
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        counted = Counter(read(mq, "out") + read(mq, "audit"))
    assert busy
    assert [value for value, times in counted.items() if times > 1] == []
    assert set(counted) == set(values)


def start(path: Path, number: int, seed: int) -> subprocess.Popen[str]:
    """Start a worker with its own transaction name."""
    command = [sys.executable, str(WORKER), str(path), f"worker-{number}", str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def is_at_work(worker: subprocess.Popen[str]) -> bool:
    """Wait until a worker has copied something. Return False if it finds nothing to copy."""
    return any(line(worker) != "0" for _ in range(5))


def stop(worker: subprocess.Popen[str]) -> None:
    """Kill a worker."""
    worker.kill()
    worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()
