"""The contract, over a store on disk."""

from __future__ import annotations

import resource
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import mqplug
from mqplug.testing import Harness, prove
from mqplug_rocksmq._engine import DATABASE
from mqplug_rocksmq._pages import Pages
from mqplug_rocksmq._store import Store


@pytest.fixture(scope="session", params=["always", "os"])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A store that is used as a broker is: by many clients of one process."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"

    def connect(extensions: Sequence[object] = (), path: Path = path) -> mqplug.Client:
        return mqplug.connect("rocksmq", path=str(path), sync=request.param, extensions=extensions)

    def enforce(client: mqplug.Client, _: str) -> None:
        store = client.unwrap(Store)
        assert store is not None
        store.enforce_retention()

    def tear() -> None:
        """Append the head of a write, and less than it says will follow."""
        newest = max((path / "rocksdb").glob("*.log"), key=lambda file: int(file.stem))
        with newest.open("ab") as file:
            file.write(struct.pack("<IHB", 0xDEADBEEF, 1000, 1) + bytes(20))

    def corrupt(topic: str) -> Callable[[], None]:
        """Change a byte in the last page of a topic, and store it anew: the database itself has nothing to notice."""
        with connect() as client:
            store = client.unwrap(Store)
            assert store is not None
            log = store.topics.get(topic).logs[0]
            last = store._engine.pages.last(log)
        assert last is not None
        base, raw = last

        def put(page: bytes) -> None:
            pages = Pages(path / DATABASE)
            changes = pages.changes()
            changes.put_page(log, base, page)
            pages.write(changes)
            del changes
            pages.close()

        put(raw[:-1] + bytes([raw[-1] ^ 1]))
        return lambda: put(raw)

    def copy() -> mqplug.Client:
        return connect(path=shutil.copytree(path, tmp_path_factory.mktemp("copy") / "store"))

    return Harness(
        connect=connect,
        extended=connect,
        restart=lambda: None,
        second_process=f"rocksmq://{path}?sync={request.param}",
        enforce=enforce,
        tear_tail=tear,
        corrupt_tail=corrupt,
        copy_store=copy,
        fill_disk=no_room,
    )


def no_room() -> Callable[[], None]:
    """Let no file of this process grow beyond a megabyte, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


test_contract = prove()
