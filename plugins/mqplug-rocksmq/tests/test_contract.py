"""The contract, over a store on disk."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import mqplug
from mqplug.testing import Harness, prove
from mqplug_rocksmq._store import Store


@pytest.fixture(scope="session", params=["always", "os"])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A store that is used as a broker is: by many clients of one process."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"

    def connect() -> mqplug.Client:
        return mqplug.connect("rocksmq", path=str(path), sync=request.param)

    def enforce(client: mqplug.Client, _: str) -> None:
        store = client.unwrap(Store)
        assert store is not None
        store.enforce_retention()

    def tear() -> None:
        """Append the head of a write, and less than it says will follow."""
        newest = max((path / "rocksdb").glob("*.log"), key=lambda file: int(file.stem))
        with newest.open("ab") as file:
            file.write(struct.pack("<IHB", 0xDEADBEEF, 1000, 1) + bytes(20))

    return Harness(
        connect=connect,
        restart=lambda: None,
        second_process=f"rocksmq://{path}?sync={request.param}",
        enforce=enforce,
        tear_tail=tear,
    )


test_contract = prove(
    known_failures={"CON-15": "while one process has the store open, others can read it, and not write"},
)
