"""Contexts: named backends for the command line."""

from __future__ import annotations

import json

import pytest
from config_backends import fakes

import mqplug
from mqplug_cli import run_command

__all__ = ["fakes"]

FILE = """
[context.here]
url = "memory://here"

[context.there]
backend = "memory"
name = "there"

[context.guarded]
backend = "nats"
[context.guarded.nats]
hosts = ["127.0.0.1:1"]
token = "hunter2"
"""


@pytest.fixture(autouse=True)
def two_stores(fakes, monkeypatch, tmp_path):
    """Two stores in memory with a topic each, and a file with a context for each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "mqplug.toml").write_text(FILE)
    with mqplug.connect("memory://here") as here, mqplug.connect("memory://there") as there:
        here.create_topic("orders")
        there.create_topic("bills")
        yield


def printed(capsys, *arguments):
    """Return the output of a successful command."""
    assert run_command(arguments) == 0
    return capsys.readouterr().out


def test_a_context_stands_for_a_url(capsys):
    """--context takes a backend from mqplug.toml, by a URL or by its settings."""
    assert printed(capsys, "topics", "--context", "here") == "orders\n"
    assert printed(capsys, "topics", "--context", "there") == "bills\n"


def test_a_context_before_the_verb(capsys):
    """`--context` may stand before the verb, too."""
    assert run_command(["--context", "there", "topics"]) == 0
    assert capsys.readouterr().out == "bills\n"
    assert run_command(["--context", "there", "topics", "memory://here"]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_variable_names_the_context(capsys, monkeypatch):
    """MQPLUG_CONTEXT chooses a context for a shell, and --context overrides it."""
    monkeypatch.setenv("MQPLUG_CONTEXT", "there")
    assert printed(capsys, "topics") == "bills\n"
    assert printed(capsys, "topics", "--context", "here") == "orders\n"


def test_a_choice_lasts(capsys):
    """`mqplug context use` chooses for later commands, until another is chosen."""
    printed(capsys, "context", "use", "here")
    assert printed(capsys, "topics") == "orders\n"
    assert json.loads(printed(capsys, "context", "list", "--json"))[1]["chosen"] is True
    printed(capsys, "context", "use", "there")
    assert printed(capsys, "topics") == "bills\n"
    printed(capsys, "context", "use", "--none")
    assert run_command(["topics"]) == 1
    assert "no backend was named" in capsys.readouterr().err


def test_a_backend_in_the_environment_wins_over_the_choice(capsys, monkeypatch):
    """A variable that names a backend overrides a context chosen earlier."""
    printed(capsys, "context", "use", "here")
    monkeypatch.setenv("MQPLUG_URL", "memory://there")
    assert printed(capsys, "topics") == "bills\n"


def test_the_own_file_is_read_too(capsys, tmp_path):
    """Contexts of the user's own file are available too; those of the working directory override them."""
    (tmp_path / "home/mqplug").mkdir(parents=True)
    own = '[context.here]\nurl = "memory://elsewhere"\n[context.mine]\nurl = "memory://there"\n'
    (tmp_path / "home/mqplug/mqplug.toml").write_text(own)
    assert printed(capsys, "topics", "--context", "here") == "orders\n"
    assert printed(capsys, "topics", "--context", "mine") == "bills\n"


def test_an_unknown_context_is_told_with_the_nearest(capsys):
    """A misspelt context is an error that suggests the nearest name; it cannot be chosen either."""
    for arguments in (["topics", "--context", "heer"], ["context", "use", "heer"]):
        assert run_command(arguments) == 1
        assert "Did you mean 'here'?" in capsys.readouterr().err


def test_a_context_is_shown_without_its_secrets(capsys):
    """`mqplug context show` masks secrets."""
    shown = printed(capsys, "context", "show", "guarded", "-o", "yaml")
    assert "hosts" in shown
    assert "hunter2" not in shown


def test_a_url_and_a_context_at_once_are_refused(capsys):
    """Both a URL and a context are wrong usage."""
    assert run_command(["topics", "memory://here", "--context", "there"]) == 2
    assert "not both" in capsys.readouterr().err
