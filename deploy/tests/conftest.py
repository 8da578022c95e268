from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from standalone_host import Host


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host with the service running."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    made = Host(tmp_path)
    made.start()
    yield made
    made.close()
