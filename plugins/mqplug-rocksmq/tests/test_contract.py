"""The contract, over a store on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

import mqplug
from mqplug.testing import Harness, contract


@pytest.fixture(scope="session", params=["always", "os"])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A store that is used as a broker is: by many clients of one process."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"

    def connect() -> mqplug.Client:
        return mqplug.connect("rocksmq", path=str(path), sync=request.param)

    return Harness(connect=connect, restart=lambda: None, url=f"rocksmq://{path}?sync={request.param}")


test_contract = contract(
    expected_failures={"CON-15": "while one process has the store open, others can read it, and not write"},
)
