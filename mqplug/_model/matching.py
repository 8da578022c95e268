"""Topics chosen by a pattern of their names."""

from __future__ import annotations

import re

import attrs


@attrs.frozen
class Matching:
    """All topics whose whole name matches a regular expression, now and later. Made by ``matching``."""

    pattern: str
    _compiled: re.Pattern[str] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_compiled", re.compile(self.pattern))

    def matches(self, topic: str) -> bool:
        """Return whether a topic's whole name matches."""
        return self._compiled.fullmatch(topic) is not None

    def __str__(self) -> str:
        return f"matching({self.pattern!r})"


def matching(pattern: str) -> Matching:
    """Choose all topics whose whole name matches a regular expression, as in ``matching("orders[.].*")``.

    A consumer reads those that exist, and those that are created later from their first message.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"a pattern is a str, not {type(pattern).__name__}")
    try:
        return Matching(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
