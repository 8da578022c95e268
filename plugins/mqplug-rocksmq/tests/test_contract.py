"""The contract in its quick profile, over a store on disk that syncs and that another process owns.

``test_contract_one_process.py`` has the cases for the process that owns the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqplug_testing import Harness, harness_for, prove


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A store used like a broker: by many clients of a process that does not own it."""
    path: Path = tmp_path_factory.mktemp("remote") / "store"
    with harness_for(f"rocksmq://{path}") as held:
        yield held


test_contract = prove(profile="quick")
