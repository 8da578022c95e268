"""``PromiseBroken``: the error of a failed comparison, with the expected and the actual value in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

ONE_LINE_CHARS: Final = 100  # longer values get a line for each item
MAX_SHOWN_ITEMS: Final = 40  # of a longer list, the items around the first difference are shown


class PromiseBroken(AssertionError):
    """The error of a failed case, with the expected and the actual value as text; ``what`` names the comparison.

    ``difference`` is the first difference of two long values, in one line.
    """

    def __init__(self, what: str = "", *, expected: str = "", seen: str = "", difference: str = "") -> None:
        super().__init__(what, expected, seen, difference)
        self.what = what
        self.expected = expected
        self.seen = seen
        self.difference = difference

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.what, self.expected, self.seen, self.difference)

    def __str__(self) -> str:
        return "\n".join([*filter(None, [self.what]), *sides_of(self.expected, self.seen)]) or "a comparison failed"

    @property
    def brief(self) -> str:
        """The error in one line."""
        difference = self.difference or (f"expected {self.expected}, seen {self.seen}" if self.expected else "")
        return " ".join(": ".join(filter(None, [self.what, difference])).split())


def _again(what: str, expected: str, seen: str, difference: str) -> PromiseBroken:
    return PromiseBroken(what, expected=expected, seen=seen, difference=difference)


def difference_of(expected: object, seen: object, what: str = "") -> PromiseBroken:
    """Return the error to raise when two values that should be equal differ."""
    at, difference = 0, ""
    if isinstance(expected, (list, tuple)) and isinstance(seen, (list, tuple)):
        at = _first_difference(expected, seen)
        difference = f"at [{at}] expected {_item(expected, at)}, seen {_item(seen, at)}"
    return PromiseBroken(what, expected=value_text(expected, at), seen=value_text(seen, at), difference=difference)


def _item(values: Sequence[object], at: int) -> str:
    return repr(values[at]) if at < len(values) else "nothing"


def error_text(error: BaseException) -> str:
    """Return an error as text."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def value_text(value: object, at: int = 0) -> str:
    """Return a value as text: on one line if it is short, else with a line for each item. Items are never truncated."""
    text = repr(value)
    if len(text) <= ONE_LINE_CHARS or not isinstance(value, (list, tuple, set, frozenset, Mapping)) or not value:
        return text
    items = list(_items(value))
    if len(items) <= MAX_SHOWN_ITEMS:
        return "\n".join([f"{len(items)} item{'s' if len(items) > 1 else ''}", *items])
    begin = max(0, min(at - MAX_SHOWN_ITEMS // 2, len(items) - MAX_SHOWN_ITEMS))
    end = begin + MAX_SHOWN_ITEMS
    return "\n".join([f"{len(items)} items, of which {begin} to {end - 1}", *items[begin:end]])


def _items(value: Sequence[object] | set[object] | frozenset[object] | Mapping[object, object]) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (f"{name!r}: {each!r}" for name, each in value.items())
    elif isinstance(value, (set, frozenset)):
        yield from sorted(map(repr, value))
    else:
        yield from (f"[{number}] {each!r}" for number, each in enumerate(value))


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _side(name: str, text: str) -> str:
    first, *others = text.splitlines() or [""]
    return "\n".join([f"{name + ':':<9} {first}", *(f"    {line}" for line in others)]) if text else ""


def sides_of(expected: str, seen: str) -> Iterator[str]:
    """Yield both sides as lines."""
    yield from filter(None, [_side("expected", expected), _side("seen", seen)])
