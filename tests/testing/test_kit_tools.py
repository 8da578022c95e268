"""The tools of the kit's cases: comparisons and their errors, child processes, and servers that are none."""

from __future__ import annotations

import pickle
import random
import socket

import pytest

from mqplug_testing._case_tools.broken_promise import MAX_SHOWN_ITEMS, PromiseBroken, difference_of
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.wrong_servers import WRONG_SERVERS


def test_long_lists_are_shown_around_their_difference():
    """Of lists that are too long the items around the first difference are shown, each whole."""
    names = [f"message number {number:04} of the log" for number in range(1000)]
    broken = difference_of(names, [*names[:700], "another", *names[701:]], "in order")
    lines = str(broken).splitlines()
    assert lines[:2] == ["in order", f"expected: 1000 items, of which 680 to {680 + MAX_SHOWN_ITEMS - 1}"]
    assert f"    [700] {names[700]!r}" in lines
    assert "    [700] 'another'" in lines
    assert len(lines) == 3 + 2 * MAX_SHOWN_ITEMS
    assert broken.brief == f"in order: at [700] expected {names[700]!r}, seen 'another'"


@pytest.mark.parametrize(
    ("expected", "seen", "text"),
    [
        ([1, 2], [1], "expected: [1, 2]\nseen:     [1]"),
        ({"a": "x" * 60}, {"b": "y" * 99}, f"expected: {{'a': '{'x' * 60}'}}\nseen:     1 item\n    'b': '{'y' * 99}'"),
        (set("ab"), set(), None),
        (None, b"", "expected: None\nseen:     b''"),
    ],
)
def test_values_are_shown_whole(expected, seen, text):
    """A short value is shown on one line, a long one with a line for each item."""
    found = str(difference_of(expected, seen))
    assert found.startswith("expected: {") if text is None else found == text


def test_a_child_that_fails_shows_its_traceback():
    """If a process of a case ends too early, its traceback is shown, with the lines that it printed."""
    program = "print('ready'); raise RuntimeError('no table')"
    with ChildProcess(program) as child, pytest.raises(PromiseBroken) as caught:
        child.wait_for(2, 60)
    assert caught.value.what.startswith("a child process that ended with code 1\nTraceback (most recent call last):")
    assert caught.value.what.endswith("RuntimeError: no table")
    assert (caught.value.expected, caught.value.seen) == ("2 lines within 60 s", "['ready']")


def test_it_can_be_pickled():
    """The error of a case survives pickling, as between processes."""
    broken = PromiseBroken("the order", expected="[1]", seen="[2]", difference="at [0]")
    again = pickle.loads(pickle.dumps(broken))
    assert (str(again), again.brief) == (str(broken), broken.brief)


@pytest.mark.parametrize("name", WRONG_SERVERS)
def test_the_peers_of_the_kit_are_what_they_say(name):
    """A closed port refuses, a silent server accepts and never answers, and the others give their answer."""
    with WRONG_SERVERS[name]() as address:
        if name == "a closed port":
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, 10)
            return
        with socket.create_connection(address, 10) as connection:
            connection.sendall(b"hello")
            connection.settimeout(0.2 if name == "a silent server" else 10)
            if name == "a silent server":
                with pytest.raises(TimeoutError):
                    connection.recv(1)
            elif name == "a server that hangs up":
                assert _read(connection) == b""
            else:
                answer = {"a web server": b"HTTP/1.1", "garbage": random.Random(7).randbytes(400)[:8]}
                assert connection.recv(8) == answer[name]


def _read(connection):
    try:
        return connection.recv(1)
    except ConnectionResetError:
        return b""


def test_a_child_is_killed_and_keeps_what_it_said():
    """The kit's child process is killed in the middle of its work; an incomplete line is not counted."""
    program = "import sys, time\nprint('one')\nprint(sys.argv[1])\nsys.stdout.write('cut')\ntime.sleep(60)"
    with ChildProcess(program, "two") as child:
        child.wait_for(2, 30)
        child.kill()
        assert child.lines == ["one", "two"]


def test_a_child_that_ends_too_soon_fails_the_case():
    """A child that ends before it has printed enough fails the case instead of making it wait."""
    with ChildProcess("print('one')") as child, pytest.raises(PromiseBroken, match="2 lines within"):
        child.wait_for(2, 30)
