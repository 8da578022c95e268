"""The suite of a large RocksMQ store: seconds to open it after a kill and after a stop, and memory in each step.

Memory is the peak of each process above a bare interpreter. It must stay below ``memory_max_bytes``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._findings import BenchmarkFinding
from benchmarks._large_steps import MESSAGE_BYTES, StepFigures
from benchmarks._load import BATCH_MESSAGES
from benchmarks._process_memory import bare_interpreter_mib

MEMORY_LIMIT_MIB = 256.0  # the default of memory_max_bytes
ADDED_TOPICS = 10_000
_STEP = [sys.executable, "-m", "benchmarks._large_steps"]
_GIB_BYTES = 1 << 30


def findings(*, gib: float, quick: bool) -> Iterator[BenchmarkFinding]:
    """Yield each finding as soon as it is known. The store needs more disk than half the size of its messages."""
    bare = bare_interpreter_mib()
    topics = 100 if quick else ADDED_TOPICS
    batches = max(1, int(gib * _GIB_BYTES) // (MESSAGE_BYTES * BATCH_MESSAGES))
    messages = batches * BATCH_MESSAGES
    yield BenchmarkFinding("bare interpreter", bare, "MiB")
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        path = str(Path(name) / "store")
        yield from _step_findings("", _kill_after_output("write", path, batches), bare)
        yield from _disk_finding(path)
        yield from _step_findings(" after kill -9", _run_step("reopen", path, messages), bare)
        yield from _step_findings(" after a clean stop", _run_step("reopen", path, messages), bare)
        yield from _step_findings("", _run_step("read", path, messages), bare)
        yield from _step_findings(f", {topics:,} topics beside it", _run_step("topics", path, topics), bare)
        yield from _step_findings(f" with {topics:,} topics more", _run_step("reopen", path, messages), bare)


def _run_step(step: str, path: str, count: int) -> StepFigures:
    done = subprocess.run([*_STEP, step, path, str(count)], check=True, stdout=subprocess.PIPE, text=True)
    found: StepFigures = json.loads(done.stdout)
    return found


def _kill_after_output(step: str, path: str, count: int) -> StepFigures:
    """Run a step, and kill it while it is still writing after its line of output."""
    with subprocess.Popen([*_STEP, step, path, str(count)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        line = process.stdout.readline()
        process.kill()
    found: StepFigures = json.loads(line)
    return found


def _disk_finding(path: str) -> Iterator[BenchmarkFinding]:
    held = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    yield BenchmarkFinding("disk", held / _GIB_BYTES, "GiB")


def _step_findings(suffix: str, numbers: StepFigures, bare: float) -> Iterator[BenchmarkFinding]:
    for name, value in numbers.items():
        if name.endswith(", peak"):
            yield BenchmarkFinding(
                f"memory above bare: {name.removesuffix(', peak')}{suffix}", value - bare, "MiB", MEMORY_LIMIT_MIB
            )
        elif name.endswith(", messages"):
            yield BenchmarkFinding(f"{name}{suffix}", value, "")
        else:
            yield BenchmarkFinding(f"{name}{suffix}", value, "s")
