"""The verbs that change a backend, over memory: their effects, and their questions."""

from __future__ import annotations

import io
import json
import math
import sys
from contextlib import contextmanager

import pytest
from pseudo_terminal import TerminalProgram

import mqplug
from mqplug_cli import run_command


@pytest.fixture(params=["full", "pulsar"])
def url(request):
    """The URLs of a store with all capabilities, and of one with Pulsar's, which cannot compute with positions."""
    return f"memory://changing-{request.param}?like={request.param}"


@pytest.fixture
def mq(url):
    """A store with ten messages on each of two partitions, of which "billing" has acked 0, 1 and 5."""
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=2)
        with mq.producer("orders") as out:
            for n in range(20):
                out.send(b"%d" % (n // 2), partition=n % 2)
        with mq.consumer("orders", group="billing") as billing:
            for message in (billing.receive(5) for _ in range(20)):
                if message.value in {b"0", b"1", b"5"}:
                    billing.ack(message)
            billing.commit()
        yield mq


@contextmanager
def member(url):
    """A live member of the group."""
    with mqplug.connect(url) as other, other.consumer("orders", group="billing") as billing:
        billing.receive_many(1, 5)
        yield


def done(capsys, *arguments):
    """Return what a successful command prints as JSON."""
    assert run_command([*arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_create(capsys, mq, url):
    """`create` creates a topic with partitions and retention, and reports it."""
    made = done(capsys, "create", url, "bills", "--partitions", "3", "--retention", "2w", "--retention-bytes", "64k")
    assert made == {"topic": "bills", "partitions": 3, "retention": 1209600, "retention_bytes": 65536, "options": {}}
    assert len(mq.partitions("bills")) == 3


def test_create_twice(capsys, mq, url):
    """Creating an existing topic is an error, except for --exist-ok with the same settings."""
    assert run_command(["create", url, "orders", "-p", "2"]) == 1
    assert run_command(["create", url, "orders", "-p", "2", "--exist-ok"]) == 0
    assert run_command(["create", url, "orders", "-p", "3", "--exist-ok"]) == 1


@pytest.mark.parametrize(
    "option", [("--retention", "7"), ("--retention", "soon"), ("--retention-bytes", "1x"), ("-X", "a")]
)
def test_wrong_settings_of_a_topic(capsys, mq, url, option):
    """A time without a unit, an unknown unit, and an option without a value are wrong usage."""
    assert run_command(["create", url, "bills", *option]) == 2
    assert "Error: Invalid value" in capsys.readouterr().err


def test_an_unknown_option_of_the_backend(capsys, mq, url):
    """An option that the backend does not know is an error of the backend, and nothing is created."""
    assert run_command(["create", url, "bills", "-X", "color=red"]) == 1
    assert mq.topics() == ["orders"]


def test_delete(capsys, mq, url):
    """`delete` reports how many messages were lost, and which groups read them."""
    gone = done(capsys, "delete", url, "orders", "--yes")
    assert (gone["topic"], gone["messages"], gone["groups"]) == ("orders", 20, ["billing"])
    assert mq.topics() == []


def test_add_partitions(capsys, mq, url):
    """`add-partitions` grows a topic, and never shrinks it."""
    assert done(capsys, "add-partitions", url, "orders", "4")["partitions"] == 4
    assert run_command(["add-partitions", url, "orders", "3"]) == 1


def test_trim(capsys, mq, url):
    """`trim` removes the messages before a place; a dry run only counts them."""
    if not mq.capabilities.trim:
        assert run_command(["trim", url, "orders", "--before", "-3", "--yes"]) == 1
        return
    planned = done(capsys, "trim", url, "orders", "--before", "-3", "--dry-run")
    assert [row["messages"] for row in planned] == [7, 7]
    assert sum(marks.count for marks in mq.watermarks("orders").values()) == 20
    assert done(capsys, "trim", url, "orders", "--before", "-3", "--partition", "1", "--yes")[0]["messages"] == 7
    assert [marks.count for marks in mq.watermarks("orders").values()] == [10, 3]


def test_alter(capsys, mq, url):
    """`alter` changes the retention, and asks only if the new one is shorter."""
    if not mq.capabilities.alter_topic:
        assert run_command(["alter", url, "orders", "--retention", "1h", "--yes"]) == 1
        return
    assert done(capsys, "alter", url, "orders", "--retention", "1h", "--yes")["retention"] == 3600
    assert run_command(["alter", url, "orders", "--retention", "30m"]) == 2
    assert "which removes 0 messages: this needs confirmation" in capsys.readouterr().err
    assert done(capsys, "alter", url, "orders", "--retention", "forever")["retention"] == "forever"
    assert mq.describe("orders").retention == math.inf


@pytest.mark.parametrize("url", ["full"], indirect=True)
def test_alter_asks_before_the_first_limit(capsys, mq, url):
    """`alter` asks before it limits the size of a topic that had no such limit."""
    assert run_command(["alter", url, "orders", "--retention-bytes", "64k"]) == 2
    assert "which removes some of 20 messages: this needs confirmation" in capsys.readouterr().err
    assert mq.describe("orders").retention_bytes is None


def test_alter_needs_something_to_alter(mq, url):
    """`alter` without a setting is wrong usage."""
    assert run_command(["alter", url, "orders"]) == 2


@pytest.mark.parametrize(
    ("place", "again", "passed"),
    [("earliest", 3, 0), ("latest", 0, 7), ("-6", 1, 2), ("-4", 0, 3), ("@-1h", 3, 0), ("@2999-01-01", 0, 7)],
)
def test_a_dry_run_counts_what_comes_again(capsys, mq, url, place, again, passed):
    """A dry run counts repeated and skipped messages, with the ranges that were acked past the position."""
    before = mq.positions("orders", group="billing")
    rows = done(capsys, "seek", url, "billing", "--to", place, "--dry-run")
    assert [(row["again"], row["passed"], row["exact"]) for row in rows] == [(again, passed, True)] * 2
    assert mq.positions("orders", group="billing") == before


def test_a_seek_does_what_its_dry_run_said(capsys, mq, url):
    """A seek moves the group to where the dry run said, on all partitions."""
    planned = done(capsys, "seek", url, "billing", "--to", "-2", "--dry-run")
    assert done(capsys, "seek", url, "billing", "--to", "-2", "--yes") == planned
    assert list(mq.lag("orders", group="billing").values()) == [2, 2]


def test_a_seek_to_a_message(capsys, mq, url):
    """A seek to an id moves one partition, and that message comes first."""
    wanted = next(message for message in mq.read("orders", partitions=[1]) if message.value == b"7")
    (row,) = done(capsys, "seek", url, "billing", "--to", str(wanted.id), "--yes")
    assert (row["partition"], row["again"], row["passed"]) == (1, 0, 4)
    moved = mq.positions("orders", group="billing")[1].position
    assert moved == mq.resolve("orders", mqplug.before(wanted.id))[1]


def test_a_seek_needs_a_group(capsys, mq, url):
    """A missing group is an error, so that a typo creates no group; --create with a topic allows it."""
    assert run_command(["seek", url, "biling", "--to", "latest", "--topic", "orders", "--yes"]) == 1
    assert "Did you mean 'billing'?" in capsys.readouterr().err
    assert run_command(["seek", url, "fresh", "--to", "latest", "--create", "--yes"]) == 2
    assert run_command(["seek", url, "fresh", "--to", "latest", "--create", "--topic", "orders", "--yes"]) == 0
    assert list(mq.lag("orders", group="fresh").values()) == [0, 0]


@pytest.mark.parametrize(
    "arguments", [["seek", "--to", "latest"], ["seek", "--to", "latest", "--dry-run"], ["delete-group"]]
)
def test_a_group_with_members_is_left_alone(capsys, mq, url, arguments):
    """A group with live members is neither moved nor deleted, and the error names them."""
    verb, *options = arguments
    with member(url):
        (live,) = mq.describe_group("billing").members
        assert run_command([verb, url, "billing", *options, *([] if "--dry-run" in options else ["--yes"])]) == 1
        assert live.name in capsys.readouterr().err
    assert list(mq.lag("orders", group="billing").values()) != [0, 0]


def test_delete_group(capsys, mq, url):
    """`delete-group` removes a group from all topics, and lists these topics."""
    assert done(capsys, "delete-group", url, "billing", "--yes") == {"group": "billing", "topics": ["orders"]}
    assert mq.groups() == []


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["delete", "orders"], "20 messages, read by billing: this needs confirmation"),
        (["delete-group", "billing"], "Delete the group billing of memory with its positions on orders"),
        (["seek", "billing", "--to", "latest"], "Move the group billing of memory: 0 messages come again, and 14"),
    ],
)
def test_without_a_terminal_nothing_is_destroyed(capsys, mq, url, monkeypatch, arguments, question):
    """A destructive verb asks first, with what would be lost and where; without a terminal it is refused."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    verb, *rest = arguments
    assert run_command([verb, url, *rest]) == 2
    assert question in capsys.readouterr().err
    assert mq.topics() == ["orders"]
    assert list(mq.lag("orders", group="billing").values()) == [8, 8]


PROGRAM = """
import sys, mqplug
from mqplug_cli._app import run_program
with mqplug.connect("memory://asked") as mq:
    mq.create_topic("orders")
    code = run_program(["delete", "memory://asked", "orders"])
    print("there are", len(mq.topics()), "topics")
    sys.exit(code)
"""
CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.mark.parametrize(
    ("answer", "code"),
    [("y\n", 0), ("perhaps\nYes\n", 0), ("n\n", 1), ("\n", 1), (CTRL_D, 1), (CTRL_C, 130), ("SIGTERM", 143)],
)
def test_a_question_on_a_terminal(answer, code):
    """Yes confirms; any other answer, Ctrl-C or SIGTERM ends the command with 1 and changes nothing."""
    with TerminalProgram([sys.executable, "-c", PROGRAM], TERM="xterm") as program:
        program.read_until("[y/N]")
        if answer == "SIGTERM":
            program.process.terminate()
        else:
            program.type(answer)
        assert program.wait(60) == code
        assert f"there are {int(code != 0)} topics" in program.output
        assert "Traceback" not in program.output
