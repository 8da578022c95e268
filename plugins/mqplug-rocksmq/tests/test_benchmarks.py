"""The benchmarks of RocksMQ run, and what they write has the shape that is promised. No time is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def run(suite: str, file: Path, *more: str) -> dict[str, Any]:
    """Run a suite for a glance, and return what it wrote."""
    program = [sys.executable, "-m", "benchmarks", suite, "--quick", "--rounds", "1", "--json", str(file), *more]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(file.read_text())


@pytest.mark.timeout(240)
@pytest.mark.parametrize("suite", ["rocksmq_batches", "rocksmq_sends", "rocksmq_queue"])
def test_contests(suite: str, tmp_path: Path) -> None:
    """Each contest names its sides in words, has a sample of each, and a ratio for each rival."""
    found = run(suite, tmp_path / "found.json")
    assert found["suite"] == suite
    assert found["contests"]
    for contest in found["contests"]:
        ours, *rivals = contest["sides"]
        assert contest["name"].startswith("rocksmq: ")
        assert ours["name"] == "mqplug"
        assert set(contest["speed_ratios"]) == {rival["name"] for rival in rivals}
        for side in contest["sides"]:
            assert side["words"]
            assert all(each["wall"] > 0 for each in side["rounds"])


@pytest.mark.timeout(120)
def test_latencies(tmp_path: Path) -> None:
    """A contest whose work times each message has percentiles that ascend."""
    found = run("rocksmq_sends", tmp_path / "found.json", "--only", "send, 128 B, 16")
    for contest in found["contests"]:
        for side in contest["sides"]:
            percentiles = side["rounds"][0]["percentiles"]
            assert list(percentiles) == ["p50", "p99", "p99.9"]
            assert 0 < percentiles["p50"] <= percentiles["p99"] <= percentiles["p99.9"]
