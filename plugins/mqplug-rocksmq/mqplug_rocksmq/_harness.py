"""The contract kit's harness: a store that this process owns, or that another process holds open.

``mqplug test rocksmq:///path`` finds ``harness`` here. No other module of the plugin needs this one.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import mqplug
from mqplug import Client, ConfigError
from mqplug_rocksmq._engine.directory import DATABASE
from mqplug_rocksmq._engine.ownership import read_owner
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._processes.client_connection import ask_owner
from mqplug_rocksmq._store.store import Store
from mqplug_testing import Harness, ServerProcess

FULL_DISK_MARGIN_BYTES: Final = 1_000_000  # by which files can still grow on the simulated full disk
_WAL_BLOCK: Final = 32 << 10


@contextmanager
def harness(url: str) -> Iterator[Harness]:
    """Yield the harness of the store that a URL names, held open by another process."""
    url = for_worker(url)
    with mqplug.connect(url) as client:
        store = client.unwrap(Store)
        if store is None:
            raise ConfigError("another program has this store open, and the kit would kill it", fix="Use a new path")
        path = store.path
    with HeldStore(path, url) as held:
        yield held.harness()


def for_worker(url: str) -> str:
    """Return the store URL of this pytest-xdist worker: workers must not kill or fill each other's stores."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    store, mark, query = url.partition("?")
    return url if worker is None else f"{store.rstrip('/')}-{worker}{mark}{query}"


def owned(path: Path, url: str) -> Harness:
    """Return the harness of a store that the kit's own clients have open."""

    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(url, extensions=extensions)

    return Harness(
        connect=connect,
        extended=connect,
        restart=lambda: None,  # the last client closes the store
        second_process=url,
        host=lambda: _owner(path),
        hands_out_current=True,
        enforce=lambda client, _: _enforce(client),
        tear_tail=lambda: tear_tail(path),
        corrupt_tail=lambda topic: corrupt_tail(path, url, topic),
        copy_store=lambda: copy_of(path),
        fill_disk=lambda: fill_disk(0, path),
    )


class HeldStore(ServerProcess):
    """A store that another process holds open: it is the owner, or becomes it when the kit's clients are gone."""

    def __init__(self, path: Path, url: str) -> None:
        super().__init__([sys.executable, "-c", f"from {__name__} import hold; hold()", url], says="open")
        self._path = path
        self._url = url

    def harness(self) -> Harness:
        """Return the harness."""
        return Harness(
            connect=self.connect,
            extended=self.connect,
            second_process=self._url,
            host=lambda: _owner(self._path),
            hands_out_current=True,
            enforce=lambda *_: _compact(self._path),
            tear_tail=self._tear_tail,
            corrupt_tail=self._corrupt_tail,
            copy_store=self._copy,
            fill_disk=lambda: fill_disk(self.pid, self._path),
            absent={"outage": "when the owner is killed, one of its clients owns the store"},
            **self.hooks(),
        )

    def connect(self, extensions: Sequence[object] = ()) -> Client:
        """Open the store as a client of that process."""
        return mqplug.connect(self._url, extensions=extensions)

    def _tear_tail(self) -> None:
        self.kill()
        tear_tail(self._path)
        self.start()

    def _corrupt_tail(self, topic: str) -> Callable[[], None]:
        """Corrupt the last page. The next process to open the store becomes its owner and finds the damage."""
        self.stop()
        undo = corrupt_tail(self._path, self._url, topic)

        def undo_and_start() -> None:
            undo()
            self.start()

        return undo_and_start

    def _copy(self) -> Client:
        self.stop()
        copy = copy_of(self._path)
        self.start()
        return copy


def hold() -> None:
    """Hold the store named by the first argument open until SIGTERM or the end of standard input."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=_wait_for_end_of_input, args=(ended,), daemon=True).start()
    with mqplug.connect(sys.argv[1]) as mq:
        print("open", flush=True)  # noqa: T201 - the parent process waits for this line
        while not ended.wait(0.05):
            mq.topics()  # a client notices that the owner is gone only at its next request


def _wait_for_end_of_input(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


# for a store that no process has open ----------------------------------------------------------------


def tear_tail(path: Path) -> None:
    """Append a torn write: a record header with only a part of its body."""
    newest = max((path / DATABASE).glob("*.log"), key=lambda file: int(file.stem))
    torn = struct.pack("<IHB", 0xDEADBEEF, 1000, 1) + bytes(20)
    with newest.open("ab") as file:
        room = _WAL_BLOCK - file.tell() % _WAL_BLOCK  # RocksDB's records never cross a block, so a torn one must not
        file.write(torn[: room - 1])


def corrupt_tail(path: Path, url: str, topic: str) -> Callable[[], None]:
    """Change a byte in the last page of a topic, and store it again, so that the database itself notices nothing."""
    with mqplug.connect(url) as client:
        store = client.unwrap(Store)
        assert store is not None
        log = store.topics.get(topic).logs[0]
        last = store.engine.pages.last(log)
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


def copy_of(path: Path) -> Client:
    """Open a copy of a store."""
    copy = shutil.copytree(path, Path(tempfile.mkdtemp(dir=path.parent)) / "store")
    return mqplug.connect("rocksmq", path=str(copy))


def fill_disk(process: int, path: Path) -> Callable[[], None]:
    """Simulate a full disk: cap the file size of a process (0 is this one) just above the largest file of its store."""
    largest = max(file.stat().st_size for file in (path / DATABASE).iterdir())
    soft, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (FULL_DISK_MARGIN_BYTES + largest, hard))

    def make_room() -> None:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (soft, hard))

    return make_room


def _owner(path: Path) -> int | None:
    owner = read_owner(path)
    return None if owner is None else owner.pid


def _enforce(client: Client) -> None:
    store = client.unwrap(Store)
    assert store is not None
    store.enforce_retention()


def _compact(path: Path) -> None:
    ask_owner(path, {"call": "compact"}, 60)
