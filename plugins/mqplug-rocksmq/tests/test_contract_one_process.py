"""The contract in the process that owns the store: the quick profile in each run, all of it each night, also unsynced.

What only the full profile has is proved in each run by ``test_contract.py``, whose clients ask the owner for all of it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mqplug.testing import Harness, prove
from mqplug_rocksmq._harness import owned

AT_NIGHT = os.environ.get("MQPLUG_PROFILE") == "full"


@pytest.fixture(scope="session", params=["always", "os"] if AT_NIGHT else ["always"])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A store that is used as a broker is: by many clients of one process. It syncs, or leaves that to the host."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"
    return owned(path, f"rocksmq://{path}?sync={request.param}")


test_contract = prove(profile="full" if AT_NIGHT else "quick")
