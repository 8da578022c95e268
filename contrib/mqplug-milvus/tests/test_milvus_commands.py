"""``mqplug milvus``."""

from __future__ import annotations

import json
import re
from importlib.metadata import entry_points

import pytest
from click.testing import CliRunner
from recordings import answers, plain, replay

import mqplug
from mqplug_cli import run_command

(POINT,) = entry_points(group="mqplug.commands", name="milvus")
COMMANDS = {each.name: each for each in POINT.load()()}
"""The commands, as the command line finds them."""


@pytest.fixture
def url(tmp_path):
    """The URL of a store that holds the recorded topics."""
    pytest.importorskip("mqplug_rocksmq")
    address = f"rocksmq://{tmp_path / 'store'}"
    with mqplug.connect(address) as mq:
        replay(mq, "rocksmq")
    return address


def run(*arguments):
    """Run a command, and return what it printed."""
    name, *rest = map(str, arguments)
    result = CliRunner().invoke(COMMANDS[name], rest)
    assert result.exit_code == 0, result.output
    return result.output


def test_collections(url):
    """Each collection is listed with its fields and their types."""
    listed = [line.split("  ")[1:] for line in run("collections", url).splitlines()]
    assert ["gone", "pk int64, vec float_vector"] in listed
    assert sorted(name for name, _ in listed) == ["gone", "things", "words"]


def test_rows(url):
    """The rows are printed as lines of JSON, as the query answered."""
    found = [json.loads(line) for line in run("rows", "things", url).splitlines()]
    assert {row["pk"]: row for row in found} == plain(answers("rocksmq", "things"))


def test_rows_as_parquet(url, tmp_path):
    """A Parquet file holds the rows."""
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "rows.parquet"
    assert run("rows", "words", url, "--out", file) == f"8 rows in {file}\n"
    found = {row["pk"]: plain(row) for row in parquet.read_table(file).to_pylist()}
    assert found == answers("rocksmq", "words")


def test_tail(url):
    """The events of one collection are printed in order: its creation, then its rows and what removed them."""
    events = [json.loads(line) for line in run("tail", "words", url).splitlines()]
    assert [each["event"] for each in events] == ["created", *["insert"] * 10, *["delete"] * 2]
    assert {each["key"] for each in events[-2:]} == {"k3", "k4"}


def test_tail_from_a_time(url):
    """With --from after all messages, a collection that is given by number has no events."""
    number = run("collections", url).split()[0]
    assert run("tail", number, url, "--from", "2999-01-01T00:00:00") == ""


@pytest.mark.parametrize("name", ["rows", "tail"])
def test_an_unknown_collection(url, name):
    """An unknown collection is refused with those that are there."""
    result = CliRunner().invoke(COMMANDS[name], ["other", url])
    assert result.exit_code == 2
    assert "gone, things, words" in result.output


def test_the_command_line_has_them(capsys):
    """`mqplug milvus` lists these commands, from the package's entry point."""
    assert run_command(["milvus", "--help"]) == 0
    assert re.findall(r"(?m)^  (\w+) ", capsys.readouterr().out.partition("Commands:")[2]) == sorted(COMMANDS)
