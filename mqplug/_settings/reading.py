"""Strict conversion of values: a string is converted to a number only if its source has only text.

Messages do not show values, which may be secrets, except a word where only a few are allowed.
"""

from __future__ import annotations

import os
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Final

import attrs

from mqplug._settings.fields import Text

if typing.TYPE_CHECKING:
    from cattrs import Converter

# cattrs is imported where it is used: it takes longer than everything else that a client needs

Hook = Callable[[Any, Any], Any]

_TRUTH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_SIMPLE: Final = (str, bytes, bool, int, float)
_WORD: Final = re.compile(r"[\w .+-]{0,40}", re.ASCII)
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TYPE_WORDS: Final = {bool: "true or false", int: "a whole number", float: "a number"}


class WrongValue(TypeError):
    """A value that does not fit its setting, described without secrets, with a likely fix if there is one."""

    def __init__(self, text: str, fix: str | None = None) -> None:
        super().__init__(text)
        self.fix = fix


@cache
def converter() -> Converter:
    """Return the converter for all settings."""
    from cattrs import Converter

    made = Converter(forbid_extra_keys=True)
    for kind in _SIMPLE:
        made.register_structure_hook(kind, _exactly)
    made.register_structure_hook(timedelta, _durations)
    made.register_structure_hook(Enum, _enumeration)
    made.register_structure_hook_factory(attrs.has, _tables)
    made.register_structure_hook_factory(_is_list, _lists)
    made.register_structure_hook_factory(_is_mapping, _mappings)
    made.register_structure_hook_factory(_is_choice, _choices)
    made.register_structure_hook_factory(_is_union, _unions)
    made.register_structure_hook_func(is_function, _functions)
    return made


def simple(value: Any, kind: Any) -> Any:
    """Return a value of a simple type: text, a number, a flag, or one of several words.

    Raise ``WrongValue`` if it does not fit, or if its type is not simple.
    """
    if kind in _SIMPLE:
        return _exactly(value, kind)
    if _is_choice(kind):
        return _chosen(value, typing.get_args(kind))
    raise WrongValue(f"expected {_name(kind)}, not {_spoken(value)}")


def _exactly(value: Any, kind: type[Any]) -> Any:
    if isinstance(value, Text):
        return _from_text(str(value), kind)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    raise WrongValue(f"expected {kind.__name__}, not {type(value).__name__}")


def _from_text(text: str, kind: type[Any]) -> Any:
    try:
        if kind is bool:
            return _TRUTH[text.strip().lower()]
        if kind in {int, float}:
            return kind(text)
    except (KeyError, ValueError):
        raise WrongValue(f"expected {kind.__name__}, written as {_TYPE_WORDS[kind]}") from None
    return text.encode() if kind is bytes else text


def _tables(kind: Any, made: Converter) -> Hook:
    from cattrs.gen import make_dict_structure_fn

    plain = make_dict_structure_fn(kind, made, _cattrs_forbid_extra_keys=True)

    def read(value: Any, wanted: Any) -> Any:
        if not isinstance(value, Mapping):
            raise WrongValue(f"expected a table, not {_spoken(value)}")
        return plain(value, wanted)

    return read


def _lists(kind: Any, made: Converter) -> Hook:
    from cattrs.cols import list_structure_factory

    plain = list_structure_factory(kind, made)
    origin = typing.get_origin(kind) or kind
    build = origin if origin in {tuple, set, frozenset} else list

    def read(value: Any, wanted: Any) -> Any:
        if isinstance(value, Text):
            value = [Text(part.strip()) for part in value.split(",") if part.strip()]
        elif not isinstance(value, list | tuple):
            raise WrongValue(f"expected a list, not {_spoken(value)}")
        return build(plain(value, wanted))

    return read


