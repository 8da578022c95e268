"""The backend of the page "Prove your backend", as the distribution that the page describes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import attrs
import pytest

from mqplug_testing import CASES, Harness

PAGE = (Path(__file__).parents[2] / "docs" / "prove-your-backend.md").read_text()
HOOKS = {"second_process", "restart", "copy_store"}  # of the page's harness
HOOKED = [case for case in CASES if HOOKS >= set(case.hooks) > set() and case.profile == "quick"]


def block(language: str, beginning: str) -> str:
    """Return the first block of the page that contains this line."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return next(each for each in blocks if beginning in each)


@pytest.fixture
def installed(tmp_path):
    """A folder with the page's code as modules, and its entry points as pip would write them."""
    driver = re.findall(
        r"```python\n(.*?)```", PAGE.partition("## A whole backend")[2].partition("### Try it")[0], re.DOTALL
    )
    (tmp_path / "mqplug_shelf.py").write_text("\n\n".join([*driver, block("python", "backend = ShelfBackend()")]))
    (tmp_path / "mqplug_shelf_harness.py").write_text(block("python", "def harness_of"))
    told = ConfigParser()
    told.read_string(block("ini", "[options.entry_points]"))
    info = tmp_path / f"mqplug_shelf-{told['metadata']['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {told['metadata']['name']}\nVersion: 0.1.0\n")
    groups = told["options.entry_points"].items()
    (info / "entry_points.txt").write_text("".join(f"[{group}]{points}\n" for group, points in groups))
    return tmp_path


def test_the_distribution_passes_with_its_harness(installed):
    """Installed as the page says, the backend is found by its URL, with its harness, and survives killed processes."""
    chosen = [f"--only={case.id}" for case in HOOKED]
    done = subprocess.run(
        [sys.executable, "-m", "mqplug_cli", "test", f"shelf://{installed}/proof.db", "--profile=quick", *chosen],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])},
        cwd=installed, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.splitlines()
    assert f"mqplug contract: {len(chosen)} cases, " in done.stdout, summary
    assert [line for line in summary if "the harness has no" in line] == [], "nothing was skipped for want of a hook"


def test_each_hook_is_told_of():
    """The page has a line for each hook of a harness."""
    names = {field.name for field in attrs.fields(Harness)} - {"connect"} | {"outage"}
    table = PAGE.partition("| hook |")[2].partition("\n\n")[0]
    heads = "".join(line.split("|")[1] for line in table.splitlines() if line.count("|") > 2)
    assert set(re.findall(r"`(\w+)`", heads)) == names
