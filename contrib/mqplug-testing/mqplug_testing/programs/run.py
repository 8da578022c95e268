"""Runs random programs over a backend, until the time is over or a rule is broken; the broken one is shrunk."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from mqplug import Client
from mqplug_testing._harness.harness import Harness
from mqplug_testing.model import LogTimes, RuleBroken
from mqplug_testing.model.rules import counting
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs.corpus import Corpus, Entry
from mqplug_testing.programs.generate import Generator, Pairs, operations
from mqplug_testing.programs.play import CLIENTS, Play
from mqplug_testing.programs.report import Failure, Findings
from mqplug_testing.programs.shrink import shrunk

MAX_STEPS: Final = 60


@attrs.define
class Run:
    """A program that was run: its steps, what they did, and the rule that it broke, if any."""

    steps: list[Step]
    play: Play
    broken: RuleBroken | None = None


def check_programs(
    harness: Harness,
    seconds: float = 60.0,
    seed: int | None = None,
    *,
    programs: int | None = None,
    patience: float | None = None,
    shrink: bool = True,
    restarts: bool = False,
    corpus: Path | None = None,
) -> Findings:
    """Run random programs, and judge each call by the rules.

    It ends after ``seconds``, after ``programs``, or with the first program in which a rule is broken, which is then
    shrunk. The same ``seed`` draws the same programs, as long as the backend answers the same. ``patience`` is how long
    to wait for a message that must come; by default that of the harness. ``restarts`` has programs restart and kill the
    backend too, with the hooks of the harness. ``corpus`` is a file to which that program is added; those that it has
    of this backend run first.
    """
    drawn = random.randrange(2**31) if seed is None else seed
    waits = harness.waiting.something if patience is None else patience
    findings, log_times = Findings(drawn), LogTimes()
    known, hooks = None if corpus is None else Corpus(corpus), _hooks(harness, restarts=restarts)
    with _quiet(), counting(findings.rules), _clients(harness) as clients:
        backend = clients["mq"].backend
        findings.operations = len(operations(clients["mq"].capabilities, hooks))
        for entry in known.of(backend) if known is not None else ():
            findings.repeated += 1
            again = _perform(entry.steps, Play(clients, log_times, patience=waits, hooks=hooks))
            clients.update(again.play.clients)
            if again.broken is not None:
                findings.failure = failure_of(again)
                return findings
        run, end = None, time.monotonic() + seconds
        while time.monotonic() < end and (programs is None or findings.programs < programs):
            play = Play(clients, log_times, patience=waits, hooks=hooks)
            run = _one(play, f"{drawn}/{findings.programs}", findings.pairs)
            clients.update(play.clients)
            findings.count(run.steps)
            if run.broken is not None:
                break
    if run is not None and run.broken is not None:
        small = _shrunk(harness, run, log_times, waits, restarts=restarts) if shrink else run
        findings.failure = failure_of(small)
        if known is not None and small.broken is not None:
            number = findings.programs - 1
            known.add(Entry(backend, small.broken.rule, f"{drawn}/{number}", tuple(small.steps)))
    return findings


def failure_of(run: Run) -> Failure:
    """Return the failure of a program that broke a rule."""
    assert run.broken is not None
    return Failure(run.broken, tuple(run.steps), tuple(run.play.lines))


def _one(play: Play, seed: str, pairs: Pairs) -> Run:
    luck = random.Random(seed)
    steps = Generator(play, luck, pairs).steps(luck.randint(MAX_STEPS // 4, MAX_STEPS))
    return _perform(steps, play)


def _perform(steps: Iterable[Step], play: Play) -> Run:
    run = Run([], play)
    random.seed(0)  # producers draw the first partition for records without a key
    try:
        for step in steps:
            if step.applies(play):
                run.steps.append(step)
                step.perform(play)
    except RuleBroken as error:
        run.broken = error
    finally:
        play.close()
    return run


def replay(
    harness: Harness,
    steps: Sequence[Step],
    *,
    patience: float | None = None,
    log_times: LogTimes | None = None,
    restarts: bool = False,
) -> Run:
    """Run the steps of a program again."""
    waits = harness.waiting.something if patience is None else patience
    hooks = _hooks(harness, restarts=restarts)
    with _quiet(), _clients(harness) as clients:
        play = Play(clients, log_times or LogTimes(), patience=waits, hooks=hooks)
        run = _perform(steps, play)
        clients.update(play.clients)
    return run


def _shrunk(harness: Harness, run: Run, log_times: LogTimes, patience: float, *, restarts: bool) -> Run:
    """Return the smallest program that was found to break the same rule."""
    assert run.broken is not None
    best, rule = run, run.broken.rule

    def breaks(steps: Sequence[Step]) -> list[Step] | None:
        nonlocal best
        again = replay(harness, steps, patience=patience, log_times=log_times, restarts=restarts)
        if again.broken is None or again.broken.rule != rule:
            return None
        best = again
        return again.steps

    shrunk(run.steps, breaks)
    return best


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop the log lines that programs provoke, such as those about gaps."""
    logger = logging.getLogger("mqplug")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def _clients(harness: Harness) -> Iterator[dict[str, Client]]:
    """Yield open clients by name. Programs may replace them."""
    clients: dict[str, Client] = {}
    try:
        for name in CLIENTS:
            clients[name] = harness.connect()
        yield clients
    finally:
        for client in clients.values():
            with suppress(Exception):
                client.close(10)


def _hooks(harness: Harness, *, restarts: bool) -> dict[str, Callable[[], object]]:
    """Return the functions that programs may call besides those of mqplug."""
    hooks: dict[str, Callable[[], object]] = {"connect": harness.connect}
    if restarts and harness.restart is not None:
        hooks["restart"] = harness.restart
    if restarts and harness.kill is not None and harness.start is not None:
        hooks |= {"kill": harness.kill, "start": harness.start}
    return hooks
