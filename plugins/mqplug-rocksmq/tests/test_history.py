"""Random work on one store in several processes, some of which are killed and suspended, and a check of its history.

By day the command does this for some seconds. ``MQPLUG_HISTORY`` is the number of seconds of each nightly test. For
longer runs by hand, use ``mqplug test rocksmq:///tmp/checked --history 10m``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from mqplug_testing import check_history, harness_for

SECONDS = float(os.environ.get("MQPLUG_HISTORY", "60"))


@pytest.mark.night
@pytest.mark.timeout(5 * SECONDS + 120)
@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_nothing_is_lost_by_kills(path: Path, sync: str) -> None:
    """Kills of a store's owner, its client processes and its group members cause no anomaly, in any mode."""
    with harness_for(f"rocksmq://{path}?sync={sync}") as held:
        verdict = check_history(held, SECONDS, rerun=False)
    assert not verdict.anomalies, str(verdict)
    assert verdict.delivery == "exactly once"
    assert min(verdict.counts.stored, verdict.counts.received, verdict.counts.faults) > 0


@pytest.mark.night
@pytest.mark.timeout(180)
def test_without_a_host_processes_are_killed_all_the_same(path: Path) -> None:
    """Without access to the host, client processes are still killed, in turn with the process that they use."""
    with harness_for(f"rocksmq://{path}") as held:
        verdict = check_history(attrs.evolve(held, host=None), 10, seed=5, rerun=False)
    assert not verdict.anomalies, str(verdict)
    troubles = {event.did.what for event in verdict.history.events if type(event.did).__name__ == "BackendDisturbed"}
    assert troubles & {"kill of a process", "stop of a process"}
    assert min(verdict.counts.stored, verdict.counts.received, verdict.counts.faults) > 0


@pytest.mark.night
@pytest.mark.timeout(400)
def test_the_command_does_the_same(path: Path) -> None:
    """``mqplug test`` finds this plugin's harness, and kills its own processes."""
    command = [sys.executable, "-m", "mqplug_cli", "test", f"rocksmq://{path}", "--history", "3s", "--seed", "7"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("exactly once: no anomaly; ")
