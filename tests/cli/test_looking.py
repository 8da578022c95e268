"""The read-only verbs, over memory."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager

import pytest
from pseudo_terminal import TerminalProgram

import mqplug
from mqplug_cli import run_command


@pytest.fixture(params=["full", "pulsar"])
def url(request):
    """A store with the topic "orders" of two partitions: "billing" has acked 0, 1 and 3 of the five messages of one."""
    url = f"memory://looking-{request.param}?like={request.param}"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=2, retention=3600)
        with mq.producer("orders") as out:
            for value in b"01234":
                out.send(bytes([value]), partition=0)
        with mq.consumer("orders", group="billing") as billing:
            for message in billing.receive_many(5):
                if message.value in {b"0", b"1", b"3"}:
                    billing.ack(message)
            billing.commit()
        yield url


def found(capsys, *arguments):
    """Return what a successful command prints as JSON."""
    assert run_command([*arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def printed(capsys, *arguments):
    """Return what a successful command prints."""
    assert run_command(arguments) == 0
    return capsys.readouterr().out


@contextmanager
def member(url):
    """A live member of the group."""
    with mqplug.connect(url) as mq, mq.consumer("orders", group="billing") as billing:
        billing.receive_many(1, 5)
        yield


def test_describe(capsys, url):
    """`describe` shows the settings, the groups, and the range of each partition with its first and last id."""
    described = found(capsys, "describe", url, "orders")
    assert (described["partitions"], described["retention"], described["groups"]) == (2, 3600, ["billing"])
    first, second = described["logs"]
    assert (first["messages"], second["messages"], second["first_id"]) == (5, 0, None)
    assert mqplug.MessageId.parse(first["first_id"]) < mqplug.MessageId.parse(first["last_id"])
    assert "orders: 2 partitions, retention 1h" in printed(capsys, "describe", url, "orders")


def test_endless_retention_is_a_word(capsys):
    """Unlimited retention is "forever" in JSON, which has no infinity."""
    with mqplug.connect("memory://endless") as mq:
        mq.create_topic("orders", retention=float("inf"))
        assert found(capsys, "describe", "memory://endless", "orders")["retention"] == "forever"


def test_offsets_of_a_time(capsys, url):
    """`offsets --at` shows a position for each partition, the number of messages to the end, and its text."""
    rows = found(capsys, "offsets", url, "orders", "--at", "-1h")
    assert [(row["partition"], row["messages"]) for row in rows] == [(0, 5), (1, 0)]
    assert mqplug.Position.parse(rows[0]["place"]).log.topic == "orders"
    assert found(capsys, "offsets", url, "orders", "--at", "2999-01-01")[0]["messages"] == 0


def test_a_time_is_wanted(capsys, url):
    """An invalid time is wrong usage."""
    assert run_command(["offsets", url, "orders", "--at", "noon"]) == 2
    assert "is not a time" in capsys.readouterr().err


def test_groups(capsys, url):
    """`groups` lists the groups with their members, of one topic or of all."""
    assert found(capsys, "groups", url) == found(capsys, "groups", url, "orders") == [{"name": "billing", "members": 0}]
    with member(url):
        assert found(capsys, "groups", url)[0]["members"] == 1


def test_state(capsys, url):
    """`state` shows the position with the ranges that are acked past it, and no members."""
    state = found(capsys, "state", url, "billing")
    first = state["positions"][0]
    assert (state["topics"], state["members"], first["partition"]) == (["orders"], [], 0)
    assert len(first["acked"]) == 1
    assert first["acked"][0][0] == first["acked"][0][1] > first["position"]
    assert "no members" in printed(capsys, "state", url, "billing")


def test_state_names_the_members(capsys, url):
    """A member has its name and its partitions."""
    with member(url):
        (live,) = found(capsys, "state", url, "billing")["members"]
        assert live["name"]
        assert [log["partition"] for log in live["holds"]] == [0, 1]
        assert "orders 0 1" in printed(capsys, "state", url, "billing")


def test_lag(capsys, url):
    """`lag` has a row for each partition of each topic of the group, and by default also the sum."""
    rows = found(capsys, "lag", url, "billing")
    assert [(row["topic"], row["partition"], row["lag"]) for row in rows] == [("orders", 0, 3), ("orders", 1, 0)]
    assert "billing lags by 3" in printed(capsys, "lag", url, "billing")
    assert found(capsys, "lag", url, "--all") == found(capsys, "lag", url, "billing", "--topic", "orders") == rows


@pytest.mark.parametrize(("most", "code", "word"), [("3", 0, "OK"), ("2", 3, "BEHIND")])
@pytest.mark.parametrize("whose", ["billing", "--all"])
def test_lag_as_a_check(capsys, url, most, code, word, whose):
    """With --max one line and the exit code say whether a group's lag exceeds the limit."""
    assert run_command(["lag", url, whose, "--max", most]) == code
    assert capsys.readouterr().out == f"{word}: billing lags by 3 | billing=3;;{most}\n"


