"""The corpus: a file of programs that once broke a rule, which later runs over the same backend repeat first.

Each line is a JSON object with the backend, the rule, the seed and the shrunk program. A program stays in the file when
it passes again; to forget it, delete its line.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import attrs

from mqplug_testing.model import Content
from mqplug_testing.model.topics import Sent
from mqplug_testing.programs._steps import FAMILIES, USUAL
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs.starts import AnyPlace

_STEPS: Final = (*USUAL, *(step for family in FAMILIES.values() for step in family))
_KINDS: Final = {kind.__name__: kind for kind in (*_STEPS, *get_args(AnyPlace), Sent, Content)}
_KIND: Final = "kind"  # the key of a class's name
_BYTES: Final = "base64"


class UnreadableCorpus(ValueError):
    """A corpus has a program that this version cannot read, perhaps one of another version."""


@attrs.frozen
class Entry:
    """A program that broke a rule over a backend. The seed is that of its run and of the program, before it shrank."""

    backend: str
    rule: str
    seed: str
    steps: tuple[Step, ...]


class Corpus:
    """The programs of one file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, backend: str) -> Iterator[Entry]:
        """Yield the programs of this backend. Raise ``UnreadableCorpus`` if one cannot be read."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                found = json.loads(line)
                if found["backend"] == backend:
                    yield Entry(backend, found["rule"], found["seed"], tuple(map(_decoded, found["steps"])))
            except (ValueError, KeyError, TypeError) as error:
                text = f"{self._path}, line {number}: no program of this version; delete the line: {error!r}"
                raise UnreadableCorpus(text) from None

    def add(self, entry: Entry) -> None:
        """Add a program, unless the file has its steps already."""
        if any(known.steps == entry.steps for known in self.of(entry.backend)):
            return
        found = {**attrs.asdict(entry, recurse=False), "steps": [_encoded(each) for each in entry.steps]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(found) + "\n")


def _encoded(value: Any) -> Any:
    if attrs.has(type(value)):
        fields = {each.name: _encoded(getattr(value, each.name)) for each in attrs.fields(type(value))}
        return {_KIND: type(value).__name__, **fields}
    if isinstance(value, bytes):
        return {_BYTES: b64encode(value).decode()}
    return [_encoded(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if not isinstance(value, dict):
        return value
    if _BYTES in value:
        return b64decode(value[_BYTES])
    return _KINDS[value[_KIND]](**{name: _decoded(each) for name, each in value.items() if name != _KIND})
