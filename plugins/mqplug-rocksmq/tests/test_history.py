"""Random work on one store in several processes, which are killed and stopped meanwhile; and what became of it.

By day it is the command that does so, for some seconds. ``MQPLUG_HISTORY`` says how many seconds a test of the night
takes. Longer still, by hand: ``mqplug test rocksmq:///tmp/checked --history 10m``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from mqplug_rocksmq._harness import harness
from mqplug_testing import check_history

SECONDS = float(os.environ.get("MQPLUG_HISTORY", "60"))


@pytest.mark.night
@pytest.mark.timeout(5 * SECONDS + 120)
@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_nothing_is_lost_by_kills(path: Path, sync: str) -> None:
    """However the owner of a store, its guests and the members of its groups are killed: no anomaly, in any mode."""
    with harness(f"rocksmq://{path}?sync={sync}") as held:
        verdict = check_history(held, SECONDS, rerun=False)
    assert not verdict.anomalies, str(verdict)
    assert verdict.delivery == "exactly once"
    assert min(verdict.counts.stored, verdict.counts.received, verdict.counts.faults) > 0


@pytest.mark.night
@pytest.mark.timeout(180)
def test_without_a_host_processes_are_killed_all_the_same(path: Path) -> None:
    """Wherever other processes reach the backend they act, and are killed, in turn with what they talk to."""
    with harness(f"rocksmq://{path}") as held:
        verdict = check_history(attrs.evolve(held, host=None), 10, seed=5, rerun=False)
    assert not verdict.anomalies, str(verdict)
    troubles = {event.did.what for event in verdict.history.events if type(event.did).__name__ == "BackendDisturbed"}
    assert troubles & {"kill of a process", "stop of a process"}
    assert min(verdict.counts.stored, verdict.counts.received, verdict.counts.faults) > 0


@pytest.mark.night
@pytest.mark.timeout(400)
def test_the_command_does_the_same(path: Path) -> None:
    """``mqplug test`` finds the harness of this plugin, and has processes of its own to kill."""
    command = [sys.executable, "-m", "mqplug_cli", "test", f"rocksmq://{path}", "--history", "3s", "--seed", "7"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("exactly once: no anomaly; ")
