"""The contract in the process that owns the store: by day in brief, each night all of it, also unsynced.

``test_contract.py`` proves more of it by day, with clients that ask the owner for everything.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from brief_contract import BRIEF

from mqplug_rocksmq._harness import owned
from mqplug_testing import Harness, prove

BY_DAY = BRIEF


@pytest.fixture(scope="session", params=["always", pytest.param("os", marks=pytest.mark.night)])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A store that is used as a broker is: by many clients of one process. It syncs, or leaves that to the host."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"
    return owned(path, f"rocksmq://{path}?sync={request.param}")


test_contract = prove(profile="quick")
