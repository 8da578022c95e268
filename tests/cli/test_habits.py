"""Habits that all verbs share: fast help, exit codes, secrets, colours, progress, and how they end.

Their examples, and what they print as JSON, are tested in `test_examples.py`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from command_examples import VERB_NAMES, examples_of, run_example, subcommands_of
from config_backends import fakes
from pseudo_terminal import TerminalProgram
from waiting import wait_until

import mqplug
from mqplug_cli import _exit_codes, _terminal, run_command
from mqplug_cli._commands.prove import RUN_PYTEST
from mqplug_cli._error_text import error_line

__all__ = ["fakes"]


MQPLUG = [sys.executable, "-m", "mqplug_cli"]
HELPERS = str(Path(__file__).parents[1] / "helpers")
PAGE = Path(__file__).parents[2] / "docs/command-line.md"
NOT_FOR_HELP = {
    "attr", "attrs", "cattrs", "confluent_kafka", "mqplug_kafka", "mqplug_kafka_native", "mqplug_pulsar",
    "mqplug_pulsar_native", "mqplug_rocksmq", "pluggy", "pulsar", "pyarrow", "pytest", "rich", "rocksdict", "textual",
    "yaml",
}  # fmt: skip
IMPORTS_OF_HELP = """
import contextlib, io, json, sys
from mqplug_cli import run_command

found = {}
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        assert run_command([*words, "--help"]) == 0
    loaded = {name.partition(".")[0] for name in sys.modules}
    found[" ".join(words)] = sorted(loaded & set(sys.argv[2:]))
print(json.dumps(found))
"""


def all_commands():
    """Return the words that call each verb and each of its subcommands."""
    for name in VERB_NAMES:
        yield [name]
        yield from ([name, each] for each in subcommands_of(name))


COMMANDS = list(all_commands())
IDS = [" ".join(words) for words in COMMANDS]


def test_help_imports_nothing_heavy():
    """The help of no verb loads a client library, attrs, rich or any other module that only its work needs."""
    words = json.dumps(COMMANDS)
    arguments = [sys.executable, "-c", IMPORTS_OF_HELP, words, *NOT_FOR_HELP]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert {verb: loaded for verb, loaded in json.loads(done.stdout).items() if loaded} == {}


@pytest.mark.parametrize("words", COMMANDS, ids=IDS)
def test_an_unknown_option_is_wrong_usage(capsys, words):
    """Each verb exits with 2 for an unknown option, and names it."""
    assert run_command([*words, "--no-such-option"]) == 2
    complaint = capsys.readouterr().err
    assert "--no-such-option" in complaint
    assert "Traceback" not in complaint


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("Create it with create_topic, or open with create=True", "Create it with mqplug create"),
        ("Choose another name, or pass exist_ok=True", "Choose another name, or give --exist-ok"),
        (
            "List the groups of the topic with groups('orders')",
            "List the groups of the topic with mqplug groups orders",
        ),
        ("List the groups with client.groups()", "List the groups with mqplug groups"),
        ("Drop must_exist=True", "Create the group with mqplug seek --create"),
        ("Seek to EARLIEST, or pass missing='next'", "Choose a later place, such as earliest"),
        ("Leave options= out", "Leave --set out"),
        ("Pass a longer timeout, or try again", "Give a longer --timeout, or try again"),
        ("Say tls=True", "Set tls to true, in the URL as ?tls=true or in mqplug.toml"),
        ("Say admin_url=, or seek", "Set admin_url, in the URL as ?admin_url=... or in mqplug.toml, or seek"),
        ("Check admin_url=", "Check admin_url"),
        ("Write connect('kafka://host:9092')", "Write a URL such as kafka://host:9092"),
        ("Write kafka://host:9092/?tls=true", "Write kafka://host:9092/?tls=true"),
    ],
)
def test_a_fix_speaks_flags(fix, said):
    """The fix of an error names verbs, flags or settings on the command line instead of Python calls and arguments."""
    assert error_line(mqplug.Error("no", fix=fix)) == f"no. {said}"


def test_the_defaults_of_all_errors_speak_flags():
    """No error's default fix shows a Python call or argument to users of the command line."""
    for_programs = {mqplug.InvalidTimestamp, mqplug.NotAssigned, mqplug.QueueFull}  # no verb raises them
    public = {getattr(mqplug, name) for name in mqplug.__all__}
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, mqplug.Error)} - for_programs
    fixes = [error_line(kind("no")) for kind in kinds]
    assert [fix for fix in fixes if re.search(r"\w\(|\w=", fix)] == []


