"""The contest of ``import mqplug`` in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from benchmarks._contests import Contest, Side, Work

MAX_IMPORT_CPU_US = 60_000.0


def import_contests() -> list[Contest]:
    """Return the contest of a fresh interpreter that imports mqplug against ones that do not."""
    ours = Side("mqplug", "python -c 'import mqplug', a fresh interpreter", _fresh("import mqplug"))
    rival = Side("nothing", "python -c pass", _fresh("pass"))
    attrs = Side("attrs", "python -c 'import attrs, pluggy', which mqplug requires", _fresh("import attrs, pluggy"))
    return [Contest(name="import", ours=ours, rivals=[rival, attrs], unit="import", max_added_cpu_us=MAX_IMPORT_CPU_US)]


def _fresh(program: str) -> Callable[[], AbstractContextManager[Work]]:
    @contextmanager
    def prepare() -> Iterator[Work]:
        yield lambda: subprocess.run([sys.executable, "-c", program], check=True).returncode + 1

    return prepare
