"""The plugin as its users prove it: by URL, with the harness of its distribution."""

from __future__ import annotations

import subprocess
import sys

import pytest

OUTAGES = ("FLT-12", "FLT-13", "TO-05")  # what they test is no outage here


def test_cases_about_an_outage_say_why_they_are_skipped(tmp_path):
    """When the owner is killed, a client process takes over: cases about an outage are skipped, with that reason."""
    done = prove(f"rocksmq://{tmp_path}/store", f"--only={','.join(OUTAGES)}")
    assert done.returncode == 0, done.stdout + done.stderr
    why = "the harness has no outage: when the owner is killed, one of its clients owns the store"
    assert f"skipped {' '.join(OUTAGES)}: {why}" in done.stdout.splitlines()


@pytest.mark.night
def test_each_worker_has_a_store_of_its_own(tmp_path):
    """Each worker kills and fills only its own store."""
    done = prove(f"rocksmq://{tmp_path}/store?sync=os", "--only=ERR-11,ERR-14,FLT-01,FLT-02,FLT-06", "--workers=2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each.name for each in tmp_path.glob("store-*")} == {"store-gw0", "store-gw1"}


def prove(*arguments):
    """Run ``mqplug test``."""
    return subprocess.run(
        [sys.executable, "-m", "mqplug_cli", "test", *arguments],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