def _mappings(kind: Any, made: Converter) -> Hook:
    from cattrs.gen import mapping_structure_factory

    plain = mapping_structure_factory(kind, made)

    def read(value: Any, wanted: Any) -> Any:
        if isinstance(value, Text):
            pairs = [part.partition("=") for part in value.split(",") if part.strip()]
            if not all(equals and key.strip() for key, equals, _ in pairs):
                raise WrongValue("expected a mapping, written as key=value, with commas between them")
            value = {key.strip(): Text(text.strip()) for key, _, text in pairs}
        elif not isinstance(value, Mapping):
            raise WrongValue(f"expected a table, not {_spoken(value)}")
        return plain(value, wanted)

    return read


def _choices(kind: Any, made: Converter) -> Hook:
    choices = typing.get_args(kind)
    return lambda value, _: _chosen(value, choices)


def _chosen(value: Any, choices: Sequence[Any]) -> Any:
    for choice in choices:
        if value == choice and (isinstance(value, Text) or type(value) is type(choice)):
            return choice
    raise _none_of(choices, value)


def _enumeration(value: Any, kind: type[Enum]) -> Enum:
    """Return the member with this value, or the value if it is a member."""
    if isinstance(value, kind):
        return value
    for member in kind:
        if value == member.value and not isinstance(value, bool):
            return member
    raise _none_of([member.value for member in kind], value)


def _none_of(choices: Sequence[Any], value: object) -> WrongValue:
    """Return the error for a value that is not allowed. A word is shown, because it is not a secret."""
    is_word = isinstance(value, str) and _WORD.fullmatch(value) is not None
    given = repr(str(value)) if is_word else _spoken(value)
    near = {str(choice).casefold(): choice for choice in choices}
    found = get_close_matches(str(value).casefold(), near, n=1) if is_word else []
    fix = f"Did you mean {near[found[0]]!r}?" if found else None
    return WrongValue(f"expected one of {', '.join(map(repr, choices))}, not {given}", fix)


def _durations(value: Any, kind: Any) -> timedelta:
    """Return a timedelta. Files and URLs write it as a string such as 7d, 12h, 30m or 45s."""
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise WrongValue(f"expected a duration such as '7d', '12h', '30m' or '45s', not {_spoken(value)}")
    with suppress(OverflowError):
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    raise WrongValue("expected a shorter duration")


def _functions(value: Any, kind: Any) -> Any:
    if callable(value):
        return value
    raise WrongValue(f"expected a function, not {_spoken(value)}")


def _unions(kind: Any, made: Converter) -> Hook:
    kinds = typing.get_args(kind)

    def read(value: Any, wanted: Any) -> Any:
        if value is None and type(None) in kinds:
            return None
        for each in sorted(kinds, key=lambda each: each is str):  # str comes last, because any text can be read as str
            with suppress(Exception):  # try the next type
                return made.structure(value, each)
        raise WrongValue(f"expected {' or '.join(_name(each) for each in kinds)}, not {_spoken(value)}")

    return read


def _is_list(kind: Any) -> bool:
    from cattrs.cols import is_any_set, is_sequence

    return is_sequence(kind) or is_any_set(kind) or typing.get_origin(kind) is tuple


def _is_mapping(kind: Any) -> bool:
    return (typing.get_origin(kind) or kind) in {dict, Mapping}


def _is_choice(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Literal


def is_function(kind: Any) -> bool:
    """Return whether a setting of this type takes a function, which only a program can pass."""
    return typing.get_origin(kind) is Callable


def _is_union(kind: Any) -> bool:
    """Return whether this is a union of several types. A type or None does not count: its own error is clearer."""
    if not isinstance(kind, UnionType) and typing.get_origin(kind) is not typing.Union:
        return False
    return len([each for each in typing.get_args(kind) if each is not type(None)]) > 1


def _name(kind: Any) -> str:
    if is_function(kind):
        return "a function"
    return "nothing" if kind is type(None) else getattr(kind, "__name__", str(kind))


def _spoken(value: object) -> str:
    return "a string" if isinstance(value, str) else type(value).__name__
