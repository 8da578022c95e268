"""Makes a failing program smaller: removes steps, and simplifies what is left, as long as it breaks the same rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from mqplug_testing.model import Content
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs._steps.consuming import OpenConsumer
from mqplug_testing.programs._steps.producing import Send
from mqplug_testing.programs._steps.topics import CreateTopic
from mqplug_testing.programs.starts import Symbol

SHRINKING_S: Final = 60.0  # for all attempts together

Breaks = Callable[[Sequence[Step]], list[Step] | None]
"""A function that runs a program, and returns the steps that were executed if it broke the rule."""


def shrunk(program: Sequence[Step], breaks: Breaks) -> list[Step]:
    """Return a smaller program for which ``breaks`` is true."""
    end = time.monotonic() + SHRINKING_S
    best = list(program)
    size = len(best) // 2
    while time.monotonic() < end:
        smaller = _without_some(best, size, breaks, end)
        if len(smaller) < len(best):
            best, size = smaller, min(size, len(smaller) // 2)
        elif size > 1:
            size //= 2
        else:
            break
    return _simplified(best, breaks, end)


def _without_some(program: list[Step], size: int, breaks: Breaks, end: float) -> list[Step]:
    """Try to remove runs of steps, the later ones first."""
    size = max(1, size)
    at = len(program) - size
    while at > -size and time.monotonic() < end:
        begin = max(0, at)
        found = breaks([*program[:begin], *program[begin + size :]])
        if found is not None:
            program = found
            at = min(at, len(program))
        at -= size
    return program


def _simplified(program: list[Step], breaks: Breaks, end: float) -> list[Step]:
    """Try simpler forms of each step."""
    for at in range(len(program)):
        for simpler in _simpler(program[at]) if at < len(program) else ():
            if time.monotonic() > end:
                return program
            found = breaks([*program[:at], simpler, *program[at + 1 :]])
            if found is not None:
                program = found
                break
    return program


def _simpler(step: Step) -> Iterator[Step]:
    """Yield simpler forms of a step, the simplest first."""
    match step:
        case CreateTopic() if step.partitions > 1:
            for partitions in range(1, step.partitions):
                yield attrs.evolve(step, partitions=partitions)
        case Send():
            plain = tuple(attrs.evolve(each, content=Content(b"")) for each in step.records)
            for records in (plain[:1], plain[-1:], step.records[:1], step.records[-1:]):
                yield Send(step.producer, step.topic, records)
            yield attrs.evolve(step, records=plain)
        case OpenConsumer():
            if len(step.topics) > 1:
                yield from (attrs.evolve(step, topics=(each,)) for each in step.topics)
            if step.start != Symbol("EARLIEST"):
                yield attrs.evolve(step, start=Symbol("EARLIEST"))