@pytest.mark.parametrize("arguments", [["nobody"], ["billing", "--topic", "nothing"]])
def test_a_check_of_what_is_not_there_fails(capsys, url, arguments):
    """A missing group or topic is an error, rather than a group that is up to date."""
    assert run_command(["lag", url, *arguments, "--max", "100"]) == 1
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["billing", "--all"], ["--all", "--topic", "orders"], ["billing", "--watch", "1s", "--max", "1"]]
)
def test_wrong_use_of_lag(capsys, url, arguments):
    """`lag` takes a group or all groups, watched or checked: anything else is wrong usage."""
    assert run_command(["lag", url, *arguments]) == 2


def test_lag_of_a_group_without_a_position(capsys):
    """A group without a position has an unknown lag."""
    with mqplug.connect("memory://fresh") as mq:
        mq.create_topic("orders", partitions=2)
        mq.reset_group("billing", "orders", mqplug.EARLIEST)
        mq.add_partitions("orders", 3)
        assert [row["lag"] for row in found(capsys, "lag", "memory://fresh", "billing")][:2] == [0, 0]


@pytest.mark.parametrize("arguments", [["lag", "--all"], ["lag", "billing"], ["state", "billing"]])
@pytest.mark.parametrize("call", ["positions", "lag", "watermarks"])
def test_a_topic_that_goes_meanwhile(capsys, monkeypatch, url, arguments, call):
    """A topic that is deleted while the groups are queried is left out, and the others are shown."""
    ask = getattr(mqplug.Client, call)

    def delete_first(mq, *args, **options):
        if "bills" in mq.topics():
            mq.delete_topic("bills")
        return ask(mq, *args, **options)

    with mqplug.connect(url) as mq:
        mq.create_topic("bills")
        mq.reset_group("billing", "bills", mqplug.EARLIEST)
        monkeypatch.setattr(mqplug.Client, call, delete_first)
        rows = found(capsys, arguments[0], url, *arguments[1:])
        rows = rows["positions"] if arguments[0] == "state" else rows
        if arguments[0] == "lag" or call == "positions":
            assert {row["topic"] for row in rows} == {"orders"}
            assert mq.topics() == ["orders"]


def test_capabilities(capsys, url):
    """`caps` shows what provides each capability, and the limits."""
    shown = found(capsys, "caps", url)
    assert (shown["backend"], shown["capabilities"]["groups"]) == ("memory", "native")
    assert shown["capabilities"]["pause_resume"] in {"native", "core"}
    assert shown["limits"]["topic_name_max"] == 249
    assert "headers_max" in printed(capsys, "caps", url)


@pytest.mark.parametrize("verb", ["describe", "offsets", "groups"])
def test_a_missing_topic(capsys, url, verb):
    """A missing topic is reported in one line with its fix; the exit code is 1."""
    assert run_command([verb, url, "odrers", *(["--at", "-1h"] if verb == "offsets" else [])]) == 1
    assert capsys.readouterr().err.startswith("error: there is no topic 'odrers' ")


@pytest.mark.parametrize("verb", ["state", "lag"])
def test_a_missing_group(capsys, url, verb):
    """A missing group is reported in one line that names the nearest; the exit code is 1."""
    assert run_command([verb, url, "biling"]) == 1
    assert "Did you mean 'billing'?" in capsys.readouterr().err


WATCHES = """
import sys, mqplug
from mqplug_cli._app import run_program
with mqplug.connect("memory://watched") as mq:
    mq.create_topic("orders")
    mq.reset_group("billing", "orders", mqplug.EARLIEST)
    with mq.producer("orders") as out:
        out.send(b"x")
    sys.exit(run_program(["lag", "memory://watched", "billing", "--watch", "0.1s"]))
"""
CLEARS_THE_SCREEN = "\x1b[2J\x1b[1;1H"


def test_watching_draws_a_terminal_anew():
    """On a terminal each refresh begins on an empty screen, until Ctrl-C."""
    with TerminalProgram([sys.executable, "-c", WATCHES], TERM="xterm") as program:
        assert program.read_until(CLEARS_THE_SCREEN) == CLEARS_THE_SCREEN
        for _ in range(2):
            seen = program.read_until(CLEARS_THE_SCREEN)
            assert seen.count("orders") == 1
            assert "billing lags by 1" in seen
        program.type("\x03")
        assert program.wait(60) == 130
        assert "Traceback" not in program.output
