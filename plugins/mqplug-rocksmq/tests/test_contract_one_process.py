"""The contract in the process that owns the store: a part of it by day, all of it each night, also unsynced.

``test_contract.py`` runs more of it by day, with clients that send everything to the owner.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from brief_contract import BRIEF
from store_seam import owned

from mqplug_testing import Harness, prove

BY_DAY = BRIEF


@pytest.fixture(scope="session", params=["always", pytest.param("os", marks=pytest.mark.night)])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A store used like a broker: by many clients of one process, with each sync mode."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"
    return owned(path, f"rocksmq://{path}?sync={request.param}")


test_contract = prove(profile="quick")