def test_the_doctor_speaks_flags(capsys, fakes):
    """If nothing is configured, the doctor says how to name a backend on the command line."""
    assert run_command(["doctor"]) == 1
    assert "or a URL such as rocksmq:///path" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lagg", "memory://x", "g"], "No such command 'lagg'. Did you mean 'mqplug lag'?"),
        (["topic", "list"], "No such command 'topic'. Did you mean 'mqplug topics'?"),
        (["ls", "memory://x"], "No such command 'ls'. Did you mean 'mqplug topics'?"),
        (["topics", "list"], "Name the backend with a URL such as rocksmq:///path or kafka://host:9092"),
        (["consume", "memory://x", "orders", "-o", "beginning"], "For the start, use --from: earliest, latest"),
        (["consume", "memory://x", "orders", "--from", "5"], "#N (the offset N of the partition that -p names)"),
        (["seek", "memory://x", "billing", "--to", "#5"], "'#5' is the offset of one partition"),
    ],
)
def test_words_of_other_tools_get_a_hint(capsys, words, said):
    """A near miss of a verb, or another tool's word for it, is wrong usage with a suggestion."""
    assert run_command(words) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_page_has_each_exit_code():
    """The documentation's table of exit codes has those of the code, and 0."""
    codes = {value for name, value in vars(_exit_codes).items() if name.isupper()}
    table = PAGE.read_text().partition("## Exit codes")[2].partition("##")[0]
    assert set(map(int, re.findall(r"^\| (\d+) \|", table, re.MULTILINE))) == codes | {0}


GUARDED = """
[context.guarded]
backend = "nats"
[context.guarded.nats]
hosts = ["one"]
token = "hunter2"
fail = "refused"
"""


def with_a_secret(example):
    """Return the same command on a backend that has a secret and rejects it."""
    return re.sub(
        r"(--against )?(?:rocksmq|kafka)://\S+",
        lambda found: f"{found[1]}guarded" if found[1] else "--context guarded",
        example,
    )


@pytest.mark.parametrize("name", VERB_NAMES)
def test_no_verb_shows_a_secret(fakes, capfd, name):
    """If a backend rejects a secret and shows it in its error, no verb prints it."""
    Path("mqplug.toml").write_text(GUARDED)
    Path("orders.txt").write_text("order\n")
    for example in examples_of(name):
        guarded = with_a_secret(example)
        code, printed = run_example(guarded)
        shown = printed.decode() + "".join(capfd.readouterr())
        assert "hunter2" not in shown
        assert "--context guarded" not in guarded or code == 2 or "refused" in shown, "it did not try to connect"


IN_A_TERMINAL = """
import shlex, sys
from pathlib import Path
from command_examples import VERB_NAMES, _in_memory, examples_of, prepared_stores
from mqplug_cli import run_command
from mqplug_cli import _terminal

_terminal.QUIET_S = 3600  # a bar moves the cursor
with prepared_stores(Path()):
    for name in VERB_NAMES:
        for example in examples_of(name):
            words = [_in_memory(word) for word in shlex.split(example.partition("  #")[0])]
            if name not in {"bench", "demo", "test", "top"} and not {"|", "<", ">", "--follow", "--watch"} & set(words):
                print("doing", words, flush=True)
                run_command(words[1:])
print("done with all", flush=True)
"""


def test_no_color_means_no_escape_codes(tmp_path, monkeypatch):
    """With NO_COLOR, the output of verbs on a terminal is plain text."""
    monkeypatch.chdir(tmp_path)
    variables = {"NO_COLOR": "1", "TERM": "xterm-256color", "PYTHONPATH": HELPERS, "XDG_CONFIG_HOME": str(tmp_path)}
    with TerminalProgram([sys.executable, "-c", IN_A_TERMINAL], **variables) as program:
        printed = program.read_until("done with all", seconds=60)
    lines = printed.splitlines()
    assert [line for line in lines if "\x1b" in line] == []
    assert any("verify" in line for line in lines)


PROGRESS = """
import mqplug
from mqplug_cli import run_command
from mqplug_cli import _terminal

_terminal.QUIET_S = _terminal._REFRESH_S = 0
with mqplug.connect("memory://here") as mq:
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        out.send_many([b"x"] * 20_000)
    run_command(["verify", "memory://here", "orders"])
"""


def test_progress_has_a_rate_and_the_time_left():
    """On a terminal, a long-running verb shows a bar with the messages done, their rate, and the time left."""
    with TerminalProgram([sys.executable, "-c", PROGRESS], TERM="xterm-256color") as program:
        printed = program.read_until("good: 20,000 messages")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed)
    assert re.search(r"reading .* [\d,]+ messages [\d,]+/s [\d:]+", plain)


