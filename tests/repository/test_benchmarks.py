"""The benchmarks run, and their output has the promised shape. No time is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.night
@pytest.mark.timeout(600)  # it takes 14 s of CPU time, of which a busy machine gives little
def test_core_benchmarks_write_every_sample(tmp_path):
    """Each core benchmark names its sides in words, and has as many rounds of each."""
    file = tmp_path / "core.json"
    program = [sys.executable, "-m", "benchmarks", "core", "--quick", "--json", str(file)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT, timeout=580)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(file.read_text())
    assert found["suite"] == "core"
    assert len(found["contests"]) >= 10
    for contest in found["contests"]:
        ours, *rivals = contest["sides"]
        assert ours["name"] == "mqplug"
        assert rivals
        assert set(contest["speed_ratios"]) == {rival["name"] for rival in rivals}
        for side in contest["sides"]:
            assert side["words"]
            assert len(side["rounds"]) == 2
            assert all(each["wall"] > 0 and each["cpu"] >= 0 for each in side["rounds"])
