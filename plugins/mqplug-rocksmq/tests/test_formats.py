"""Stores of older formats: ``golden/store-1.tar.xz`` was written by the last program of format 1, and then killed."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from rocksmq_stores import OpenStore, line, put, python, values
from store_seam import STORE_FORMAT, PageColumns, Store, StoredPosition, check_store, repair_store

from mqplug import Fenced
from mqplug_rocksmq._engine.directory import read_identity
from mqplug_rocksmq._format.keys import STORE, read_json, topic_key
from mqplug_rocksmq._format.page import encode_page
from mqplug_rocksmq._store.transactions import LogPages, StepContent, StepId

pytestmark = pytest.mark.python

TIMES = [*range(1000, 1025), *[1003] * 5, 990, 1024, 1030, 1029, 1041, 1041, 1042, 1060]
VALUES = [*(b"%d" % number for number in range(len(TIMES) - 3)), b"a", None, b"c"]


@pytest.fixture
def old(path: Path) -> Path:
    """A store of format 1: in "orders" all but the last three messages were sent singly."""
    with tarfile.open(Path(__file__).parent / "golden" / "store-1.tar.xz") as archive:
        archive.extractall(path, filter="data")
    path.chmod(0o700)
    return path


def formats(path: Path, store: Store) -> tuple[int, int]:
    """Return the formats in an open store's file and in its database."""
    identity, stored = read_identity(path), store.engine.pages.get(STORE)
    assert identity is not None
    assert stored is not None
    return identity.format, read_json(stored)["format"]


def orders(store: Store) -> int:
    """Return the log of the topic "orders"."""
    return store.topics.get("orders").logs[0]


def test_an_older_store_is_read_and_raised(old: Path, open_store: OpenStore) -> None:
    """A store of format 1 opens with all its content. It then has the current format, and copies of its topics."""
    for _ in range(2):
        store = open_store(sync="os")
        assert formats(old, store) == (STORE_FORMAT, STORE_FORMAT)
        assert values(store, orders(store)) == VALUES
        assert values(store, store.topics.get("payments").logs[0]) == [b"paid"]
        assert store.groups.position("billing", orders(store)) == StoredPosition(3, ((5, 7),))
        store.close(10)
    assert check_store(old).sound
    damaged = open_store(sync="os")
    damaged.engine.change(lambda changes: changes.delete(topic_key("orders")), 10)
    damaged.close(10)
    assert not check_store(old).sound
    repair_store(old)
    repaired = open_store(sync="os")
    assert values(repaired, orders(repaired)) == VALUES


def test_an_older_store_takes_transactions(old: Path, open_store: OpenStore) -> None:
    """A store of format 1 has no holder of a name; the first one commits in it."""
    store = open_store(sync="os")
    step = StepId("biller", "one", 1)
    with pytest.raises(Fenced):
        store.transactions.commit(step, StepContent(), 10)
    store.transactions.hold("biller", "one", 10)
    page = LogPages("orders", 0, [encode_page(PageColumns([1100], [b"new"]))])
    store.transactions.commit(step, StepContent([page]), 10)
    assert values(store, orders(store)) == [*VALUES, b"new"]
    store.close(10)
    assert check_store(old).sound


def test_an_older_store_is_checked_without_raising_it(old: Path) -> None:
    """A check reads a store of format 1 without changing it."""
    before = (old / "format").read_bytes()
    report = check_store(old)
    assert (report.sound, report.messages) == (True, len(VALUES) + 1)
    assert (old / "format").read_bytes() == before


def test_raising_is_completed(old: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a program dies between upgrading the file and the database, the next opener completes the upgrade."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(Store, "_store_format", die)
        with pytest.raises(KeyboardInterrupt):
            open_store(sync="os")
    store = open_store(sync="os")
    assert formats(old, store) == (STORE_FORMAT, STORE_FORMAT)
    assert put(store, orders(store), b"next") == len(VALUES)
    assert values(store, orders(store)) == [*VALUES, b"next"]


def exact(store: Store, times: list[int]) -> None:
    """Check the first message at or after each time, including times before and after all of them."""
    for wanted in range(min(times) - 2, max(times) + 12):
        first = next((offset for offset, time in enumerate(times) if time >= wanted), len(times))
        assert store.first_at(orders(store), wanted) == first, wanted


def test_times_across_the_border(old: Path, open_store: OpenStore) -> None:
    """A look-up by time is exact among old messages, among new ones with fewer entries, and at the border."""
    store, times = open_store(sync="os"), TIMES
    exact(store, times)
    for more in ([*range(1055, 1085)], [1081] * 3, [1070, 1085, 1084], [*range(1086, 1100, 3)]):
        for time in more:
            put(store, orders(store), b"", time=time)
        times = [*times, *more]
        exact(store, times)
        store.close(10)
        assert check_store(old).sound
        store = open_store(sync="os")
        exact(store, times)


KILLED = """
store = Store(path, store_settings(sync="os"))
log = store.topics.get("orders").logs[0]
for time in range(1055, 1085):
    put(store, log, b"", time=time)
print("stored", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_older_store_after_a_kill(old: Path, open_store: OpenStore) -> None:
    """A store that was upgraded and then killed is sound and complete, and its times are exact."""
    with python(KILLED, old) as process:
        assert line(process) == "stored"
        process.wait(20)
    assert check_store(old).sound
    store = open_store(sync="os")
    exact(store, [*TIMES, *range(1055, 1085)])
    assert put(store, orders(store), b"next") == len(TIMES) + 30
