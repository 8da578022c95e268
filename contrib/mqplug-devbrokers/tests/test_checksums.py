"""Checksums: jars that differ from the published ones are never run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mqplug_devbrokers import BrokerError, KafkaServer, _jars, _pulsar_files, spark_kafka_jars
from mqplug_devbrokers._cache import cache_root
from mqplug_devbrokers._jars import check_jars
from mqplug_devbrokers._kafka_files import VERSIONS
from mqplug_devbrokers._tools import template

NAMES = [
    *(f"kafka-{version}" for version in VERSIONS.values()),
    *(f"pulsar-{version}" for version in _pulsar_files.VERSIONS.values()),
]


@pytest.mark.parametrize("name", NAMES)
def test_each_version_has_its_checksums(name: str) -> None:
    """Each version has a list of more than 40 jars with SHA-256 checksums."""
    lines = template(f"{name}.sha256").splitlines()
    assert len(lines) > 40
    assert all(len(line.split("  ")[0]) == 64 and line.endswith(".jar") for line in lines)


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of Kafka's jars in a separate cache."""
    version = VERSIONS["4.3"]
    KafkaServer(version="4.3").fetch()
    folder = tmp_path / "cache" / f"kafka-{version}-jars"
    shutil.copytree(cache_root() / folder.name, folder)
    monkeypatch.setenv("MQPLUG_DEVBROKERS_CACHE", str(folder.parent))
    return folder


def test_a_changed_jar_is_never_run(jars: Path) -> None:
    """A server with a changed jar does not start; the error names the jar and the fix."""
    changed = min(jars.iterdir())
    with changed.open("ab") as file:
        file.write(b"x")
    server = KafkaServer(version="4.3")
    with pytest.raises(BrokerError, match=rf"1 files in .* differ from those of .*{changed.name}.* delete the folder"):
        server.start()
    assert not server.running


def test_a_missing_or_an_added_jar_is_an_error(jars: Path) -> None:
    """Both a missing jar and one that was not published fail the check."""
    removed = min(jars.iterdir())
    removed.unlink()
    with pytest.raises(BrokerError, match=rf"{removed.name} \(SHA-256 missing"):
        check_jars(jars, "kafka-4.3.1")
    (jars / "added.jar").write_bytes(b"x")
    with pytest.raises(BrokerError, match="2 files"):
        check_jars(jars, "kafka-4.3.1")


def test_the_jars_of_the_connector_of_spark() -> None:
    """The jars for Spark's Kafka connector are exactly those that Spark itself lacks."""
    names = [jar.name.rpartition("-")[0] for jar in spark_kafka_jars()]
    assert names == [
        "commons-pool2",
        "kafka-clients",
        "spark-sql-kafka-0-10_2.13",
        "spark-token-provider-kafka-0-10_2.13",
    ]


def test_a_wrong_download_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download with wrong checksums is not cached, and the next attempt downloads again."""
    monkeypatch.setenv("MQPLUG_DEVBROKERS_CACHE", str(tmp_path))
    monkeypatch.setattr(_jars, "maven", lambda *how: (how[-1] / "other.jar").write_bytes(b"x"))
    for _ in range(2):
        with pytest.raises(BrokerError, match=r"differ from those of kafka-4\.3\.1"):
            KafkaServer(version="4.3").fetch()
    assert not (tmp_path / "kafka-4.3.1-jars").exists()
