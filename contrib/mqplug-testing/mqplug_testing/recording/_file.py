"""Writes and reads recordings in files: a line of JSON for each call."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqplug import Corrupt, Log, Position
from mqplug_testing.recording._calls import Call

if TYPE_CHECKING:
    from cattrs import Converter


class CallsInFile:
    """The calls in a file, appended one by one. Each line is written at once, and so survives a kill of the process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.close = weakref.finalize(self, os.close, self._file)

    def put(self, call: Call) -> None:
        """Append a call. A later line of the same call replaces an earlier one."""
        line = json.dumps(_converter().unstructure(call), separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")

    def calls(self) -> Iterator[Call]:
        """Return all calls in the file."""
        return read(self._path)


def read(path: str | os.PathLike[str]) -> Iterator[Call]:
    """Return the calls of a recording, in the order in which they began.

    Calls that a killed process had not ended have the outcome unknown. A last line that it did not finish is skipped.
    """
    last: dict[tuple[str, int], Call] = {}
    for number, line in enumerate(Path(path).read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        call = _call(path, number, line)
        last[call.run, call.number] = call
    yield from sorted(last.values(), key=lambda call: (call.began, call.number))


def _call(path: str | os.PathLike[str], number: int, line: bytes) -> Call:
    try:
        return _converter().structure(json.loads(line), Call)
    except Exception as error:
        raise Corrupt(
            f"line {number} of {os.fspath(path)!r} is not a recorded call",
            fix="Read a file that a Recorder of this version wrote",
        ) from error


@cache
def _converter() -> Converter:
    from cattrs.preconf.json import make_converter

    def log(value: Any, kind: type[Log]) -> Log:
        return Log(*value)

    def position(value: Any, kind: type[Position]) -> Position:
        return Position(Log(*value[0]), tuple(value[1]))

    made = make_converter(omit_if_default=True)
    made.register_unstructure_hook(Log, lambda each: each.__reduce__()[1])
    made.register_structure_hook(Log, log)
    made.register_unstructure_hook(Position, lambda each: (each.log.__reduce__()[1], each.coordinates))
    made.register_structure_hook(Position, position)
    return made
