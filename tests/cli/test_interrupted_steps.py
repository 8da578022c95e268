"""Ctrl-C at any step of a long-running verb, in Python's own modules too: it ends with 130 and no traceback."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

STEPS = 60  # of the thousands, chosen by the seed of the run
INTERRUPTS = """
import os, signal, sys
import mqplug
from mqplug.memory._connection import MemoryConnection
from mqplug_cli._app import run_program

steps = [int(each) for each in os.environ["STEPS"].split(",")]
os.dup2(os.pipe()[0], 0)
mq = mqplug.connect("memory://long")
mq.create_topic("orders")
mq.reset_group("billing", "orders", mqplug.EARLIEST)
opened = MemoryConnection.__init__


class Interrupt:
    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, argument):
        if event in ("call", "c_return"):  # where Python looks for signals
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


def end_in_wait(number, frame):
    os._exit(77)


def open_and_fork(self, *arguments, **options):
    MemoryConnection.__init__ = opened
    opened(self, *arguments, **options)
    for number in steps:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, end_in_wait)
            signal.alarm(20)
            sys.setprofile(Interrupt(number))
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != 130:
            print(f"step {number}: exit code {code}", file=sys.stderr)
    os._exit(0)


MemoryConnection.__init__ = open_and_fork
sys.exit(run_program(sys.argv[1:]))
"""
LASTING = {
    "consume": ["consume", "memory://long", "orders", "--follow"],
    "lag": ["lag", "memory://long", "billing", "--watch", "0.1s"],
    "produce": ["produce", "memory://long", "orders"],
}


@pytest.mark.night
@pytest.mark.parametrize("name", LASTING)
def test_an_interrupt_at_any_step_ends_a_verb(name):
    """Whichever call or return Ctrl-C interrupts from the connection to the first wait, the exit code is 130."""
    steps = sorted(random.sample(range(1, 5000), STEPS))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTS, *LASTING[name]], env={**os.environ, "STEPS": ",".join(map(str, steps))},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "step " not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0
