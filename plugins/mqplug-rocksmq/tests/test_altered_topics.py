"""Changes of a topic's retention: in force at once, in every process, and after a kill."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rocksmq_stores import OpenStore, eventually, extent, line, new_log, put, python
from store_seam import OnceRequest

import mqplug
from mqplug.spi import AlterTopic

OWNER = """
mq = mqplug.connect("rocksmq", path=str(path), retention_interval=100_000, sync=sys.argv[2])
mq.create_topic("orders", partitions=2, retention=3600, retention_bytes=10**9)
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("sync", ["always", "os"])
def test_a_change_outlives_its_owner(path: Path, sync: str) -> None:
    """If the owner is killed right after the call, the next one has the change, in every sync mode."""
    with python(OWNER, path, sync) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path), sync=sync) as mq:
            changed = mq.alter_topic("orders", retention=7200)
            owner.send_signal(signal.SIGKILL)
            assert owner.wait(20) == -signal.SIGKILL
            assert mq.describe("orders") == changed
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        assert mq.describe("orders") == changed
        assert (changed.retention, changed.retention_bytes, len(changed.logs)) == (7200, 10**9, 2)


def test_a_process_learns_what_another_changed(path: Path) -> None:
    """The owner and its clients see a change by any of them at once, and excess messages are dropped at once."""
    with python(OWNER, path, "os") as owner, mqplug.connect("rocksmq", path=str(path)) as one:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as other:
            assert one.alter_topic("orders", retention_bytes=10**6) == other.describe("orders")
            with one.producer("orders") as out:
                out.send_many([mqplug.Record(os.urandom(400_000), partition=1) for _ in range(20)])
            low = other.watermarks("orders")[1].low
            assert other.alter_topic("orders", retention=timedelta(seconds=0)) == one.describe("orders")
            eventually(lambda: other.watermarks("orders")[1].low > low)


def test_a_repeated_change_does_not_undo_a_later_one(path: Path) -> None:
    """A change that is sent again because its answer was lost does not undo later changes."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        store: Any = mq._connection
        request = OnceRequest(os.urandom(16))
        assert store.administer(AlterTopic("orders", 60.0), 10, request).retention == 60
        mq.alter_topic("orders", retention=120)
        assert store.administer(AlterTopic("orders", 60.0), 10, request._replace(again=True)).retention == 120


def test_a_smaller_limit_is_kept_at_once(open_store: OpenStore) -> None:
    """A partition above its new limit is trimmed long before the next round, even if nothing is sent."""
    store = open_store(sync="os", retention_interval=100_000)
    log = new_log(store, "orders", size=100 << 20)
    for _ in range(40):
        put(store, log, os.urandom(200_000))
    store.retain("orders", {"size": 3 << 20})
    eventually(lambda: extent(store, log)[0] > 0)
    low, high = extent(store, log)
    assert 3 << 20 <= (high - low) * 200_000 <= (4 << 20) + 400_000


def test_a_larger_limit_spares_what_is_there(open_store: OpenStore) -> None:
    """After a limit is raised, later sends are held to the new one."""
    store = open_store(sync="os", retention_interval=100_000)
    log = new_log(store, "orders", size=1 << 20)
    put(store, log, b"x")
    store.retain("orders", {"size": None})
    for _ in range(40):
        put(store, log, os.urandom(200_000))
    store.enforce_retention()
    assert extent(store, log) == (0, 41)


def test_options_are_refused_before_any_io(path: Path) -> None:
    """A rocksmq topic has no options: they are refused without asking the owner."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        with pytest.raises(mqplug.ConfigError, match="no option 'ttl'"):
            mq.alter_topic("never-made", options={"ttl": 1})
        with pytest.raises(mqplug.ConfigError, match="no option 'ttl'"):
            mq.create_topic("orders", options={"ttl": 1})
        assert mq.topics() == []
