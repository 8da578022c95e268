"""Messages of Milvus' own RocksMQ, copied into a backend."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from rocksdict import Options, Rdict

import mqplug
import mqplug_rocksmq

FIRST_ID = 470673835878252919
TOPICS = {"by-dev-rootcoord-dml_0": 2500, "by-dev-rootcoord-dml_1": 3, "by-dev-rootcoord-dml_10": 4, "empty": 0}


@pytest.fixture
def milvus(tmp_path):
    """The directory of a RocksMQ, with the keys that Milvus 2.3 writes: topics share one counter."""
    path = tmp_path / "rocksmq"
    for name, content in (("rocksmq", messages()), ("rocksmq_meta_kv", metadata())):
        database = Rdict(str(tmp_path / name), Options(raw_mode=True))
        for key, value in content:
            database[key] = value
        database.close()
    return path


def ids(topic):
    """Return the ids of a topic's messages."""
    return range(FIRST_ID + list(TOPICS).index(topic), FIRST_ID + 4 * TOPICS[topic], 4)


def messages():
    """Return the messages as Milvus' keys and values."""
    return [(f"{topic}/{number}".encode(), f"{topic} {number}".encode()) for topic in TOPICS for number in ids(topic)]


def metadata():
    """Return the metadata as Milvus' keys and values."""
    return [(f"topic_id/{topic}".encode(), b"1") for topic in TOPICS] + [(b"rmq_id", bytes(8))]


def run(*arguments):
    """Run the command, and return its result."""
    (command,) = (each for each in mqplug_rocksmq.mqplug_commands() if each.name == "import-milvus")
    return CliRunner().invoke(command, [str(each) for each in arguments])


def test_all_messages_are_copied(milvus, tmp_path):
    """Each topic has its messages in order, and only its own; empty ones exist; each old id has its new one."""
    store, table = tmp_path / "store", tmp_path / "ids"
    result = run(milvus, f"rocksmq://{store}", "--ids", table)
    assert result.exit_code == 0, result.output
    assert "2500 messages  by-dev-rootcoord-dml_0\n" in result.output
    new = {(each["topic"], each["old"]): each["new"] for each in map(json.loads, table.read_text().splitlines())}
    with mqplug.connect(f"rocksmq://{store}") as mq:
        assert sorted(mq.topics()) == sorted(TOPICS)
        for topic in TOPICS:
            stored = list(mq.read(topic))
            assert [each.value for each in stored] == [f"{topic} {number}".encode() for number in ids(topic)]
            assert [str(each.id) for each in stored] == [new[topic, number] for number in ids(topic)]


def test_the_files_are_not_changed(milvus, tmp_path):
    """Milvus' files and their folder are as they were, so that it may run on them."""
    before = {file: file.read_bytes() for file in milvus.parent.rglob("*") if file.is_file()}
    assert run(milvus, f"rocksmq://{tmp_path / 'store'}").exit_code == 0
    folders = milvus, milvus.with_name("rocksmq_meta_kv")
    assert {file: file.read_bytes() for folder in folders for file in folder.rglob("*")} == before


def test_some_topics(milvus, tmp_path):
    """Only the named topics are copied, and an unknown one is refused with the names of those that are there."""
    store = f"rocksmq://{tmp_path / 'store'}"
    result = run(milvus, store, "--topic", "dml_0")
    assert (result.exit_code, "by-dev-rootcoord-dml_10" in result.output) == (2, True)
    assert run(milvus, store, "--topic", "by-dev-rootcoord-dml_1").exit_code == 0
    with mqplug.connect(store) as mq:
        assert mq.topics() == ["by-dev-rootcoord-dml_1"]


def test_an_existing_topic(milvus, tmp_path):
    """A topic that exists is never appended to: the error says what to do instead."""
    store = f"rocksmq://{tmp_path / 'store'}"
    assert run(milvus, store).exit_code == 0
    error = run(milvus, store).exception
    assert isinstance(error, mqplug.TopicExists)
    assert "--topic" in error.fix


def test_not_milvus(tmp_path):
    """A directory without Milvus' two databases is refused, with the one that is expected."""
    error = run(tmp_path, "memory:").exception
    assert isinstance(error, mqplug.ConfigError)
    assert "_meta_kv" in str(error)


def test_a_store_names_the_command(milvus):
    """Whoever opens Milvus' directory as a store is told of the command."""
    with pytest.raises(mqplug.ConfigError, match="import-milvus"):
        mqplug.connect(f"rocksmq://{milvus}")
