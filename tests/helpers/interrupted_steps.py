"""Ctrl-C at a chosen step of mqplug's code: at each place where Python may raise it, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import mqplug

FORGIVEN = {"__del__", "<genexpr>"}  # Python drops exceptions that are raised while these are freed
ROOT = Path(mqplug.__file__).parent


@cache
def _steps(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}


class Interrupt:
    """Raises ``KeyboardInterrupt`` once, in this thread, at step number ``number`` of the chosen packages.

    A step is a place where CPython checks for signals: the start of a function, the return of one in C, and a jump
    backwards.
    """

    def __init__(self, number: int, packages: tuple[str, ...]) -> None:
        self._left = number
        self._within = tuple(str(ROOT / each) for each in packages)
        self._called: FrameType | None = None
        self.where: str | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        called, self._called = self._called, None
        if frame.f_code.co_name in FORGIVEN or not frame.f_code.co_filename.startswith(self._within):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "call":
            self._step(frame)
        elif event == "opcode":
            step = _steps(frame.f_code).get(frame.f_lasti, "")
            if called is frame or step.startswith("JUMP_BACKWARD"):
                self._step(frame)
            if step in {"CALL", "CALL_KW", "CALL_FUNCTION_EX"}:
                self._called = frame
        return self

    def _step(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
            raise KeyboardInterrupt


@contextmanager
def interrupted(interrupt: Interrupt) -> Iterator[None]:
    """Interrupt the block, and suppress the ``KeyboardInterrupt``."""
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
