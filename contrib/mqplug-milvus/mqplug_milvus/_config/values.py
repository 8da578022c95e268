"""Reads values of ``milvus.yaml``: any value may be a string, and a blank one counts as not configured."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

import attrs

from mqplug import ConfigError
from mqplug.introspection import Complaint, Given, Unset, config_error, quoted

_TRUTH: Final = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}  # as Go reads them


@attrs.frozen
class MilvusValues:
    """The values of known keys by name, and the options of Kafka's client."""

    _given: Mapping[str, Given] = attrs.field(repr=False)
    options: Mapping[str, Mapping[str, Given]] = attrs.field(repr=False)

    def configured(self) -> list[str]:
        """Return the keys that are not blank."""
        return [key for key, given in self._given.items() if not is_blank(given.value)]

    def mentions(self, section: str) -> bool:
        """Return whether the file or a variable has a key of this section."""
        return any(key.partition(".")[0] == section for key in (*self._given, *self.options))

    def get(self, key: str) -> Given | None:
        """Return the value of a key, if it is not blank."""
        given = self._given.get(key)
        return None if given is None or is_blank(given.value) else given

    def text(self, key: str) -> Given | None:
        """Return the value as a string. Raise ``ConfigError`` if it needs a variable that is not set."""
        given = self.get(key)
        if given is None:
            return None
        if isinstance(given.value, Unset):
            text = f"{quoted(given.place)} needs the environment variable {given.value.variable!r}, which is not set"
            raise config_error([Complaint(text, f"Set {given.value.variable}")])
        if isinstance(given.value, Mapping | list):
            raise wrong(given, f"expected a string, not a {'table' if isinstance(given.value, Mapping) else 'list'}")
        return attrs.evolve(given, value=str(given.value).strip())

    def number(self, key: str) -> Given | None:
        """Return the value as a whole number."""
        given = self.text(key)
        if given is None:
            return None
        try:
            return attrs.evolve(given, value=int(given.value))
        except ValueError:
            reason = "expected a whole number"
        raise wrong(given, reason)

    def is_true(self, key: str) -> bool:
        """Return whether the value is present and true."""
        given = self.text(key)
        if given is not None and given.value.lower() not in _TRUTH:
            raise wrong(given, "expected true or false")
        return given is not None and _TRUTH[given.value.lower()]


def is_blank(value: Any) -> bool:
    """Return whether a value is blank."""
    return value is None or (isinstance(value, str) and not value.strip()) or value == [] or value == {}


def wrong(given: Given, reason: str, fix: str | None = None) -> ConfigError:
    """Return the error for an invalid value. ``reason`` must not show a secret."""
    return config_error([Complaint(f"{quoted(given.place)}: {reason}", fix)])


def one_of(given: Given, allowed: Collection[str], spoken: Collection[str] | None = None) -> str:
    """Return the allowed value that equals this one, ignoring case, or raise ``ConfigError`` that names the nearest."""
    by_case = {each.casefold(): each for each in allowed}
    value = str(given.value).casefold()
    if value in by_case:
        return by_case[value]
    near = get_close_matches(value, by_case, n=1)
    reason = f"expected one of {', '.join(map(repr, spoken or allowed))}, not {str(given.value)!r}"
    raise wrong(given, reason, f"Did you mean {by_case[near[0]]!r}?" if near else None)
