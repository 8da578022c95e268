"""A driver that is killed in the middle of a batch, and a batch that is repeated by different tasks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, new_name, over, send
from killed_processes import Program

HERE = Path(__file__).parent
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
}
ROWS = 1_000

pytestmark = [pytest.mark.night, pytest.mark.timeout(1200)]


class Query:
    """A query from a Spark source into a topic, continued by several programs."""

    def __init__(self, source: str, cluster: Cluster, folder: Path) -> None:
        self._source = source
        self._cluster = cluster
        self._folder = folder
        self.target = new_name("target")
        cluster.client.create_topic(self.target, partitions=2)
        self._topic = new_name("source")
        if source == "mqplug":
            cluster.client.create_topic(self._topic)
            send(cluster, self._topic, ROWS)
        for file in range(4):
            (folder / "files").mkdir(exist_ok=True)
            lines = "".join(f"{number}\n" for number in range(file * ROWS // 4, (file + 1) * ROWS // 4))
            (folder / "files" / f"{file}.txt").write_text(lines)

    def run(self, tasks: int, committed: int | None = None) -> str:
        """Run with this many tasks until everything is done or killed. Return the end of the error output."""
        options: dict[str, Any] = {
            "text": {},
            "rate-micro-batch": {"rowsPerBatch": ROWS},
            "mqplug": {
                "url": self._cluster.url, "subscribe": self._topic, "startingOffsets": "earliest",
                "minPartitions": tasks,
            },
        }  # fmt: skip
        task = {
            "source": self._source, "options": options[self._source], "folder": str(self._folder / "files"),
            "target": {"url": self._cluster.url, "topic": self.target}, "settings": SETTINGS, "committed": committed,
            "checkpoint": str(self._folder / "checkpoint"),
            "master": "local[4]" if self._source == "mqplug" else f"local[{tasks}]",
        }  # fmt: skip
        program = Program(self._folder, HERE / "killed_batch_program.py", json.dumps(task))
        try:
            status = program.wait()
        finally:
            program.kill()
        if committed is not None:
            assert status < 0, program.errors()
        return program.errors() if status else ""

    def stored(self) -> Counter[int]:
        """How often readers see each number."""
        return Counter(int(message.value or b"") for message in self._cluster.client.read(self.target))


@pytest.fixture(params=["text", "rate-micro-batch", "mqplug"])
def query(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Query:
    """A query from each Spark source."""
    return Query(request.param, cluster, tmp_path)


@pytest.mark.parametrize("other", [2, 3])
@over("rocksmq", "kafka")
def test_a_batch_is_repeated_by_other_tasks(cluster: Cluster, query: Query, other: int) -> None:
    """Each row is stored once, or nothing is written until as many tasks as before repeat the batch."""
    query.run(4, committed=3)
    before = query.stored()
    assert set(before.values()) <= {1}
    assert len(before) == (ROWS // 4 if cluster.backend == "kafka" else 0)
    refused = query.run(other)
    if refused:
        assert "are divided differently now" in refused, refused
        assert query.stored() == before
        refused = query.run(4)
    assert not refused
    stored = query.stored()
    assert stored == Counter(range(len(stored)))
    assert len(stored) >= ROWS
