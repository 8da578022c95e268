"""The examples in the help of verbs, and a place where they run.

An example is a line `$ mqplug …` after the line `Examples:`, or a pipeline. Its commands run in this process, over
stores in memory, for which their URLs stand. A comment after two spaces has the exit code, if it is not 0.
"""

from __future__ import annotations

import _thread
import io
import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path

import mqplug
from mqplug_cli import run_command


def help_of(*words):
    """Return the help of a verb, or of the command line itself."""
    with redirect_stdout(io.StringIO()) as printed:
        assert run_command([*words, "--help"]) == 0
    return printed.getvalue()


def _listed(text):
    return dict(re.findall(r"(?m)^  ([a-z][a-z-]*) {2,}(\S.*)$", text))


VERBS = _listed(help_of().partition("  -h, --help")[2])
"""The summary of each verb, by its name."""
VERB_NAMES = sorted(VERBS)
STORES = {"rocksmq:///tmp/mq": "memory://examples", "kafka://localhost:9092": "memory://others"}
CONTEXTS = "[context.laptop]\nurl = 'memory://examples'\n[context.server]\nurl = 'memory://others'\n"
OTHER_ENDS = {"until Ctrl-C": 130, "on a terminal": 2, "exits with 1": 1, "exits with 3": 3}
UNTIL_CTRL_C_S = 1.5


def examples_of(name):
    """Return the examples of a verb, each as one line."""
    text = help_of(name).partition("Examples:\n")[2].partition("\nOptions:")[0].replace("\\\n", " ")
    return [line.strip().removeprefix("$ ") for line in text.splitlines() if line.strip().startswith("$ ")]


def subcommands_of(name):
    """Return the names of a verb's subcommands."""
    return list(_listed(help_of(name).partition("\nCommands:")[2]))


def expected_end(example):
    """Return the exit code that an example states."""
    comment = example.partition("  #")[2]
    return next((code for words, code in OTHER_ENDS.items() if words in comment), 0)


@contextmanager
def prepared_stores(folder):
    """Two stores and a folder for examples.

    Each store has the topics "orders", of two partitions and 50 messages, and "returns", and the group "billing", which
    has read five orders. The folder has a configuration with the contexts "laptop" and "server", and "orders.txt".
    """
    (folder / "mqplug.toml").write_text(f"url = 'memory://examples'\n{CONTEXTS}")
    (folder / "orders.txt").write_text("".join(f"customer-{n}:order {n}\n" for n in range(20)))
    with ExitStack() as stores:
        for url in STORES.values():
            _prepare(stores.enter_context(mqplug.connect(url)))
        yield


def _prepare(mq):
    mq.create_topic("orders", partitions=2)
    mq.create_topic("returns")
    with mq.producer("orders") as out:
        out.send_many([mqplug.Record(b'{"n": %d}' % n, key=b"k%d" % n, headers={"h": b"x"}) for n in range(50)])
    with mq.consumer("orders", group="billing") as billing:
        for message in billing.receive_many(5):
            billing.ack(message)


def run_example(example):
    """Return the exit code of the last command of an example, and its output."""
    line = example.partition("  #")[0].rstrip()
    code, printed = 0, b""
    for part in line.split(" | "):
        Path(".given").write_bytes(printed)
        words = shlex.split(part)
        given, taken = _redirected(words, "<", ".given"), _redirected(words, ">", ".taken")
        with given.open("rb") as reader, taken.open("wb") as writer:
            code = _run(words, part, reader, writer, until_ctrl_c=expected_end(example) == 130)
        printed = Path(".taken").read_bytes() if taken == Path(".taken") else b""
    return code, printed


def _redirected(words, sign, default):
    """Remove a redirection at the end of a command from its words, and return its file."""
    if sign not in words:
        return Path(default)
    at = words.index(sign)
    file = Path(words[at + 1])
    del words[at : at + 2]
    return file


def _run(words, part, reader, writer, *, until_ctrl_c):
    """Run one command of a pipeline, and return its exit code."""
    if words[0] != "mqplug":
        return subprocess.run(part, shell=True, stdin=reader, stdout=writer, check=False, timeout=30).returncode
    arguments = [_in_memory(word) for word in words[1:]]
    with _standard_streams(reader, writer):
        return _interrupted(arguments) if until_ctrl_c else run_command(arguments)


def _in_memory(word):
    for url, store in STORES.items():
        word = word.replace(url, store)
    return word


def _interrupted(arguments):
    """Run a command that Ctrl-C ends, and return its exit code."""
    timer = threading.Timer(UNTIL_CTRL_C_S, _thread.interrupt_main)
    timer.start()
    try:
        return run_command(arguments)
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def _standard_streams(reader, writer):
    """Use these files as standard streams, including the file descriptors 0 and 1."""
    before = sys.stdin, sys.stdout
    before[1].flush()
    saved = os.dup(0), os.dup(1)
    os.dup2(reader.fileno(), 0)
    os.dup2(writer.fileno(), 1)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdin, sys.stdout = before
        for number, copy in enumerate(saved):
            os.dup2(copy, number)
            os.close(copy)
