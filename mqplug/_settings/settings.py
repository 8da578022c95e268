"""Filling settings classes from mappings. All errors are reported at once, with their paths and without values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import attrs

from mqplug._model.errors import ConfigError, Error
from mqplug._settings.fields import fields_of
from mqplug._settings.reading import WrongValue, converter, simple
from mqplug._settings.secrets import secrets_of, shows
from mqplug._settings.urls import without_logins

T = TypeVar("T")
Path = tuple[str | int, ...]

_FIRST: Final = re.compile(r"'?(\w+)'? ")
_QUOTED: Final = re.compile(r"'(\w+)'")


@attrs.frozen
class Complaint:
    """One error, and how to fix it."""

    text: str
    fix: str | None = None


def structured(
    kind: type[T],
    given: Mapping[str, Any],
    path: str,
    *,
    places: Mapping[str, str] | None = None,
    backend: str | None = None,
) -> T:
    """Return settings of this class. Raise one ``ConfigError`` for all their errors.

    ``path`` is their section, such as ``kafka``. ``places`` has better names for keys in errors, such as an environment
    variable.
    """
    made, complaints = _attempt(kind, given, path, places or {})
    if complaints:
        raise config_error(complaints, backend)
    return made  # type: ignore[return-value]


def _attempt(
    kind: type[T], given: Mapping[str, Any], path: str, places: Mapping[str, str]
) -> tuple[T | None, list[Complaint]]:
    if (plain := _plain(kind, given)) is not None:
        with suppress(Exception):  # the converter raises the same error with its place
            return kind(**plain), []
    try:
        return converter().structure(dict(given), kind), []
    except Exception as error:  # noqa: BLE001 - a validator may raise anything
        examiner = _Examiner(path, places, secrets_of(kind, given))
        return None, list(examiner.complaints(error, kind, ()))


def _plain(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values if each is of a simple type and fits, as most do; otherwise None. It does without cattrs."""
    fields = fields_of(kind) if given else {}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            return None
        wanted = fields[name].kind
        if wanted == list[str] and type(value) is list and all(type(each) is str for each in value):
            found[name] = list(value)
            continue
        try:
            found[name] = simple(value, wanted)
        except WrongValue:
            return None
    return found


def config_error(complaints: list[Complaint], backend: str | None = None) -> ConfigError:
    """Return one error for all complaints."""
    if len(complaints) == 1:
        return ConfigError(complaints[0].text, fix=complaints[0].fix, backend=backend)
    text = "; ".join(f"{each.text} ({each.fix})" if each.fix else each.text for each in complaints)
    return ConfigError(text, backend=backend)


def unknown(name: str, place: str, path: str, known: Iterable[str]) -> Complaint:
    """Return the complaint about an unknown setting of the section ``path``. ``place`` is its displayed name."""
    near = get_close_matches(name, list(known), n=1)
    text = f"unknown setting {quoted(place)}"
    if not near:
        return Complaint(text, nearest(name, known))
    if place.endswith(name.upper()):  # an environment variable
        return Complaint(text, f"Did you mean {place.removesuffix(name.upper()) + near[0].upper()!r}?")
    return Complaint(text, f"Did you mean {f'{path}.{near[0]}'.lstrip('.')!r}?")


def quoted(place: str) -> str:
    """Return a setting's name in quotes, followed by its file, if any."""
    key, where, file = place.partition(" in ")
    return f"{key!r}{where}{file}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the advice for an unknown name: the nearest known one, or all."""
    near = get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known names: {', '.join(sorted(known)) or 'none'}"


@attrs.frozen
class _Examiner:
    """An examiner that converts errors of reading settings to complaints."""

    path: str
    places: Mapping[str, str]
    secrets: set[str]

    def complaints(self, error: BaseException, kind: Any, at: Path) -> Iterator[Complaint]:
        """Yield the complaints of an error, which may contain others."""
        from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError

        if isinstance(error, ForbiddenExtraKeysError):
            known, path = list(fields_of(error.cl)), ".".join(map(str, (self.path, *at)))
            for name in sorted(error.extra_fields):
                yield unknown(name, self._called((*at, name)), path, known)
        elif isinstance(error, ClassValidationError):
            inside, around = error.group_exceptions()
            for each, field in inside:
                if isinstance(each, KeyError) and each.args == (field.name,):
                    yield Complaint(f"{quoted(self._called((*at, field.name)))} is missing")
                else:
                    yield from self.complaints(each, field.type, (*at, field.name))
            for other in around:
                yield from self.complaints(other, kind, at)
        elif isinstance(error, IterableValidationError):
            members, around = error.group_exceptions()
            for each, member in members:
                yield from self.complaints(each, member.type, (*at, member.index))
            for other in around:
                yield from self.complaints(other, kind, at)
        else:
            yield self._wrong(error, kind, at)

    def _wrong(self, error: BaseException, kind: Any, at: Path) -> Complaint:
        if isinstance(error, WrongValue):
            return Complaint(f"{quoted(self._called(at))}: {error}", error.fix)
        reason = error.message if isinstance(error, Error) else str(error.args[0] if error.args else type(error))
        fix = error.fix if isinstance(error, Error) else None
        if shows(f"{reason} {fix}", self.secrets):
            return Complaint(
                f"{quoted(self._called(at))} is wrong; the reason is not shown, because it contains a secret"
            )
        if isinstance(kind, type) and attrs.has(kind):
            at, reason = _attributed(reason, kind, at)
        return Complaint(f"{quoted(self._called(at))}: {without_logins(reason)}", fix and without_logins(fix))

    def _called(self, at: Path) -> str:
        if not at:
            return self.path
        first, *rest = at
        called = self.places.get(str(first)) or (f"{self.path}.{first}" if self.path else str(first))
        return called + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in rest)


def _attributed(reason: str, kind: type[Any], at: Path) -> tuple[Path, str]:
    """Return the field that a validator's error names, by its first word or a quoted word, and the reason."""
    first = _FIRST.match(reason)
    if first is not None and first[1] in fields_of(kind):
        return (*at, first[1]), reason[first.end() :]
    quoted = [name for name in _QUOTED.findall(reason) if name in fields_of(kind)]
    return ((*at, quoted[0]) if len(quoted) == 1 else at), reason