def test_piped_there_is_no_progress():
    """If standard error is no terminal, it stays empty."""
    done = subprocess.run([sys.executable, "-c", PROGRESS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_progress_is_silent_for_two_seconds():
    """A verb that ends within two seconds shows no bar, even on a terminal."""
    assert _terminal.QUIET_S == 2


MARKS_CONNECTIONS = """
import os
import mqplug
from mqplug.memory._connection import MemoryConnection

mq = mqplug.connect("memory://long")
mq.create_topic("orders")
mq.reset_group("billing", "orders", mqplug.EARLIEST)
begin = MemoryConnection.__init__


def __init__(self, *arguments, **options):
    begin(self, *arguments, **options)
    open(f"{os.environ['MARKS']}/{os.getpid()}", "w").close()


MemoryConnection.__init__ = __init__
"""
LASTING = {
    "bench": ["bench", "memory://long", "--seconds", "60s"],
    "consume": ["consume", "memory://long", "orders", "--follow"],
    "lag": ["lag", "memory://long", "billing", "--watch", "0.1s"],
    "produce": ["produce", "memory://long", "orders"],
    "demo": ["demo", "--url", "memory://long", "--seconds", "100"],
    "test": ["test", "memory://long"],
    "test --history": ["test", "memory://long", "--history", "60s"],
    "test --random": ["test", "memory://long", "--random", "60s"],
}


@contextmanager
def lasting(tmp_path, name):
    """Yield the process of a running verb. Its end waits for the processes that it runs."""
    (tmp_path / "sitecustomize.py").write_text(MARKS_CONNECTIONS)
    marks = tmp_path / "marks"
    marks.mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "MARKS": str(marks)}
    with subprocess.Popen(
        [*MQPLUG, *LASTING[name]], cwd=tmp_path, env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: len(list(marks.iterdir())) == (2 if name == "test" else 1), 60)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("name", LASTING)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_what_lasts(tmp_path, name, number, code):
    """Ctrl-C and SIGTERM end a long-running verb with 130 and 143, soon, together with the process that it runs."""
    with lasting(tmp_path, name) as process:
        process.send_signal(number)
        ended = process.wait(60)
        complaint = process.stderr.read()  # as long as any of its processes has it
    assert (ended, complaint if "Traceback" in complaint else "") == (code, "")


def test_an_interrupt_that_breaks_a_lock_ends_with_130(monkeypatch):
    """Ctrl-C within a wait of Python ends with 130, although the wait then fails to release its lock."""

    def interrupted_wait(*args, **options):
        with (lock := threading.Lock()):
            lock.release()
            raise KeyboardInterrupt

    monkeypatch.setattr(mqplug, "connect", interrupted_wait)
    assert run_command(["topics", "memory://x"]) == 130


def test_impatience_ends_the_kit_too(tmp_path):
    """Repeated Ctrl-C ends ``mqplug test``, and leaves no pytest process running."""
    with lasting(tmp_path, "test") as process:
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.3)
        process.stderr.read()  # as long as any of its processes has it
    assert process.returncode != 0


INTERRUPTED_TWICE = """
import signal, threading
from pathlib import Path

import pytest

@pytest.fixture(scope="session")
def topics():
    yield
    signal.raise_signal(signal.SIGINT)
    Path("deleted").touch()

def test_it(topics):
    threading.Thread(target=threading.Event().wait).start()  # which pytest's process waits for in the end
    signal.raise_signal(signal.SIGINT)
"""


def test_another_interrupt_does_not_stop_the_kit_from_tidying_up(tmp_path):
    """While the kit deletes its topics it ignores Ctrl-C; afterwards one ends the threads that still wait, silently."""
    (tmp_path / "test_it.py").write_text(INTERRUPTED_TWICE)
    command = [sys.executable, "-c", RUN_PYTEST, "-q", "-p", "no:cacheprovider", "test_it.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            wait_until((tmp_path / "deleted").exists, 60)
            wait_until(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None, 60)
        finally:
            process.kill()
        assert (process.returncode, process.stderr.read()) == (-signal.SIGINT, b"")


DROPS_AN_INTERRUPT = """
import signal, sys, time, weakref
from mqplug_cli._interrupts import raise_interrupts

class Thing:
    pass

raise_interrupts()
thing = Thing()
reference = weakref.ref(thing, lambda _: signal.raise_signal(int(sys.argv[1])))
try:
    del thing
    time.sleep(60)
except KeyboardInterrupt as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Terminated")])
def test_an_interrupt_is_not_dropped(number, name):
    """A signal during a weak reference's callback, which cannot raise, is raised after it."""
    arguments = [sys.executable, "-c", DROPS_AN_INTERRUPT, str(int(number))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=50)
    assert (done.stdout.strip(), done.stderr) == (name, "")


TURNS_AN_INTERRUPT = """
import signal, sys
from mqplug_cli import _app

def main(*arguments, **options):
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)

_app.app.main = main
sys.exit(_app.run_program(["topics"]))
"""


def test_a_client_that_makes_another_interrupt_of_sigterm():
    """SIGTERM ends a verb with 143 even if a client library raises Ctrl-C instead, as Pulsar's does."""
    done = subprocess.run([sys.executable, "-c", TURNS_AN_INTERRUPT], capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (143, b"")
