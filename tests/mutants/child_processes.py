"""Trials in child processes: a mutant's changes to the core end with its child, and a child that hangs is killed."""

from __future__ import annotations

import functools
import logging
import math
import multiprocessing
import os
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from importlib import import_module

from mqplug_testing import CASES
from mqplug_testing.programs import check_programs
from mutants.base import KINDS
from mutants.executed_code import Reach, watched
from mutants.trial import SOUND, harness_of, trial

LIMIT = 5.0  # seconds within which a trial ends, for each second of its patience
PATIENCE = (1.5, 10.0)  # seconds to wait for a message: few, but far more than a sound backend needs
HUNG = "hung"
PROGRAMS_LIMIT = 120.0  # seconds for the random programs over one backend
BY_ID = {case.id: case for case in CASES}

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["mqplug_testing.contract", "mqplug.memory"])


def outcomes(kind, cases):
    """Yield the cases, given with their patience, each with the outcome of its trial over this backend."""
    left = dict(cases)
    while left:
        for case, outcome in _in_a_child(kind, dict(left)):
            del left[case]
            yield case, outcome


def _in_a_child(kind, cases):
    """Yield the outcomes of one child, which is killed in the trial that hangs."""
    with _child(_try, kind, cases) as results:
        for case, patience in cases.items():
            outcome = _next(results, LIMIT * patience) or HUNG
            yield case, outcome
            if outcome == HUNG:
                return


def reach(kind, cases):
    """Return what each of these cases executes over this backend."""
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
    """Return the child's next message; None if none comes in time, or the child has ended."""
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


def random_programs(kind, count, seed):
    """Return the rule that random programs find broken over this backend, "survives", "crashed" or "hung"."""
    with _child(_run_programs, kind, (count, seed)) as results:
        return _next(results, PROGRAMS_LIMIT) or HUNG


def _run_programs(name, count_and_seed, results):
    kind, (count, seed) = _prepared(name), count_and_seed
    with warnings.catch_warnings(), harness_of(kind("mutant")) as harness:
        warnings.simplefilter("ignore")
        try:
            found = check_programs(harness, math.inf, seed, programs=count, patience=1.0, shrink=False, restarts=True)
        except Exception as error:
            results.send(f"crashed {error!r}")
        else:
            results.send("survives" if found.failure is None else found.failure.broken.rule)
    _end()


def _forget():
    """Clear the caches of the core, so that each case executes what it would execute by itself."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mqplug"):
            for each in vars(module).values():
                if isinstance(each, functools._lru_cache_wrapper):
                    each.cache_clear()


def _prepared(name):
    """Return the backend of this name, with its patches applied; its other effects are silenced."""
    for package in ("mutants", "innocents"):
        import_module(package)
    logging.getLogger().addHandler(logging.NullHandler())
    threading.excepthook = lambda _: None
    kind = KINDS[name]
    for place, attribute, wrong in kind.patches:
        setattr(place, attribute, wrong)
    return kind


def _end():
    os._exit(0)  # without waiting for threads that a mutant left
