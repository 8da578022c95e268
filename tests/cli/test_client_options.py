"""How a command line names its backend."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import click
import pytest
from config_backends import fakes

from mqplug_cli import run_command
from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options

__all__ = ["fakes"]


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.argument("group", required=False)
@click.option("-n", type=int)
def verb(client: ClientOptions, topic: str, group: str | None, n: int | None) -> tuple[object, ...]:
    """A verb that returns its arguments."""
    return client.target, topic, group, n


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["memory://x", "orders"], ("memory://x", "orders", None, None)),
        (["orders", "billing"], (None, "orders", "billing", None)),
        (["-n", "3", "memory://x", "orders", "billing"], ("memory://x", "orders", "billing", 3)),
        (["orders", "-n", "3"], (None, "orders", None, 3)),
    ],
)
def test_the_first_argument_may_be_a_url(arguments, meant, monkeypatch, tmp_path):
    """A URL comes first wherever options stand; without one, the first argument is the topic."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert verb.main(arguments, standalone_mode=False) == meant


def test_the_usage_names_the_url(capsys):
    """The usage line shows the URL, in the help and in the error of a command line without one."""
    verb.main(["--help"], standalone_mode=False)
    assert "[URL] TOPIC [GROUP]" in capsys.readouterr().out
    with pytest.raises(click.UsageError) as caught:
        verb.main([], standalone_mode=False)
    assert "[URL] TOPIC [GROUP]" in caught.value.ctx.get_usage()


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
