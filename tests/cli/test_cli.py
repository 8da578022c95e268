"""The command line: what it prints, what it imports, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
import yaml
from command_examples import VERBS, help_of
from config_backends import fakes
from made_distributions import BACKEND, field, plant_backend

import mqplug
from mqplug import memory
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ConnectionProxy
from mqplug_cli import run_command

__all__ = ["fakes"]

MQPLUG = [sys.executable, "-m", "mqplug_cli"]
RICH_OR_NOT = {"NO_COLOR": "1", "TERM": "dumb"}


def command(*arguments, **environment):
    """Return the finished process of one command line."""
    env = {**os.environ, **RICH_OR_NOT, **environment}
    return subprocess.run([*MQPLUG, *arguments], capture_output=True, text=True, check=False, env=env, timeout=60)


@pytest.fixture
def store(request):
    """The URL of a store in memory with the topic "orders" of two partitions."""
    url = f"memory://{request.node.name}"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=2)
        with mq.producer("orders") as out:
            out.send_many([mqplug.Record(b"x", partition=1)] * 3)
        yield url


def test_version_is_that_of_the_package():
    """`mqplug --version` names the version."""
    assert command("--version").stdout == f"mqplug, version {mqplug.__version__}\n"


def test_help_names_each_verb():
    """`mqplug --help` lists the verbs of the page, with the first line of their help, although it loads none."""
    page = (Path(__file__).parents[2] / "docs/command-line.md").read_text()
    assert set(re.findall(r"(?m)^\$ mqplug ([a-z][a-z-]+)", page)) <= VERBS.keys() | {"rocksmq"}
    for name, summary in VERBS.items():
        usage, said, *_ = help_of(name).split("\n\n")
        assert usage.startswith(f"Usage: mqplug {name} ")
        assert " ".join(said.split()).startswith(summary)


def test_topics_are_listed_one_a_line(capsys, store):
    """`mqplug topics` prints only names, on terminals and in pipes."""
    assert run_command(["topics", store]) == 0
    assert capsys.readouterr().out == "orders\n"


def test_a_configuration_file_stands_for_a_url(capsys, store, tmp_path):
    """A configuration file is accepted where a URL is expected."""
    path = tmp_path / "mine.toml"
    path.write_text(f"url = '{store}'\n")
    assert run_command(["topics", str(path)]) == 0
    assert capsys.readouterr().out == "orders\n"


def test_topics_as_json(capsys, store):
    """`mqplug topics --json` prints a list of names."""
    assert run_command(["topics", store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["orders"]


def test_watermarks_of_each_partition(capsys, store):
    """`mqplug watermarks` shows what each partition retains."""
    assert run_command(["watermarks", store, "orders", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"partition": 0, "low": "0", "high": "0", "messages": 0, "exact": True},
        {"partition": 1, "low": "0", "high": "3", "messages": 3, "exact": True},
    ]


def test_watermarks_as_a_table(capsys, store):
    """Without a format each partition has a line under the column names."""
    assert run_command(["watermarks", store, "orders"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["partition", "low", "high", "messages", "exact"]
    assert [row.split() for row in rows] == [["0", "0", "0", "0", "yes"], ["1", "0", "3", "3", "yes"]]


def test_an_error_is_one_line_with_its_fix(capsys, store):
    """An error is one line on standard error that says how to fix it; the exit code is 1."""
    assert run_command(["watermarks", store, "odrers"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: there is no topic 'odrers' ")
    assert printed.err.count("\n") == 1


def test_a_missing_backend_names_its_package(capsys):
    """A backend that is not installed is reported with its pip command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.metadata.entry_points", lambda **_: [])
        assert run_command(["topics", "kafka://localhost"]) == 1
    assert capsys.readouterr().err.endswith("Run pip install mqplug-kafka\n")


def test_a_secret_is_not_shown(capsys):
    """The password of a URL appears in no error."""
    assert run_command(["topics", "memory://me:hunter2@host?nonsense=1"]) == 2
    assert "hunter2" not in capsys.readouterr().err


