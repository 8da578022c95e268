"""The retention of topics that set none: seven days, or the settings of the client that creates them."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

import mqplug
from mqplug_cli import run_command

WEEK = 7 * 24 * 3600.0


def kept(client, **said):
    """Return what a new topic retains: seconds, and bytes of each partition."""
    client.create_topic("kept", **said)
    info = client.describe("kept")
    client.delete_topic("kept")
    return info.retention, info.retention_bytes


@pytest.mark.parametrize(
    ("settings", "said", "expected"),
    [
        ({}, {}, (WEEK, None)),
        ({"retention": 3600, "retention_bytes": 10**6}, {}, (3600.0, 10**6)),
        ({"retention": timedelta(seconds=7)}, {}, (7.0, None)),
        ({"retention": "12h"}, {}, (43200.0, None)),
        ({"retention": math.inf}, {}, (math.inf, None)),
        ({"retention": 3600, "retention_bytes": 10**6}, {"retention": 60}, (60.0, 10**6)),
        ({"retention": 3600, "retention_bytes": 10**6}, {"retention_bytes": 5}, (3600.0, 5)),
    ],
)
def test_settings_say_what_new_topics_retain(tmp_path, settings, said, expected):
    """Settings determine what new topics retain, and each call to ``create_topic`` can override them."""
    with mqplug.connect("rocksmq", path=tmp_path / "mq", **settings) as client:
        assert kept(client, **said) == expected


def test_each_connection_has_its_own(tmp_path):
    """A client's defaults apply to the topics that it creates, whichever process owns the store."""
    with (
        mqplug.connect("rocksmq", path=tmp_path, retention=60) as one,
        mqplug.connect("rocksmq", path=tmp_path, retention=timedelta(days=1)) as other,
    ):
        assert (kept(one)[0], kept(other)[0]) == (60.0, 86400.0)


@pytest.mark.parametrize("number", [0, 7, 59])
def test_a_number_below_a_minute_is_refused(tmp_path, number):
    """A number below 60 is refused in keywords, URLs and files: 7 would mean seven seconds."""
    says = rf"'rocksmq.retention'.*: .*{number} seconds: .*timedelta\(days={number}\).*'{number}d'"
    path = tmp_path / "mqplug.toml"
    path.write_text(f"[rocksmq]\npath = '{tmp_path}/mq'\nretention = {number}\n")
    for target, settings in (
        ("rocksmq", {"path": tmp_path / "mq", "retention": number}),
        (f"rocksmq://{tmp_path}/mq?retention={number}", {}),
        (path, {}),
    ):
        with pytest.raises(mqplug.ConfigError, match=says):
            mqplug.connect(target, **settings)
    assert not (tmp_path / "mq").exists()


def test_a_file_of_milvus_says_it_in_minutes_and_megabytes(tmp_path):
    """Milvus' retention is the default of topics that are created here; messages come and go."""
    pytest.importorskip("yaml")
    path = tmp_path / "milvus.yaml"
    path.write_text(
        f"etcd: {{endpoints: localhost}}\nrocksmq:\n  path: {tmp_path}/rdb_data\n  lrucacheratio: 0.06\n"
        "  rocksmqPageSize: 67108864\n  retentionTimeInMinutes: 4320\n  retentionSizeInMB: 8192\n"
        "  compactionInterval: 86400\n  compressionTypes: 0,0,7,7,7\n"
    )
    with mqplug.connect(path, create=True) as client:
        assert kept(client) == (3 * 24 * 3600.0, 8192 << 20)
        client.create_topic("by-dev-rootcoord-dml_0")
        with client.producer("by-dev-rootcoord-dml_0") as out:
            sent = out.send(b"insert 1")
        assert [message.id for message in client.read("by-dev-rootcoord-dml_0")] == [sent]
    path.write_text(path.read_text().replace("4320", "-1").replace("8192", "-1"))
    with mqplug.connect(path) as client:
        assert kept(client) == (math.inf, None)


@pytest.fixture
def of_milvus(tmp_path):
    """A ``milvus.yaml`` whose data directory has no RocksMQ yet, as with a Milvus that uses Kafka."""
    pytest.importorskip("yaml")
    (tmp_path / "data").mkdir()
    path = tmp_path / "milvus.yaml"
    path.write_text(f"mq: {{type: default}}\nrocksmq: {{path: {tmp_path}/data/rocksmq}}\n")
    return path


def test_nothing_is_created_where_a_file_of_milvus_points(of_milvus, tmp_path):
    """A client without Milvus' variables gets an error that names them, and creates no store in Milvus' directory."""
    with pytest.raises(mqplug.ConfigError, match=r"no store at .*'rocksmq.path' in .*milvus.yaml .*MQ_TYPE"):
        mqplug.connect(of_milvus)
    assert run_command(["doctor", "--config", str(of_milvus)]) == 1
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("said", [{"create": True}, {"path": "elsewhere"}])
def test_who_says_it_gets_a_store(of_milvus, tmp_path, monkeypatch, said):
    """``create=True``, or an explicit path, creates a store despite a file of Milvus."""
    monkeypatch.chdir(tmp_path)
    with mqplug.connect(of_milvus, **said) as client:
        client.create_topic("t")
    with mqplug.connect(of_milvus, **{**said, "create": False}) as client:
        assert client.topics() == ["t"]


@pytest.mark.parametrize("said", [{}, {"create": True}])
def test_the_files_of_milvus_are_named(of_milvus, tmp_path, said):
    """Where Milvus keeps its RocksMQ, nothing is created, and the error names the files there."""
    (tmp_path / "data" / "rocksmq_meta_kv").mkdir()
    with pytest.raises(mqplug.ConfigError, match=r"belongs to Milvus' own RocksMQ.*rocksmq_meta_kv"):
        mqplug.connect(of_milvus, **said)
    with pytest.raises(mqplug.ConfigError, match=r"belongs to Milvus' own RocksMQ.*rocksmq_meta_kv"):
        mqplug.connect("rocksmq", path=tmp_path / "data" / "rocksmq")
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["rocksmq_meta_kv"]


def test_the_store_of_a_milvus_is_refused(tmp_path):
    """A directory in which Milvus keeps its own RocksMQ is not opened, and stays unchanged."""
    from rocksdict import Rdict

    database = Rdict(str(tmp_path / "rdb_data"))
    database["by-dev"] = "theirs"
    database.close()
    before = {each.name: each.stat().st_mtime_ns for each in (tmp_path / "rdb_data").iterdir()}
    with pytest.raises(mqplug.Error, match="rdb_data"):
        mqplug.connect("rocksmq", path=tmp_path / "rdb_data")
    assert {each.name: each.stat().st_mtime_ns for each in (tmp_path / "rdb_data").iterdir()} == before
