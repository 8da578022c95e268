"""The choice of a backend: the table of docs/configuration.md, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_backends import Fakes, fakes

import mqplug

__all__ = ["fakes"]

ROCKSMQ = {"rocksmq": {"path": "./mq"}}
PULSAR = {"pulsar": {"service_url": "pulsar://host:6650"}}
KAFKA = {"kafka": {"servers": ["host:9092"]}}


@pytest.mark.parametrize(
    ("mode", "sections", "chosen"),
    [
        ("standalone", ROCKSMQ | PULSAR | KAFKA, "rocksmq"),
        ("standalone", PULSAR | KAFKA, "pulsar"),
        ("standalone", ROCKSMQ | KAFKA, "rocksmq"),
        ("standalone", KAFKA, "kafka"),
        ("standalone", ROCKSMQ, "rocksmq"),
        ("cluster", ROCKSMQ | PULSAR | KAFKA, "pulsar"),
        ("cluster", ROCKSMQ | KAFKA, "kafka"),
        ("cluster", PULSAR | KAFKA, "pulsar"),
        ("cluster", KAFKA, "kafka"),
        (None, ROCKSMQ | PULSAR | KAFKA, "rocksmq"),
    ],
)
def test_the_mode_orders_the_configured_sections(fakes: Fakes, mode: str | None, sections: Any, chosen: str) -> None:
    """Without a name, the first configured backend in the mode's order is chosen; the default mode is standalone."""
    with mqplug.connect({**({"mode": mode} if mode else {}), **sections}) as mq:
        assert mq.backend == chosen


@pytest.mark.parametrize(
    ("mode", "sections", "says"),
    [
        ("standalone", {}, r"none is configured.*Write \[rocksmq\]"),
        ("cluster", {}, r"none is configured.*Write \[kafka\]"),
        ("cluster", ROCKSMQ, r"rocksmq is never chosen in mode 'cluster'.*Write \[kafka\]"),
        ("standalone", {"kafka": {"tls": True}}, "kafka has no servers"),
        ("standalone", {"nats": {"hosts": ["host"]}}, "nats is chosen only by name"),
        ("standalone", {"memory": {"name": "x"}}, "memory is chosen only by name"),
    ],
)
def test_without_a_choice_it_says_what_to_write(fakes: Fakes, mode: str, sections: Any, says: str) -> None:
    """If nothing can be chosen, the error lists what is configured, why that is not enough, and what to write."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect({"mode": mode, **sections})


@pytest.mark.parametrize("mode", ["standalone", "cluster"])
@pytest.mark.parametrize("name", ["kafka", "pulsar", "nats"])
def test_a_named_backend_wins(fakes: Fakes, mode: str, name: str) -> None:
    """The setting `backend` overrides the order."""
    sections = {**ROCKSMQ, **PULSAR, **KAFKA, "nats": {"hosts": ["host"]}}
    with mqplug.connect({"backend": name, "mode": mode, **sections}) as mq:
        assert mq.backend == name


def test_memory_is_there_when_it_is_named() -> None:
    """The memory backend needs no section."""
    with mqplug.connect({"backend": "memory", "mode": "cluster"}) as mq:
        assert mq.backend == "memory"


def test_rocksmq_in_cluster_mode_is_an_error(fakes: Fakes) -> None:
    """RocksMQ, a log of one machine, is refused in cluster mode."""
    with pytest.raises(mqplug.ConfigError, match=r"a log of one machine.*mode is 'cluster'"):
        mqplug.connect({"backend": "rocksmq", "mode": "cluster", **ROCKSMQ})


@pytest.mark.parametrize("mode", ["Cluster", "distributed", "", 3])
def test_there_are_two_modes(fakes: Fakes, mode: object) -> None:
    """Any other mode is an error that names both."""
    with pytest.raises(mqplug.ConfigError, match="'mode': expected one of 'standalone', 'cluster'"):
        mqplug.connect({"mode": mode, **KAFKA})


@pytest.mark.parametrize(
    ("name", "section", "expected"),
    [
        ("kafka", {"servers": ["host:9092"]}, True),
        ("kafka", {"servers": []}, False),
        ("kafka", {"servers": [" "]}, False),
        ("kafka", {"tls": True}, False),
        ("kafka", {}, False),
        ("rocksmq", {"path": "./mq"}, True),
        ("rocksmq", {"path": ""}, False),
        ("rocksmq", {"sync": "os"}, False),
        ("pulsar", {"service_url": "pulsar://host"}, True),
        ("pulsar", {"admin_url": "http://host"}, False),
        ("nats", {"hosts": ["host"]}, True),
        ("nats", {"token": "x"}, False),
        ("memory", {"name": "x"}, False),
    ],
)
def test_a_section_counts_when_it_has_an_address(fakes: Fakes, name: str, section: Any, expected: bool) -> None:
    """A section counts as configured if it has an address."""
    assert mqplug.configured(name, {name: section}) is expected


def test_a_url_configures_its_backend(fakes: Fakes) -> None:
    """A URL with a host or a path configures its backend."""
    assert mqplug.configured("kafka", {"url": "kafka://host"})
    assert mqplug.configured("rocksmq", {"url": "rocksmq:///mq"})
    assert not mqplug.configured("kafka", {"url": "kafka://"})
    assert not mqplug.configured("pulsar", {"url": "kafka://host"})


def test_configured_looks_where_connect_looks(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment, the file in the working directory, and a named file are searched by configured()."""
    assert not mqplug.configured("kafka")
    Path("mqplug.toml").write_text("[kafka]\nservers = ['host']\n")
    assert mqplug.configured("kafka")
    assert not mqplug.configured("pulsar")
    monkeypatch.setenv("MQPLUG_PULSAR_SERVICE_URL", "pulsar://host")
    assert mqplug.configured("pulsar")
    other = tmp_path / "other.toml"
    other.write_text("[rocksmq]\npath = 'x'\n")
    assert mqplug.configured("rocksmq", other)
    assert not mqplug.configured("kafka", other)