def test_an_unforeseen_error_shows_no_traceback(capsys, monkeypatch):
    """A defect is reported in one line, too, which says how to see its traceback."""
    monkeypatch.setattr("mqplug.connect", lambda *a, **k: 1 / 0)
    assert run_command(["topics", "memory://x"]) == 1
    assert capsys.readouterr().err == (
        "error: ZeroDivisionError: division by zero. Set MQPLUG_DEBUG=1 for the traceback\n"
    )


def test_debug_shows_the_traceback():
    """With MQPLUG_DEBUG the traceback is shown."""
    done = command("topics", "nonsense://", MQPLUG_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["watermarks"], ["watermarks", "memory://x"], ["demo", "--what"]])
def test_wrong_usage_exits_with_2(arguments, capsys):
    """An unknown verb, a missing argument and an unknown option are wrong usage."""
    assert run_command(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (None, "name           members|a                    0|one long line        0|日本                 0"),
        ("14", "name    member|             s|a            0|one          0|long|line|日本         0"),
        ("10", "name  memb|       ers|a        0|one      0|long|line|日本     0"),
    ],
)
def test_a_table_is_as_wide_as_the_terminal(capsys, monkeypatch, columns, lines):
    """On a terminal cells wrap between words, or within a word that is too long; elsewhere they never wrap."""
    monkeypatch.setenv("COLUMNS", columns or "10")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: columns is not None)
    with mqplug.connect("memory://tables") as mq:
        mq.create_topic("orders")
        for group in ("a", "one long line", "日本"):
            mq.reset_group(group, "orders", mqplug.EARLIEST)
        assert run_command(["groups", "memory://tables"]) == 0
    assert capsys.readouterr().out.splitlines() == lines.split("|")


@pytest.fixture
def broken_plugin(tmp_path):
    """A directory with an installed plugin that fails to load."""
    info = tmp_path / "mqplug_broken-4.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mqplug-broken\nVersion: 4.2\n")
    (info / "entry_points.txt").write_text("[mqplug.backends]\nbroken = mqplug_broken_is_not_there\n")
    return str(tmp_path)


def test_plugins_are_listed_with_their_state(broken_plugin):
    """`mqplug plugins` lists distribution, version and state of each plugin; a broken one has its reason."""
    done = command("plugins", "--json", PYTHONPATH=broken_plugin)
    assert done.returncode == 0
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    memory = rows["memory"]
    assert (memory["kind"], memory["distribution"], memory["version"]) == ("backend", "mqplug", mqplug.__version__)
    assert (memory["state"], memory["api_version"], memory["reason"]) == ("ok", 1, "")
    broken = rows["broken"]
    assert (broken["distribution"], broken["version"], broken["state"]) == ("mqplug-broken", "4.2", "broken")
    assert "No module named 'mqplug_broken_is_not_there'" in broken["reason"]


def test_a_denied_plugin_is_listed_and_not_loaded(broken_plugin):
    """A plugin that the configuration denies is listed as denied."""
    done = command("plugins", "--json", PYTHONPATH=broken_plugin, MQPLUG_DENY="broken")
    assert {row["name"]: row["state"] for row in json.loads(done.stdout)}["broken"] == "denied"


def test_check_fails_when_a_plugin_is_not_well(broken_plugin):
    """`mqplug plugins --check` exits with 1 if any plugin has a problem."""
    assert command("plugins", "--check", PYTHONPATH=broken_plugin).returncode == 1


