"""The contract, over a store on disk."""

from __future__ import annotations

import resource
import shutil
import signal
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from rocksmq_words import freeze, line, python

import mqplug
from mqplug.testing import Harness, prove
from mqplug_rocksmq._commands._reach import asked
from mqplug_rocksmq._engine import DATABASE
from mqplug_rocksmq._pages import Pages
from mqplug_rocksmq._store import Store


@pytest.fixture(scope="session", params=["always", "os", "remote"])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A store that is used as a broker is: by many clients of one process, its owner's or another."""
    path: Path = tmp_path_factory.mktemp(request.param) / "store"
    if request.param == "remote":
        with Elsewhere(path) as server:
            yield server.harness()
    else:
        yield here(path, request.param)


def here(path: Path, sync: str) -> Harness:
    """A store that the kit's clients own."""

    def connect(extensions: Sequence[object] = (), path: Path = path) -> mqplug.Client:
        return mqplug.connect("rocksmq", path=str(path), sync=sync, extensions=extensions)

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
        return connect(path=shutil.copytree(path, Path(tempfile.mkdtemp(dir=path.parent)) / "store"))

    return Harness(
        connect=connect,
        extended=connect,
        restart=lambda: None,
        second_process=f"rocksmq://{path}?sync={sync}",
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


class Elsewhere:
    """A store that another process has open: it owns it, or waits to own it as soon as the kit's clients are gone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        self._process = self._stack.enter_context(python(HOLDS, self._path))
        assert line(self._process) == "ready"

    def stop(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(60)

    def restart(self) -> None:
        self.stop(signal.SIGTERM)
        self.start()

    def enforce(self, client: mqplug.Client, topic: str) -> None:
        asked(self._path, {"call": "compact"}, 60)

    def connect(self, extensions: Sequence[object] = ()) -> mqplug.Client:
        return mqplug.connect("rocksmq", path=str(self._path), extensions=extensions)

    def harness(self) -> Harness:
        return Harness(
            connect=self.connect,
            extended=self.connect,
            second_process=f"rocksmq://{self._path}",
            restart=self.restart,
            enforce=self.enforce,
            kill=lambda: self.stop(signal.SIGKILL),
            start=self.start,
            pause=lambda: freeze(self._process),
            unpause=lambda: self._process.send_signal(signal.SIGCONT),
        )


HOLDS = """
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
with mqplug.connect("rocksmq", path=str(path)) as mq:
    print("ready", flush=True)
    while not ended.wait(0.05):
        mq.topics()
"""

NO_OUTAGE = "when the owner is killed one of its guests owns the store: there is no outage to see"
test_contract = prove(known_failures=dict.fromkeys(("FLT-12", "FLT-13", "TO-05"), NO_OUTAGE))