@pytest.mark.parametrize("wrong", [None, 3, b"kafka"])
def test_configured_wants_a_name(wrong: Any) -> None:
    """A backend's name must be a str."""
    with pytest.raises(TypeError, match="a backend's name must be a str"):
        mqplug.configured(wrong)


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"pulsar": {"servce_url": "x"}, **KAFKA}, "'pulsar.servce_url'.*'pulsar.service_url'"),
        ({"rocksmq": {"paht": "x"}, **KAFKA}, "'rocksmq.paht'.*'rocksmq.path'"),
        ({"kafka": {"server": "x"}}, "'kafka.server'.*'kafka.servers'"),
        ({"kafka": {"brokersList": "x"}}, "'kafka.brokersList'.*Set servers.*milvus in its name"),
        ({"pulsar": {"adress": "x"}, **KAFKA}, "'pulsar.adress'.*Set service_url"),
        ({"kafka": {"bootstrap.servers": "x"}}, "'kafka.bootstrap.servers'.*Set servers"),
    ],
)
def test_a_misspelt_address_chooses_no_other_backend(fakes: Fakes, sections: Any, says: str) -> None:
    """A section with a misspelt address is an error, and is not skipped silently."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect(sections)


def test_a_backend_and_a_url_agree(fakes: Fakes) -> None:
    """A source that names two different backends is an error."""
    with pytest.raises(mqplug.ConfigError, match="names 'kafka', but 'url' names 'pulsar'"):
        mqplug.connect({"backend": "kafka", "url": "pulsar://host"})


def test_choosing_loads_the_chosen_alone(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections that are not chosen do not load their plugins."""
    loaded = []
    monkeypatch.setattr(type(fakes["kafka"]), "__getattribute__", _watch(loaded))
    with mqplug.connect({"rocksmq": {"sync": "os"}, **PULSAR, **KAFKA}):
        assert set(loaded) == {"pulsar"}


def _watch(loaded: list[str]) -> Any:
    def get(self: Any, name: str) -> Any:
        loaded.append(object.__getattribute__(self, "name"))
        return object.__getattribute__(self, name)

    return get


def test_configured_checks_what_it_reads(fakes: Fakes) -> None:
    """A wrong key above the sections is an error of configured(), too."""
    with pytest.raises(mqplug.ConfigError, match="'url': expected str, not list"):
        mqplug.configured("kafka", {"url": ["kafka://host"]})
