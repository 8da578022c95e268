"""The same on executors that are processes of their own, each with Python workers of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)


@pytest.mark.usefixtures("java")
def test_several_processes_on_a_local_cluster(tmp_path: Path) -> None:
    """What ``test_several_processes.py`` says is true on two executors. A process has one session, so it is another."""
    module = Path(__file__).with_name("test_several_processes.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'pytest'}", module],
        env={**os.environ, "MQPLUG_SPARK_MASTER": "local-cluster[2,1,1024]"},
        cwd=Path(__file__).parents[2],
        check=False,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
