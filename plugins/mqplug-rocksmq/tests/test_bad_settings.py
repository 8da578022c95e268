"""Invalid settings: typed errors, before anything is changed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
from refused_openings import connect, held, untouched
from rocksmq_stores import python

import mqplug
from mqplug import AlreadyOpen, ConfigError, Timeout
from mqplug_rocksmq import RocksMQSettings


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"disk_max_bytes": 1000}, "disk_max_bytes"),
        ({"disk_max_bytes": 1 << 70}, "disk_max_bytes"),
        ({"memory_max_bytes": 1000}, "memory_max_bytes"),
        ({"memory_max_bytes": 1 << 70}, "memory_max_bytes"),
        ({"message_max_bytes": 0}, "message_max_bytes"),
        ({"message_max_bytes": 1 << 30}, "message_max_bytes"),
        ({"disk_max_bytes": 64 << 20, "message_max_bytes": 32 << 20}, "an eighth of disk_max_bytes"),
        ({"memory_max_bytes": 64 << 20, "message_max_bytes": 9 << 20}, "an eighth of memory_max_bytes"),
        ({"sync": "never"}, "sync"),
        ({"sync": "interval", "sync_interval": 0}, "sync_interval"),
        ({"sync": "interval", "sync_interval": float("nan")}, "sync_interval"),
        ({"sync_interval": 1.0}, r"sync_interval.*sync is always.*Set sync=interval"),
        ({"sync": "os", "sync_interval": 1.0}, "sync is os"),
        ({"retention_interval": -1}, "retention_interval"),
        ({"retention_interval": float("inf")}, "retention_interval"),
        ({"create": "perhaps"}, "create"),
        ({"memory": 1}, "memory"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    """Impossible or contradictory settings are refused before anything is created."""
    with untouched(tmp_path), pytest.raises(ConfigError, match=complaint):
        connect(tmp_path / "new", **settings)


@pytest.mark.parametrize(
    "query",
    [
        "sync=never",
        "sync_interval=often&sync=interval",
        "retention_interval=1h",
        "message_max_bytes=1.5",
        "disk_max_bytes=lots",
        "memory_max_bytes=",
        "create=perhaps",
        "pth=x",
    ],
)
def test_urls_that_cannot_be(closed: Path, query: str) -> None:
    """An invalid setting in a URL is named before the store is opened."""
    with untouched(closed), pytest.raises(ConfigError, match=f"rocksmq.{query.partition('=')[0]}"):
        mqplug.connect(f"rocksmq://{closed}?{query}")


def test_settings_that_differ(path: Path) -> None:
    """Two clients of one process cannot open one store with different settings; the first one continues to work."""
    with connect(path) as first:
        with pytest.raises(ConfigError, match="differs"):
            connect(path, disk_max_bytes=64 << 20)
        assert first.topics() == []


def test_settings_of_a_guest(path: Path) -> None:
    """A client process may have other settings than the owner: they apply once it owns the store itself."""
    code = 'mq = mqplug.connect("rocksmq", path=str(path), disk_max_bytes=64 << 20); print(mq.topics())'
    with connect(path) as mq:
        mq.create_topic("orders")
        with python(code, path) as guest:
            assert guest.communicate(timeout=100)[0].strip() == "['orders']"


def test_it_is_still_the_store(closed: Path) -> None:
    """After all these refusals the store is unchanged."""
    for settings in ({"disk_max_bytes": 1}, {"sync_interval": 1.0}):
        with suppress(ConfigError):
            connect(closed, **settings)
    with held(closed, ""), suppress(AlreadyOpen, Timeout):
        mqplug.connect("rocksmq", path=str(closed), timeout=0.1)
    with connect(closed) as mq:
        assert [message.value for message in mq.read("orders")] == [b"a"]


def test_each_setting_is_documented_with_its_cost() -> None:
    """The operations page has a row for each setting but the path, in the order of the class, with its default."""
    page = (Path(__file__).parents[1] / "docs" / "operations.md").read_text()
    rows = [row.split("|")[1:4] for row in page.partition("\n## Statistics")[0].splitlines() if row.startswith("| `")]
    assert [row[0].strip(" `") for row in rows] == [each.name for each in attrs.fields(RocksMQSettings)][1:]
    assert all(default.strip() and len(cost) > 20 for _, default, cost in rows)