def doctor(capsys, *arguments):
    """Return the exit code and the report of the doctor."""
    code = run_command(["doctor", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_doctor_says_what_is_chosen_and_why(capsys, fakes, monkeypatch):
    """The doctor shows the sources, the choice with its reason, each setting with its source, and that it connects."""
    Path("mqplug.toml").write_text("mode = 'cluster'\n[rocksmq]\npath = 'x'\n[kafka]\nservers = ['file']\n")
    monkeypatch.setenv("MQPLUG_KAFKA_MECHANISM", "SCRAM-SHA-256")
    code, found = doctor(capsys)
    assert (code, found["backend"], found["error"]) == (0, "kafka", None)
    assert found["reason"] == "mode is cluster: the first of pulsar, kafka that is configured"
    assert sorted(found["sources"]) == ["MQPLUG_KAFKA_MECHANISM", "mqplug.toml"]
    sources = {each["name"]: each["source"] for each in found["settings"]}
    assert (sources["servers"], sources["mechanism"], sources["tls"]) == (
        "mqplug.toml",
        "MQPLUG_KAFKA_MECHANISM",
        "default",
    )


def test_the_doctor_connects(capsys):
    """The doctor shows whether the backend answers, and which capabilities are native, the core's, or absent."""
    code, found = doctor(capsys, "memory://doctor")
    assert (code, found["connects"], found["reason"]) == (0, True, "the URL names it")
    assert "groups" in found["capabilities"]["native"]
    assert "pause_resume" in found["capabilities"]["core"] + found["capabilities"]["native"]
    assert set(found["capabilities"]) == {"native", "core", "absent"}


class Noting(ConnectionProxy):
    """A connection with a note."""

    def notes(self):
        return ["reads in memory"]

    class Backend:
        mqplug_describe = staticmethod(memory.mqplug_describe)
        mqplug_administer = staticmethod(memory.mqplug_administer)

        @hookimpl
        def mqplug_connect(self, settings):
            return Noting(memory.mqplug_connect(settings))


def test_the_doctor_shows_what_a_connection_notes(capsys, fakes):
    """The notes of a connection on how it works are in the report and on the page."""
    with mqplug.register("memory", Noting.Backend()):
        assert doctor(capsys, "memory://doctor")[1]["notes"] == ["reads in memory"]
        assert run_command(["doctor", "memory://doctor"]) == 0
    assert "\nnote      reads in memory\n" in capsys.readouterr().out


def test_the_doctor_as_a_page(capsys, fakes):
    """Without a format the doctor prints a page."""
    Path("mine.toml").write_text("[kafka]\nservers = ['one', 'two']\n")
    assert run_command(["doctor", "--config", "mine.toml"]) == 0
    printed = capsys.readouterr().out
    for line in ("sources   mine.toml", "connects  yes, in ", "one, two"):
        assert line in printed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["kafka://host?tls=maybe"], "'kafka.tls'"),
        (["nats://host?fail=refused"], "refused with None"),
        (["nosuch://x"], "unknown backend 'nosuch'"),
        (["--config", "absent.toml"], "cannot be read"),
        ([], "none is configured"),
    ],
)
def test_the_doctor_fails_with_the_reason(capsys, fakes, arguments, says):
    """A problem is in the report, as far as the doctor got; the exit code is 1."""
    code, found = doctor(capsys, *arguments)
    assert (code, found["connects"]) == (1, False)
    assert says in found["error"]
    assert run_command(["doctor", *arguments]) == 1
    assert says in capsys.readouterr().out


def test_the_doctor_takes_one_target(capsys):
    """A URL and a file together are wrong usage."""
    assert run_command(["doctor", "memory://x", "--config", "x.toml"]) == 2
    assert "only one of a URL, a context and --config" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["topics"], ["watermarks"], ["doctor"]])
@pytest.mark.parametrize(("query", "creates"), [("", False), ("?create=true", True)])
def test_who_only_looks_makes_nothing(capsys, fakes, verb, query, creates):
    """Read-only verbs ask a backend to create nothing, unless the URL says otherwise."""
    topic = ["orders"] if verb == ["watermarks"] else []
    run_command([*verb, f"nats://host{query}", *topic])
    assert fakes["nats"].given.create is creates


