"""``mqplug top`` in a pseudo-terminal: how it draws, and the state in which it leaves the terminal."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest
from pseudo_terminal import TerminalProgram

import mqplug

pytest.importorskip("textual", reason="mqplug[top] is not installed")
pytest.importorskip("mqplug_rocksmq", reason="mqplug-rocksmq is not installed")

pytestmark = pytest.mark.python

TOP = [sys.executable, "-m", "mqplug_cli", "top"]
LEAVES_THE_SCREEN = "\x1b[?1049l"
COLOR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9)[0-8](?:;\d+)*m")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The URL of a RocksMQ store with a topic."""
    url = f"rocksmq://{tmp_path_factory.mktemp('top') / 'mq'}"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=2)
    return url


@pytest.mark.parametrize("term", ["xterm", "screen", "linux"])
def test_q_leaves_the_terminal_as_it_was(store, term):
    """The key q exits with 0, from its own screen, and restores the terminal's modes."""
    with TerminalProgram([*TOP, store], TERM=term) as program:
        program.read_until("orders")
        program.type("q")
        assert program.wait() == 0
        assert LEAVES_THE_SCREEN in program.output
        assert program.modes == program.modes_before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_leave_the_terminal_as_it_was(store, number, code):
    """SIGTERM and SIGINT end it as they end other verbs, without output, and the terminal is restored."""
    with TerminalProgram([*TOP, store], TERM="xterm") as program:
        program.read_until("orders")
        program.process.send_signal(number)
        assert program.wait() == code
        assert "Traceback" not in program.output
        assert LEAVES_THE_SCREEN in program.output
        assert program.modes == program.modes_before


@pytest.mark.parametrize("controls", [True, False], ids=["with SIGHUP", "without"])
def test_it_ends_with_its_terminal(store, controls):
    """When its terminal closes it exits with the code of SIGHUP, whether it gets that signal or not."""
    with TerminalProgram([*TOP, store], controls=controls, TERM="xterm") as program:
        program.read_until("orders")
        program.hang_up()
        assert program.process.wait(20) == 129


def test_ctrl_c_is_a_key(store):
    """Ctrl-C, which arrives as a key while top draws, exits with 130."""
    with TerminalProgram([*TOP, store], TERM="xterm") as program:
        program.read_until("orders")
        program.type("\x03")
        assert program.wait() == 130
        assert program.modes == program.modes_before


def test_no_color(store):
    """With NO_COLOR the screen has no colors; without it some."""
    seen = {}
    for name, environment in (("colored", {}), ("plain", {"NO_COLOR": "1"})):
        with TerminalProgram([*TOP, store], TERM="xterm", **environment) as program:
            seen[name] = program.read_until("orders")
            program.type("q")
            program.wait()
            seen[name] += program.output
    assert COLOR.search(seen["colored"])
    assert not COLOR.search(seen["plain"])


def test_without_a_terminal_it_says_what_to_use(store):
    """Without a terminal it is wrong usage, and the error names the verbs for programs."""
    done = subprocess.run([*TOP, store], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "top needs a terminal" in done.stderr


def test_without_textual_it_says_what_to_install(store):
    """Without the extra the command says in one line what to install."""
    program = (
        f"import sys; sys.modules['textual'] = None; sys.argv = ['mqplug', 'top', {store!r}]; "
        "from mqplug_cli import main; main()"
    )
    with TerminalProgram([sys.executable, "-c", program], TERM="xterm") as terminal:
        assert terminal.wait() == 1
        assert terminal.output == "error: mqplug top needs textual. Run pip install 'mqplug[top]'\r\n"
