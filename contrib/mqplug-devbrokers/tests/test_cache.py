"""The cache: each folder is built once, and completely or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mqplug_devbrokers import BrokerError, _cache
from mqplug_devbrokers._cache import cache_root, provide


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder used by one test only."""
    monkeypatch.setenv("MQPLUG_DEVBROKERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fill(folder: Path) -> None:
    """Build by writing one file."""
    (folder / "file").write_text("text")


def fail(folder: Path) -> None:
    """Write one file and then fail."""
    fill(folder)
    raise BrokerError("no network")


def test_a_folder_is_built_once(root: Path) -> None:
    """A second call returns the folder that the first one built."""
    assert (provide("thing", fill) / "file").read_text() == "text"
    assert provide("thing", fail) == root / "thing"


def test_a_failed_build_leaves_nothing(root: Path) -> None:
    """A failed build leaves no folder in the cache, and the next build succeeds."""
    with pytest.raises(BrokerError, match="no network"):
        provide("thing", fail)
    assert [path.name for path in root.iterdir()] == ["thing.lock"]
    assert (provide("thing", fill) / "file").exists()


def test_the_remains_of_a_killed_builder_are_removed(root: Path) -> None:
    """A build removes the folder that a killed builder left."""
    remains = root / ".thing.killed"
    remains.mkdir(parents=True)
    provide("thing", fill)
    assert not remains.exists()


def test_others_wait_for_the_builder() -> None:
    """Of eight concurrent callers one builds, and all get the complete result."""
    built: list[int] = []
    results: list[str] = []

    def slow(folder: Path) -> None:
        built.append(1)
        fill(folder)

    def call() -> None:
        results.append((provide("thing", slow) / "file").read_text())

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == ["text"] * 8
    assert built == [1]


def test_a_lock_that_never_ends_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting too long for another builder raises BrokerError, which names the lock."""
    monkeypatch.setattr(_cache, "LOCK_TIMEOUT_S", 0.2)
    root.mkdir()
    with _cache.locked(root / "thing.lock"), pytest.raises(BrokerError, match=r"thing\.lock has been locked"):
        provide("thing", fill)


def test_the_default_is_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The default cache is in XDG_CACHE_HOME, or in `.cache` of the home directory if that is unset."""
    monkeypatch.delenv("MQPLUG_DEVBROKERS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "mqplug-devbrokers"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "mqplug-devbrokers"
