"""Limits of a store: a full disk, a maximum of disk space and a maximum of memory."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rocksmq_stores import OpenStore, eventually, extent, in_a_namespace, line, new_log, nightly, put, python, values
from store_seam import PageColumns, set_clock

import mqplug
from mqplug import StorageFull


def connect(path: Path, **settings: Any) -> mqplug.Client:
    """Connect, with time for a busy machine."""
    return mqplug.connect("rocksmq", path=str(path), timeout=60, **settings)


# a full disk ---------------------------------------------------------------------------------------------

FULL = """
import os, subprocess, sys, threading, time
from pathlib import Path
import mqplug
path, mode = Path(sys.argv[1]), sys.argv[2]
with mqplug.connect("rocksmq", path=str(path / "store"), sync=mode) as mq:
    mq.create_topic("t")
    with mq.producer("t") as out:
        stored, refused = [], None
        while refused is None:
            try:
                stored.append(out.send(os.urandom(200_000)))
            except mqplug.Error as error:
                refused = error
        print(type(refused).__name__, refused.retryable, flush=True)
        print([message.id for message in mq.read("t")] == stored, flush=True)
        subprocess.run(["mount", "-o", "remount,size=300m", path], check=True)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                stored.append(out.send(b"again"))
                break
            except mqplug.StorageFull:
                time.sleep(0.05)
    print([message.id for message in mq.read("t")] == stored, stored[-1].coordinates[0] == len(stored) - 1, flush=True)
with mqplug.connect("rocksmq", path=str(path / "store"), sync=mode) as mq:
    print([message.id for message in mq.read("t")] == stored, len(stored) > 50)
"""


@pytest.mark.parametrize("sync", ["os", *nightly("always", "interval")])
def test_a_full_disk(tmp_path: Path, sync: str) -> None:
    """Without disk space a send is ``StorageFull`` and nothing is lost; once there is space, sends continue."""
    script = 'mount -t tmpfs -o size=64m tmpfs "$1"; "$2" -c "$3" "$1" "$4"'
    said = in_a_namespace(script, tmp_path, sys.executable, FULL, sync).splitlines()
    assert said == ["StorageFull True", "True", "True True", "True True"]


def test_everything_goes_back(path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that a full disk prevents are undone completely: topics, trims and offsets are unchanged."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a", b"b")
    store.groups.names()
    with monkeypatch.context() as full:
        full.setattr(store.engine.pages, "write", _no_room)
        full.setattr(store.engine.disk_space, "to_send", lambda: False)
        for attempt in (
            lambda: store.delete_topic("orders"),
            lambda: store.topics.create("new", 1, store.topics.get("orders").retention, 10),
            lambda: store.trim(log, 1),
            lambda: put(store, log, b"c"),
        ):
            with pytest.raises(StorageFull):
                attempt()
        assert store.topics.names() == ["orders"]
        assert extent(store, log) == (0, 2)
        assert values(store, log) == [b"a", b"b"]
    more = threading.Event()
    store.watch(log, more.set)
    assert put(store, log, b"c") == 2
    assert more.is_set()
    store.unwatch(log, more.set)
    store.trim(log, 1)
    assert values(store, log, 1) == [b"b", b"c"]


def _no_room(_: object) -> None:
    raise StorageFull("the disk of the store is full")


# maximum of disk space -----------------------------------------------------------------------------------------

CAP = 64 << 20


def used(path: Path) -> int:
    """Return the size of a directory on disk."""
    size = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):
            size += file.lstat().st_blocks * 512
    return size


@pytest.mark.timeout(240)
@pytest.mark.parametrize("count", [300, *nightly(600)])
def test_a_store_keeps_to_its_disk(path: Path, open_store: OpenStore, count: int) -> None:
    """A store keeps to its maximum of disk space under any load, and drops messages of all topics."""
    store = open_store(sync="os", disk_max_bytes=CAP)
    logs = [new_log(store, f"t{number}", milliseconds=None) for number in range(3)]
    most, end = 0, time.monotonic() + 100
    for number in range(count):
        store.append(logs[number % 3], PageColumns([1] * 5, [os.urandom(60_000) for _ in range(5)]))
        most = max(most, used(path))
        assert time.monotonic() < end
    assert most <= CAP
    assert all(low > 0 for low, _ in (extent(store, log) for log in logs))
    held = sum(high - low for low, high in (extent(store, log) for log in logs)) * 60_000
    assert CAP // 8 < held < CAP


def test_the_oldest_go_first(open_store: OpenStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store is too large, an old topic is emptied before a new one loses anything."""
    now = time.time_ns() // 1_000_000
    store = open_store(sync="os", disk_max_bytes=CAP)
    old, new = new_log(store, "old", milliseconds=None), new_log(store, "new", milliseconds=None)
    set_clock(monkeypatch, now)
    put(store, old, *[os.urandom(100_000)] * 50)
    set_clock(monkeypatch, now + 5000)
    while not extent(store, old)[0]:
        put(store, new, *[os.urandom(100_000)] * 10)
    eventually(lambda: extent(store, old)[0] == 50 or extent(store, new)[0] == 0)
    assert extent(store, new)[0] == 0 or extent(store, old)[0] == 50


