"""RocksMQ, a large store: how long it takes to open after a stop and after a kill, and what memory it takes throughout.

Memory is what each process has at most, above a bare interpreter, and is to stay below ``memory_max_bytes``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._findings import Finding
from benchmarks._large_steps import SIZE, Numbers
from benchmarks._load import MANY
from benchmarks._resident import bare_interpreter

CEILING = 256.0  # MiB: the default of memory_max_bytes
TOPICS = 10_000
_STEP = [sys.executable, "-m", "benchmarks._large_steps"]
_GIB = 1 << 30


def findings(*, gib: float, quick: bool) -> Iterator[Finding]:
    """What is measured, as soon as it is known. The store needs half as much disk as it has messages, and more."""
    bare = bare_interpreter()
    topics = 100 if quick else TOPICS
    batches = max(1, int(gib * _GIB) // (SIZE * MANY))
    messages = batches * MANY
    yield Finding("bare interpreter", bare, "MiB")
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        path = str(Path(name) / "store")
        yield from _told("", _killed("write", path, batches), bare)
        yield from _disk(path)
        yield from _told(" after kill -9", _ended("reopen", path, messages), bare)
        yield from _told(" after a clean stop", _ended("reopen", path, messages), bare)
        yield from _told("", _ended("read", path, messages), bare)
        yield from _told(f", {topics:,} topics beside it", _ended("topics", path, topics), bare)
        yield from _told(f" with {topics:,} topics more", _ended("reopen", path, messages), bare)


def _ended(step: str, path: str, count: int) -> Numbers:
    done = subprocess.run([*_STEP, step, path, str(count)], check=True, stdout=subprocess.PIPE, text=True)
    found: Numbers = json.loads(done.stdout)
    return found


def _killed(step: str, path: str, count: int) -> Numbers:
    """Kill it as soon as it has said what it found, in the middle of what it does then."""
    with subprocess.Popen([*_STEP, step, path, str(count)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        line = process.stdout.readline()
        process.kill()
    found: Numbers = json.loads(line)
    return found


def _disk(path: str) -> Iterator[Finding]:
    held = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    yield Finding("disk", held / _GIB, "GiB")


def _told(suffix: str, numbers: Numbers, bare: float) -> Iterator[Finding]:
    for name, value in numbers.items():
        if name.endswith(", peak"):
            yield Finding(f"memory above bare: {name.removesuffix(', peak')}{suffix}", value - bare, "MiB", CEILING)
        elif name.endswith(", messages"):
            yield Finding(f"{name}{suffix}", value, "")
        else:
            yield Finding(f"{name}{suffix}", value, "s")
