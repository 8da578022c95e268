"""Chooses messages by key, value and headers, as shells choose files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mqplug
    from mqplug_cli._messages.envelopes import Headers

_Matches = Callable[[str], object]


class MessageFilter:
    """Patterns of keys, values and headers. A message passes if it matches one of each kind that was given."""

    def __init__(self, keys: Sequence[str], values: Sequence[str], headers: Sequence[str]) -> None:
        """Take headers as ``NAME=GLOB``; ``ValueError`` for another text."""
        self._keys = [_pattern(each) for each in keys]
        self._values = [_pattern(each) for each in values]
        self._headers = [_header_patterns(each) for each in headers]

    @property
    def is_empty(self) -> bool:
        """Whether every message passes."""
        return not (self._keys or self._values or self._headers)

    def rows(self, batch: mqplug.Batch) -> list[int]:
        """Return the rows of the messages that pass."""
        rows = list(range(len(batch)))
        if self._keys:
            rows = [row for row in rows if _any_matches(self._keys, batch.keys[row])]
        if self._values:
            rows = [row for row in rows if _any_matches(self._values, batch.values[row])]
        if self._headers:
            rows = [row for row in rows if self._has_header(batch.headers[row])]
        return rows

    def _has_header(self, headers: Headers) -> bool:
        return any(
            name_matches(name) and _any_matches([value_matches], value)
            for name, value in headers
            for name_matches, value_matches in self._headers
        )


def _pattern(glob: str) -> _Matches:
    return re.compile(translate(glob)).match


def _header_patterns(text: str) -> tuple[_Matches, _Matches]:
    name, separator, glob = text.partition("=")
    if not separator:
        raise ValueError(f"{text!r} is not NAME=GLOB")
    return _pattern(name), _pattern(glob)


def _any_matches(patterns: Sequence[_Matches], data: bytes | None) -> bool:
    if data is None:
        return False
    text = data.decode("utf-8", "surrogateescape")  # as arguments that are no UTF-8
    return any(matches(text) for matches in patterns)
