"""The command line without an installation, as in docs/deploy.md."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from page_steps import steps

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = {
    "mqplug": ROOT,
    "mqplug-cli": ROOT / "contrib/mqplug-cli",
    "mqplug-kafka": ROOT / "plugins/mqplug-kafka",
}


def built(word: str, folder: Path) -> str:
    """Build a distribution of this repository. Return the page's requirement for it with the wheel's address."""
    name, extras = re.fullmatch(r"([\w-]+)(\[\w+\])?", word).groups()
    run_uv("build", "--quiet", "--out-dir", str(folder / name), str(DISTRIBUTIONS[name]))
    (wheel,) = (folder / name).glob("*.whl")
    return f"{name}{extras or ''} @ {wheel.as_uri()}"


def run_uv(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run uv to its end."""
    command = [sys.executable, "-m", "uv", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=110
    )


@pytest.mark.night
def test_uvx_runs_the_command_line(tmp_path: Path):
    """`uvx` runs a verb with the backend of the page, in an environment that it creates."""
    (line,) = steps("uvx")
    uvx, source, core, beside, plugin, command, verb, url = shlex.split(line)
    assert (uvx, source, beside, command, verb) == ("uvx", "--from", "--with", "mqplug", "topics")
    needed = [part for name in ("mqplug", plugin) for part in (beside, built(name, tmp_path))]
    packages = [source, built(core, tmp_path), *needed]
    words = ["tool", "run", "--quiet", "--python", sys.executable, *packages, command, verb]
    done = run_uv(*words, "kafka://127.0.0.1:1", UV_TOOL_DIR=str(tmp_path / "tools"))
    assert url.startswith("kafka://")
    assert done.returncode == 1
    assert done.stderr.startswith("error: no Kafka broker answered at 127.0.0.1:1"), done.stderr
