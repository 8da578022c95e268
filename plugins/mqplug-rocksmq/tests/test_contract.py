"""The contract, over a store on disk that syncs, in one process and in two; test_contract_unsynced.py has the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqplug.testing import Harness, prove
from mqplug_rocksmq._harness import HeldStore, owned


@pytest.fixture(scope="session", params=["always", "remote"])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A store that is used as a broker is: by many clients of one process, its owner's or another."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"
    if request.param == "remote":
        with HeldStore(path, f"rocksmq://{path}") as held:
            yield held.harness()
    else:
        yield owned(path, f"rocksmq://{path}?sync=always")


test_contract = prove()
