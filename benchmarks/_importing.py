"""What ``import mqplug`` costs a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from benchmarks._paired import Contest, Side, Work

MOST = 60_000.0  # microseconds


def importing() -> list[Contest]:
    """A fresh interpreter with and without mqplug."""
    ours = Side("mqplug", "python -c 'import mqplug', a fresh interpreter", _fresh("import mqplug"))
    rival = Side("nothing", "python -c pass", _fresh("pass"))
    attrs = Side("attrs", "python -c 'import attrs, pluggy', which it needs", _fresh("import attrs, pluggy"))
    return [Contest(name="import", ours=ours, rivals=[rival, attrs], unit="import", most_added=MOST)]


def _fresh(program: str) -> Callable[[], AbstractContextManager[Work]]:
    @contextmanager
    def prepare() -> Iterator[Work]:
        yield lambda: subprocess.run([sys.executable, "-c", program], check=True).returncode + 1

    return prepare
