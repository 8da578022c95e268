"""The benchmarks of RocksMQ run, and their output has the documented shape. No measured time is judged here.

By day only the shortest benchmark runs, each night all do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def run(suite: str, file: Path, *more: str) -> dict[str, Any]:
    """Run a suite briefly, and return its output."""
    program = [sys.executable, "-m", "benchmarks", suite, "--quick", "--rounds", "1", "--json", str(file), *more]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(file.read_text())


@pytest.mark.night
@pytest.mark.timeout(240)
@pytest.mark.parametrize("suite", ["batches", "bulk", "queue", "sends", "wakeup"])
def test_contests(suite: str, tmp_path: Path) -> None:
    """Each contest names its sides, and has a sample of each and a ratio for each rival."""
    found = run(f"rocksmq_{suite}", tmp_path / "found.json")
    assert found["suite"] == f"rocksmq_{suite}"
    assert found["contests"]
    for contest in found["contests"]:
        ours, *rivals = contest["sides"]
        assert contest["name"].startswith("rocksmq: ")
        assert ours["name"].startswith("mqplug")
        assert set(contest["speed_ratios"]) == {rival["name"] for rival in rivals}
        for side in contest["sides"]:
            assert side["words"]
            assert all(each["wall"] > 0 for each in side["rounds"])


@pytest.mark.night
@pytest.mark.timeout(240)
def test_curves(tmp_path: Path) -> None:
    """A curve compares the largest store with each smaller one, and reports whether it is flat."""
    found = run("rocksmq_curves", tmp_path / "found.json")
    assert found["contests"]
    for contest in found["contests"]:
        names = [side["name"] for side in contest["sides"]]
        assert names[:2] in (["10,000 messages", "1,000 messages"], ["100 topics", "1 topic"])
        assert list(contest["speed_ratios"]) == names[1:]
        assert names[1] in contest["aims"][0]


@pytest.mark.night
@pytest.mark.timeout(240)
def test_large(tmp_path: Path) -> None:
    """The large benchmark reports each step's time, that everything was read, and whether memory kept to its limit."""
    found = run("rocksmq_large", tmp_path / "found.json", "--gib", "0.02")["findings"]
    values = {each["name"]: each["value"] for each in found}
    assert all(value > 0 for value in values.values())
    assert values["read, messages"] >= 20_000
    assert {"reopen after kill -9", "reopen after a clean stop", "disk"} <= values.keys()
    limited = [each for each in found if each["name"].startswith("memory above bare: ")]
    assert len(limited) >= 8
    assert all(each["most"] == 256 and each["verdict"].startswith("at most 256: ") for each in limited)


@pytest.mark.timeout(120)
def test_latencies(tmp_path: Path) -> None:
    """A contest that times each message has ascending percentiles, and tables have a row for each rival."""
    page = tmp_path / "page.md"
    found = run("rocksmq_sends", tmp_path / "found.json", "--only", "send, 128 B, 16", "--markdown", str(page))
    for contest in found["contests"]:
        for side in contest["sides"]:
            percentiles = side["rounds"][0]["percentiles"]
            assert list(percentiles) == ["p50", "p99", "p99.9"]
            assert 0 < percentiles["p50"] <= percentiles["p99"] <= percentiles["p99.9"]
    rows = [row for row in page.read_text().splitlines() if row.startswith("| rocksmq: ")]
    assert len(rows) == sum(len(contest["sides"]) - 1 for contest in found["contests"])
