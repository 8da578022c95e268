"""The contract over a store that leaves syncing to the host: the quick profile in each run, all of it each night."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mqplug.testing import Harness, prove
from mqplug_rocksmq._harness import owned


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A store that is used as a broker is: by many clients of one process."""
    path: Path = tmp_path_factory.mktemp("os") / "store"
    return owned(path, f"rocksmq://{path}?sync=os")


AT_NIGHT = os.environ.get("MQPLUG_PROFILE") == "full"
test_contract = prove(profile="full" if AT_NIGHT else "quick")
