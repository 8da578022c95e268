"""The text of a failed case: rule, expected and actual value, source, and the backend's own frames."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final

import attrs
import pluggy
import pytest

from mqplug_testing._case_tools.broken_promise import PromiseBroken, error_text, sides_of
from mqplug_testing._case_tools.registry import Case

KIT_FOLDER: Final = str(Path(__file__).parents[1]) + os.sep
CASES_FOLDER: Final = str(Path(KIT_FOLDER, "contract")) + os.sep
FIXTURES_FILE: Final = str(Path(CASES_FOLDER, "conftest.py"))
RUNNER_FILES: Final = (
    *(str(Path(inspect.getfile(each)).parent) + os.sep for each in (pytest, pytest.Item, pluggy)),
    contextlib.__file__,
)
TIMEOUT: Final = re.compile(r"Timeout \(?>([\d.]+s)")  # pytest-timeout before 2.4 has no parentheses
PHASE_TEXTS: Final = {
    "setup": "The case was not run: its fixtures failed to set up.",
    "teardown": "The case was run. Its fixtures failed afterwards.",
}


@attrs.frozen
class SourceFrame:
    """A line of a function that was running."""

    file: str
    line: int
    code: CodeType

    @property
    def is_case(self) -> bool:
        """Whether it belongs to a case, or to code that several cases share."""
        return self.file.startswith(CASES_FOLDER) and self.file != FIXTURES_FILE

    @property
    def is_of_the_kit(self) -> bool:
        """Whether it only runs cases."""
        return not self.is_case and self.file.startswith((KIT_FOLDER, *RUNNER_FILES))


@attrs.frozen
class CaseFailure:
    """A failed case, as it is shown."""

    case: Case
    phase: str
    error: BaseException | None
    message: str

    @property
    def headline(self) -> str:
        """The rule, in one line."""
        return self.case.headline

    @property
    def brief(self) -> str:
        """The failure, in one line."""
        if self.phase != "call":
            return " ".join(PHASE_TEXTS[self.phase].split() + self.message.split())
        return self.error.brief if isinstance(self.error, PromiseBroken) else " ".join(self._sides()[-1].split())

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and line of the case at which it failed."""
        frames = frames_of(self.error)
        last = [frame for frame in frames if frame.is_case] or [frame for frame in frames if not frame.is_of_the_kit]
        return (last[-1].file, last[-1].line) if last else None

    def text(self) -> str:
        """Return the whole text."""
        frames = frames_of(self.error)
        ours = [frame for frame in frames if frame.is_case]
        parts = [self.headline, "\n".join(self._comparison()), *map(excerpt, _by_function(ours))]
        if self.error is not None and not (isinstance(self.error, PromiseBroken) and self.error.__cause__ is None):
            parts.append("".join(_traceback(self.error)))
        return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"

    def _comparison(self) -> Iterator[str]:
        if self.phase != "call":
            yield PHASE_TEXTS[self.phase]
        elif isinstance(self.error, PromiseBroken):
            yield str(self.error)
        else:
            yield from sides_of(*self._sides())

    def _sides(self) -> tuple[str, str]:
        if self.error is None:
            known = self.message.removeprefix("[XPASS(strict)] ")
            return f"a known failure: {known}", "it passed; remove it from the known failures"
        if (timeout := TIMEOUT.match(self.message)) is not None:
            return f"an end within {timeout[1]}", "it was still running"
        if isinstance(self.error, pytest.fail.Exception):
            return "", str(self.error)
        return "no error", error_text(self.error)


def frames_of(error: BaseException | None) -> list[SourceFrame]:
    """Return the frames of an error, the outermost first."""
    return list(_frames(None if error is None else error.__traceback__))


def _frames(trace: TracebackType | None) -> Iterator[SourceFrame]:
    while trace is not None:
        yield SourceFrame(trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame.f_code)
        trace = trace.tb_next


def _by_function(frames: Sequence[SourceFrame]) -> list[SourceFrame]:
    """Return the last frame of each function."""
    return list({frame.code: frame for frame in frames}.values())


def excerpt(frame: SourceFrame) -> str:
    """Return the source of a function up to the line that was running, which is marked."""
    begin = frame.code.co_firstlineno
    lines = [
        f"{'>' if number == frame.line else ' '}   {linecache.getline(frame.file, number)}".rstrip()
        for number in range(begin, frame.line + 1)
    ]
    return "\n".join([f"{_path(frame.file)}:{frame.line}: in {frame.code.co_name}", *lines])


def _path(file: str) -> str:
    """Return the shortest way to write a path."""
    return min(file, os.path.relpath(file), key=len)


def _traceback(error: BaseException) -> Iterator[str]:
    """Yield the traceback after the case: the frames of mqplug and of the backend, with the errors that caused this
    one.
    """
    if isinstance(error, PromiseBroken) and error.__cause__ is not None:  # its own text is shown already
        error = error.__cause__
    formatted = traceback.TracebackException.from_exception(error)
    left = [formatted]
    while left:
        each = left.pop()
        each.stack = traceback.StackSummary.from_list(list(_after_the_case(each.stack)))
        left += [other for other in (each.__cause__, each.__context__) if other is not None]
    yield from formatted.format()


def _after_the_case(stack: Sequence[traceback.FrameSummary]) -> Iterator[Any]:
    files = [SourceFrame(each.filename, 0, _NO_CODE) for each in stack]
    begin = max((number + 1 for number, frame in enumerate(files) if frame.is_case), default=0)
    for summary, frame in list(zip(stack, files, strict=True))[begin:]:
        if not frame.is_of_the_kit:
            yield summary


_NO_CODE: Final = _by_function.__code__


def shorten_report(report: pytest.TestReport, case: Case, error: BaseException | None, *, whole: bool) -> str:
    """Replace the text of a failed report by that of its case, unless `whole`. Return the failure in one line."""
    failure = CaseFailure(case, str(report.when), error, _message(report, error))
    value_text: Any = report.longrepr
    if error is None:
        report.longrepr = failure.text()
        return failure.brief
    if not whole:
        value_text = pytest.ExceptionInfo.from_exception(error).getrepr(style="native")
        value_text.reprtraceback.reprentries[0].lines = [failure.text()]
        report.longrepr = value_text
    if (crash := getattr(value_text, "reprcrash", None)) is not None:
        crash.message = failure.headline
        if failure.place is not None:
            crash.path, crash.lineno = failure.place
    return failure.brief


def _message(report: pytest.TestReport, error: BaseException | None) -> str:
    return str(error) if error is not None else str(report.longrepr)
