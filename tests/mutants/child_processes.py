"""Trials in child processes: what a mutant does to the core ends with its child, and one that hangs is killed."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import sys
import threading
import time
from contextlib import contextmanager
from importlib import import_module

from mqplug_testing import CASES
from mutants.base import KINDS
from mutants.executed_code import Reach, watched
from mutants.trial import SOUND, trial

LIMIT = 5.0  # seconds in which a trial ends, for each second of its patience
PATIENCE = (1.5, 10.0)  # seconds for what has to come: few, where they are far more than a sound backend needs
HUNG = "hung"
BY_ID = {case.id: case for case in CASES}

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["mqplug_testing.contract", "mqplug.memory"])


def outcomes(kind, cases):
    """The cases, which come with their patience, and how their trials over this backend ended, one by one."""
    left = dict(cases)
    while left:
        for case, outcome in _in_a_child(kind, dict(left)):
            del left[case]
            yield case, outcome


def _in_a_child(kind, cases):
    """As far as one child comes: it is killed in the trial that hangs."""
    with _child(_try, kind, cases) as results:
        for case, patience in cases.items():
            outcome = _next(results, LIMIT * patience) or HUNG
            yield case, outcome
            if outcome == HUNG:
                return


def reach(kind, cases):
    """What each of these cases executes over this backend."""
    with _child(_watch, kind, cases) as results:
        return _next(results, 600)


@contextmanager
def _child(work, kind, cases):
    mine, theirs = _processes.Pipe(duplex=False)
    child = _processes.Process(target=work, args=(kind.__name__, cases, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        yield mine
    finally:
        child.kill()
        child.join()
        mine.close()


def _next(results, seconds):
    """What the child says next; None if it says nothing in time, or has ended."""
    try:
        return results.recv() if results.poll(seconds) else None
    except EOFError:
        return None


def _try(name, cases, results):
    kind = _prepared(name)
    for case, patience in cases.items():
        results.send(trial(kind, BY_ID[case], patience))
    _end()


def _watch(name, cases, results):
    kind, found = _prepared(name), Reach()
    for case in cases:
        for patience in PATIENCE:
            _forget()
            began = time.monotonic()
            with watched() as seen:
                outcome = trial(kind, BY_ID[case], patience)
            seconds = time.monotonic() - began
            found.add(case, outcome, seen, patience=patience, seconds=seconds)
            if outcome in SOUND and seconds < patience:
                break
    results.send(found)
    _end()


def _forget():
    """Clear the caches of the core: what a case would execute without those before it counts."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mqplug"):
            for each in vars(module).values():
                if isinstance(each, functools._lru_cache_wrapper):
                    each.cache_clear()


def _prepared(name):
    """The backend of this name, with its patches in place; nobody is to see what else it breaks."""
    for package in ("mutants", "innocents"):
        import_module(package)
    logging.getLogger().addHandler(logging.NullHandler())
    threading.excepthook = lambda _: None
    kind = KINDS[name]
    for place, attribute, wrong in kind.patches:
        setattr(place, attribute, wrong)
    return kind


def _end():
    os._exit(0)  # threads that a mutant left behind are not waited for
