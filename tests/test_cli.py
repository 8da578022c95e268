"""The command line: what it prints, what it imports, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

import mqplug
from mqplug.cli._app import run

MQPLUG = [sys.executable, "-m", "mqplug.cli"]
RICH_OR_NOT = {"NO_COLOR": "1", "TERM": "dumb"}


def command(*arguments, **environment):
    """The finished process of one command line."""
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
    return url


def test_version_is_that_of_the_package():
    """`mqplug --version` names the version."""
    assert command("--version").stdout == f"mqplug, version {mqplug.__version__}\n"


def test_help_is_lazy():
    """`mqplug --help` imports nothing that it does not need."""
    lazy = ["cattrs", "rich", "pyarrow", "importlib.metadata", "mqplug.memory", "mqplug.cli._demo"]
    program = (
        "import sys\nfrom mqplug.cli._app import run\ncode = run(['--help'])\n"
        f"print('loaded', [name for name in {lazy} if name in sys.modules], code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded [] 0"


def test_help_names_each_verb(capsys):
    """`mqplug --help` lists the verbs."""
    assert run(["--help"]) == 0
    printed = capsys.readouterr().out
    assert [verb for verb in ("demo", "plugins", "topics", "watermarks") if f"  {verb} " not in printed] == []


def test_topics_are_listed_one_a_line(capsys, store):
    """`mqplug topics` prints names alone, for people and for pipes."""
    assert run(["topics", store]) == 0
    assert capsys.readouterr().out == "orders\n"


def test_topics_as_json(capsys, store):
    """`mqplug topics -o json` prints a list of names."""
    assert run(["topics", store, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["orders"]


def test_watermarks_of_each_partition(capsys, store):
    """`mqplug watermarks` says for each partition what it retains."""
    assert run(["watermarks", store, "orders", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"partition": 0, "low": "0", "high": "0", "messages": 0, "exact": True},
        {"partition": 1, "low": "0", "high": "3", "messages": 3, "exact": True},
    ]


def test_watermarks_as_a_table(capsys, store):
    """Without a format there is a line for each partition under the names of the columns."""
    assert run(["watermarks", store, "orders"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["partition", "low", "high", "messages", "exact"]
    assert [row.split() for row in rows] == [["0", "0", "0", "0", "yes"], ["1", "0", "3", "3", "yes"]]


def test_an_error_is_one_line_with_its_fix(capsys, store):
    """What goes wrong is one line on standard error that says how to mend it; the exit code is 1."""
    assert run(["watermarks", store, "odrers"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: there is no topic 'odrers' ")
    assert printed.err.count("\n") == 1


def test_a_missing_backend_names_its_package(capsys):
    """A backend that could be installed is named with its pip line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mqplug._discovery._entry_points", lambda name=None: [])
        assert run(["topics", "kafka://localhost"]) == 1
    assert capsys.readouterr().err.endswith("Run pip install mqplug-kafka\n")


def test_a_secret_is_not_shown(capsys):
    """The password of a URL appears in no error."""
    assert run(["topics", "memory://me:hunter2@host?nonsense=1"]) == 1
    assert "hunter2" not in capsys.readouterr().err


def test_an_unforeseen_error_shows_no_traceback(capsys, monkeypatch):
    """A defect is one line, too, and says how to see more of it."""
    monkeypatch.setattr(mqplug, "connect", lambda *a, **k: 1 / 0)
    assert run(["topics", "memory://x"]) == 1
    assert capsys.readouterr().err == (
        "error: ZeroDivisionError: division by zero. Set MQPLUG_DEBUG=1 to see where it comes from\n"
    )


def test_debug_shows_the_traceback():
    """With MQPLUG_DEBUG the traceback is shown."""
    done = command("topics", "nonsense://", MQPLUG_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["topics"], ["watermarks", "memory://x"], ["demo", "--what"]])
def test_wrong_usage_exits_with_2(arguments, capsys):
    """An unknown verb, a missing argument and an unknown option are wrong usage."""
    assert run(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(missing):
    """Without click or rich the command says what to install, and exits with 1."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['mqplug', 'plugins']; "
        "from mqplug.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: the command line needs {missing}. Run pip install 'mqplug[cli]'\n",
    )


@pytest.fixture
def broken_plugin(tmp_path):
    """A directory with an installed plugin that does not load."""
    info = tmp_path / "mqplug_broken-4.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mqplug-broken\nVersion: 4.2\n")
    (info / "entry_points.txt").write_text("[mqplug.backends]\nbroken = mqplug_broken_is_not_there\n")
    return str(tmp_path)


def test_plugins_are_listed_without_loading_any(broken_plugin):
    """`mqplug plugins` names distribution and version of each, of a broken one as well."""
    done = command("plugins", "-o", "json", PYTHONPATH=broken_plugin)
    assert done.returncode == 0
    rows = json.loads(done.stdout)
    assert {"name": "broken", "distribution": "mqplug-broken", "version": "4.2"} in rows
    assert {"name": "memory", "distribution": "mqplug", "version": mqplug.__version__} in rows


def test_check_says_why_a_plugin_does_not_load(broken_plugin):
    """`mqplug plugins --check` shows the reason; the other plugins are well; the exit code is 1."""
    done = command("plugins", "--check", "-o", "json", PYTHONPATH=broken_plugin)
    assert done.returncode == 1
    health = {row["name"]: row["health"] for row in json.loads(done.stdout)}
    assert health["memory"] == "ok"
    assert "No module named 'mqplug_broken_is_not_there'" in health["broken"]


def test_ctrl_c_ends_at_once():
    """Ctrl-C in the midst of work ends the command with 130, without a word of Python."""
    arguments = [*MQPLUG, "demo", "--url", "memory://demo", "--seconds", "100"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("mqplug ")
        assert process.stdout.readline().startswith("shared ")
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=5)
    assert (process.returncode, complaint.strip()) == (130, "")


def test_a_closed_pipe_is_no_traceback(store):
    """Output that nobody reads any more ends the command quietly."""
    arguments = f"{sys.executable} -m mqplug.cli --help | true"
    done = subprocess.run(arguments, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
