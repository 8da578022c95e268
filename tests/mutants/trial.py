"""One case over one backend, in a store with its own clock: a wait that nothing can end takes no time."""

from __future__ import annotations

import sys
import threading
import time
import uuid
import warnings
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import attrs
import pytest

import mqplug
from mqplug.memory import Clock
from mqplug_pytest import MODULES_WITH_A_CLOCK
from mqplug_testing import Bench, Harness, Waiting
from mqplug_testing._case_tools.run_settings import RunSettings
from mqplug_testing._running import attempt

SOUND = ("passed", "refused", "skipped")
BEST_OF = 3  # a case that measures the clock fails after this many failures


class Time:
    """A replacement of the module ``time``: a store's clock, which a sleep advances if no other thread runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic = self.perf_counter = clock.monotonic

    def __getattr__(self, name):
        return getattr(self._clock, name, None) or getattr(time, name)

    def sleep(self, seconds):
        if threading.active_count() == 1:
            self._clock.advance(seconds)
        else:
            time.sleep(seconds)


def _timed_modules():
    """Yield the modules that wait by the clock: those of the core that the fixture ``mq`` names, and all of the kit."""
    yield from (sys.modules[f"mqplug.{name}"] for name in MODULES_WITH_A_CLOCK)
    for name, module in list(sys.modules.items()):
        if name.startswith(("mqplug_testing.", "mutants.")) and name != __name__ and hasattr(module, "time"):
            yield module


@contextmanager
def in_time_of(clock):
    """Make the kit and the core wait by this clock."""
    modules = [module for module in _timed_modules() if module.time is time]
    virtual = Time(clock)
    clock.skips = True
    for module in modules:
        module.time = virtual
    try:
        yield
    finally:
        for module in modules:
            module.time = time


@contextmanager
def harness_of(plugin, patience=1.0):
    """Yield a harness for clients of a backend that share one store, which lasts as long as the block."""
    with ExitStack() as opened:
        opened.enter_context(mqplug.register(plugin.name, plugin))
        name = uuid.uuid4().hex
        holder = opened.enter_context(mqplug.connect("memory", name=name))
        connect = partial(mqplug.connect, plugin.name, name=name)
        waiting = Waiting(something=patience / plugin.scale, nothing=0.2 / plugin.scale)
        harness = Harness(connect=connect, waiting=waiting, **plugin.hooks(connect))
        opened.enter_context(in_time_of(holder._connection.store.clock))
        yield harness


def trial(kind, case, patience=1.0):
    """Run a case over a fresh backend, and return "passed", "refused", "skipped", or the error."""
    outcome = _once(kind, case, patience)
    for _ in range(BEST_OF - 1 if case.timed else 0):
        if outcome in SOUND:
            break
        outcome = _once(kind, case, patience)
    return outcome


def _once(kind, case, patience):
    with warnings.catch_warnings(), harness_of(kind("mutant"), patience) as harness:
        warnings.simplefilter("ignore")
        bench = Bench(harness, RunSettings(profile="quick", scale=kind.scale), case.id)
        try:
            return attempt(attrs.evolve(case, level="must"), bench)
        except pytest.skip.Exception:
            return "skipped"
        except (Exception, pytest.fail.Exception) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            with suppress(Exception):
                bench.__exit__()
