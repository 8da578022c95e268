from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqplug_rocksmq._store import Store, StoreSettings

OpenStore = Callable[..., Store]


@pytest.fixture(scope="session", autouse=True)
def sockets() -> Iterator[None]:
    """The sockets of owners that tests kill go with the run. The path has to be short, so it is no tmp_path."""
    with tempfile.TemporaryDirectory(prefix="mq-") as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def open_store(path: Path) -> Iterator[OpenStore]:
    """Open the test's store, as often as wanted; what is left open is closed."""
    opened = []

    def open_it(**settings: Any) -> Store:
        opened.append(Store(path, StoreSettings(**settings)))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close(10)


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store(sync="os")
