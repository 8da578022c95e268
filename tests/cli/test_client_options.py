"""How a command line names its backend."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from config_backends import fakes

import mqplug
from mqplug_cli import run_command

__all__ = ["fakes"]


@pytest.fixture
def chosen(monkeypatch, tmp_path):
    """A configuration that names the store memory://chosen. Its topic and that of memory://x have other messages."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mqplug.toml").write_text("url = 'memory://chosen'\n")
    with mqplug.connect("memory://chosen") as chosen, mqplug.connect("memory://x") as other:
        for mq, value in ((chosen, b"of the chosen"), (other, b"of x")):
            with mq.producer("orders", create=True) as out:
                out.send_many([value] * 5)
        yield


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["memory://x", "orders", "--from", "earliest"], ["of x"] * 5),
        (["orders", "--from", "earliest"], ["of the chosen"] * 5),
        (["-n", "3", "memory://x", "orders", "--from", "earliest"], ["of x"] * 3),
        (["--from", "earliest", "orders", "-n", "3"], ["of the chosen"] * 3),
    ],
)
def test_the_first_argument_may_be_a_url(capfd, chosen, arguments, printed):
    """A URL comes first wherever options stand; without one, the first argument is the topic."""
    assert run_command(["consume", *arguments]) == 0
    assert capfd.readouterr().out.splitlines() == printed


def test_the_usage_names_the_url(capsys):
    """The usage line shows the URL, in the help and in the error of a command line without one."""
    assert run_command(["lag", "--help"]) == 0
    assert "Usage: mqplug lag [OPTIONS] [URL] [GROUP]" in capsys.readouterr().out
    assert run_command(["describe"]) == 2
    assert "Usage: mqplug describe [OPTIONS] [URL] TOPIC" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["kafka://me:hunter2@host", "pulsar://:hunter2@host", "nats://host?token=hunter2"])
def test_a_secret_in_a_url_is_refused(capsys, fakes, url):
    """A URL with a secret, which other users would see, is wrong usage; the error does not show it."""
    assert run_command(["topics", url]) == 2
    complaint = capsys.readouterr().err
    assert "contains a secret" in complaint
    assert "hunter2" not in complaint


def test_a_secret_is_asked_for(tmp_path):
    """--ask reads a setting from the terminal without echo, and the connection gets it."""
    program = (
        "import mqplug, sys; from mqplug_cli._client_options import asked; "
        "print(asked(('password',)) == {'password': 'hunter2'})"
    )
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["setsid", "--ctty", "--wait", sys.executable, "-c", program], stdin=follower, stdout=follower, stderr=follower
    ) as process:  # fmt: skip
        os.close(follower)
        seen = b""
        while b"password:" not in seen:
            seen += os.read(leader, 1000)
        os.write(leader, b"hunter2\n")
        while b"True" not in seen:
            seen += os.read(leader, 1000)
        assert process.wait(30) == 0
    os.close(leader)
    assert b"hunter2" not in seen


def test_without_a_terminal_nothing_is_asked(tmp_path):
    """--ask without a terminal is wrong usage, and does not block."""
    arguments = [sys.executable, "-m", "mqplug_cli", "topics", "memory://x", "--ask", "password"]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, "needs a terminal" in done.stderr) == (2, True)