def test_a_slow_group_cannot_pin_the_disk(path: Path) -> None:
    """A group that reads too slowly gets ``PositionLost`` when its next message was dropped."""
    with connect(path, sync="os", disk_max_bytes=CAP, retention_interval=0.1) as mq:
        mq.create_topic("t", retention=float("inf"))
        with mq.producer("t") as out, mq.consumer("t", group="slow") as slow:
            out.send(b"first")
            assert slow.receive(timeout=10) is not None
            eventually(lambda: out.send_many([os.urandom(200_000) for _ in range(20)]) and _low(mq) > 1, 60)
            with pytest.raises(mqplug.PositionLost) as lost:
                _take_all(slow)
            assert lost.value.low is not None
            slow.seek(mqplug.EARLIEST)
            assert slow.receive(timeout=10) is not None


def _take_all(consumer: mqplug.Consumer) -> None:
    while consumer.receive(timeout=10):
        """Fetched messages are delivered first."""


def _low(mq: mqplug.Client) -> int:
    return mq.watermarks("t")[0].low.coordinates[0]


MEMORY = """
import os
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._store.topics import TopicRetention

def resident():
    with open("/proc/self/status") as status:
        return {line.split()[0]: int(line.split()[1]) >> 10 for line in status if line.startswith("Vm")}

bare = resident()["VmRSS:"]
memory, topics, partitions, pages = map(int, sys.argv[2:])
store = open_store(path, store_settings(sync="os", memory_max_bytes=memory << 20))
logs = [log for n in range(topics) for log in store.topics.create(f"t{n}", partitions, TopicRetention(), 30).logs]
for _ in range(3):
    for log in logs:
        put(store, log, os.urandom(2000))
for log in logs:
    assert len(values(store, log)) == 3
large = [os.urandom(1000) for _ in range(250)]
for _ in range(pages):
    put(store, logs[0], *large)
offset = 0
while slices := store.read(logs[0], offset):
    offset = slices[-1].end
statistics(store)
print(resident()["VmHWM:"] - bare, flush=True)
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("memory", "topics", "partitions", "pages"),
    [(64, 1000, 1, 600), *nightly((64, 2000, 1, 1500), (256, 1000, 10, 1500))],
)
def test_memory_has_a_ceiling(path: Path, memory: int, topics: int, partitions: int, pages: int) -> None:
    """With thousands of logs, and hundreds of megabytes written and read, a process keeps to its memory limit."""
    with python(MEMORY, path, memory, topics, partitions, pages) as process:
        assert int(line(process)) < memory
