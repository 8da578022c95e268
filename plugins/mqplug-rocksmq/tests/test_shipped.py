"""The plugin as its users prove it: by URL, with the harness that the distribution brings."""

from __future__ import annotations

import subprocess
import sys

OUTAGES = ("FLT-12", "FLT-13", "TO-05")  # what they look at is no outage here


def test_cases_about_an_outage_say_why_they_are_skipped(tmp_path):
    """When the owner is killed a guest takes over: the cases that look at an outage are skipped, and say so."""
    only = [f"--only={case}" for case in OUTAGES]
    done = subprocess.run(
        [sys.executable, "-m", "mqplug.cli", "test", f"rocksmq://{tmp_path}/store", *only],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    why = "the harness has no outage: when the owner is killed one of its guests owns the store"
    assert f"skipped {' '.join(OUTAGES)}: {why}" in done.stdout.splitlines()
