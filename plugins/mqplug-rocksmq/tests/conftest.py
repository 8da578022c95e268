from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refused_openings import connect
from rocksmq_stores import OpenStore, serving, store_settings
from store_seam import Store, close_store, open_store as open_shared, writes_in_place

import mqplug


@pytest.fixture(scope="session", autouse=True)
def sockets() -> Iterator[None]:
    """A directory for the sockets of owners that tests kill, removed with the run. Its path must be short."""
    with tempfile.TemporaryDirectory(prefix="mq-") as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def mapped(tmp_path: Path) -> None:
    """Skip unless the journal of hand-outs is in use: some file systems have none."""
    with (tmp_path / "probe").open("wb") as file:
        if not writes_in_place(file.fileno()):
            pytest.skip("the file system of the tests may need space to write again to what it has allocated")


@pytest.fixture
def open_store(path: Path) -> Iterator[OpenStore]:
    """Open the test's store as often as needed, and close it at the end."""
    opened = []

    def open_it(**settings: Any) -> Store:
        opened.append(Store(path, store_settings(**settings)))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close(10)


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store(sync="os")


@pytest.fixture
def mq(request: pytest.FixtureRequest, path: Path) -> Iterator[mqplug.Client]:
    """A client of the test's store, with the topics and partition counts of its module's ``TOPICS``."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as client:
        for topic, partitions in request.module.TOPICS.items():
            client.create_topic(topic, partitions=partitions)
        yield client


@pytest.fixture
def shared(path: Path) -> Iterator[Store]:
    """A store of this process, shared by its clients."""
    store = open_shared(path, store_settings(sync="os"))
    yield store
    close_store(store, 10)


@pytest.fixture
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the store."""
    with serving(path, "--sync", "os") as process:
        yield process


@pytest.fixture
def closed(path: Path) -> Path:
    """A closed store with a message."""
    with connect(path) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send(b"a")
    return path