def test_the_doctor_shows_what_a_program_gets(capsys, fakes):
    """Although the doctor creates nothing, it shows the setting that a program would have."""
    _, found = doctor(capsys, "nats://host")
    assert {"name": "create", "value": True, "source": "default"} in found["settings"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(capsys, shell):
    """`mqplug completion SHELL` prints a script for the shell to evaluate."""
    assert run_command(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert "_MQPLUG_COMPLETE" in printed
    assert "mqplug" in printed


def test_completion_completes():
    """The command answers the requests of its completion script."""
    done = command(_MQPLUG_COMPLETE="bash_complete", COMP_WORDS="mqplug doct", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,doctor"]


def test_a_closed_pipe_is_no_traceback():
    """When the reader of its output is gone, the command ends quietly with the exit code of SIGPIPE in a shell."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*MQPLUG, "docs", "rules"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_yaml_for_programs(capsys, store):
    """-o yaml prints what -o json prints."""
    assert run_command(["watermarks", store, "orders", "-o", "yaml"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert run_command(["watermarks", store, "orders", "-o", "json"]) == 0
    assert found == json.loads(capsys.readouterr().out)


WITH_COMMANDS = """
    import click

    @hookimpl
    def mqplug_commands():
        @click.command()
        @click.argument("path")
        def check(path):
            '''Look for damage.'''
            click.echo(f"looked at {path}")

        return [check]
"""


def test_a_backend_brings_commands(tmp_path, capsys):
    """`mqplug NAME COMMAND` runs a command of the backend NAME, which is loaded only then."""
    with field(tmp_path) as plant:
        plant_backend(plant, "careful", BACKEND.format(name="careful", version=1) + WITH_COMMANDS)
        assert run_command(["careful", "check", "/data"]) == 0
        assert capsys.readouterr().out == "looked at /data\n"
        assert run_command(["careful", "--help"]) == 0
        assert "Look for damage." in capsys.readouterr().out


def test_a_word_that_is_no_verb_is_wrong_usage(capsys):
    """A word that is neither a verb nor a backend with commands exits with 2 and a message."""
    for word in ("nothing", "memory"):
        assert run_command([word]) == 2
        assert f"No such command '{word}'" in capsys.readouterr().err


def test_a_broken_backend_is_told_in_one_line(tmp_path, capsys):
    """A backend that cannot be loaded fails only its own command, with its reason."""
    with field(tmp_path) as plant:
        plant_backend(plant, "broken", "raise ImportError('no such library')")
        assert run_command(["broken", "check"]) == 1
        assert "no such library" in capsys.readouterr().err
        assert run_command(["plugins"]) == 0


def test_docs_lists_the_pages(capsys):
    """`mqplug docs` lists each page with its title and its file."""
    assert run_command(["docs", "--json"]) == 0
    listed = {each["page"]: each for each in json.loads(capsys.readouterr().out)}
    assert {"rules", "contract-rules", "configuration", "milvus", "changelog", "compatibility"} <= listed.keys()
    assert listed["contract-rules"]["about"] == "The contract, rule by rule"
    assert all(Path(each["file"]).is_file() for each in listed.values())


@pytest.mark.parametrize("page", ["contract-rules", "contract-rules#seek-33", "contract-rules.md"])
def test_docs_prints_a_page(capsys, page):
    """A page is printed by its name, in the form that failures of the kit give as well."""
    assert run_command(["docs", page]) == 0
    assert "**SEEK-33**" in capsys.readouterr().out


def test_docs_names_the_nearest_page(capsys):
    """An unknown page is wrong usage, and the nearest page is suggested."""
    assert run_command(["docs", "ruels"]) == 2
    assert "Did you mean 'rules'?" in capsys.readouterr().err


def test_docs_of_a_checkout_are_there_beside_an_installed_plugin(capsys, monkeypatch, tmp_path):
    """Pages in a plugin's wheel hide none of the core's pages when the core runs from a checkout."""
    page = tmp_path / "share/doc/mqplug-shelf/shelves.md"
    page.parent.mkdir(parents=True)
    page.write_text("# About shelves\n")

    class Installed:
        name = "mqplug-shelf"
        files = (PurePosixPath("share/doc/mqplug-shelf/shelves.md"),)

        def locate_file(self, file):
            return tmp_path / file

    monkeypatch.setattr("importlib.metadata.distributions", lambda: [Installed()])
    monkeypatch.setattr(mqplug, "__file__", str(Path(__file__).parents[2] / "mqplug/__init__.py"))
    assert run_command(["docs", "--json"]) == 0
    about = {each["page"]: each["about"] for each in json.loads(capsys.readouterr().out)}
    assert (about["mqplug-shelf/shelves"], about["rules"]) == ("About shelves", "The rules")
