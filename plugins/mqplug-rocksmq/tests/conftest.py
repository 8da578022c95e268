from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqplug_rocksmq._store import Store, StoreSettings

OpenStore = Callable[..., Store]


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
