"""Finding secrets, which are settings with ``repr=False``, and removing them from texts and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mqplug._model.errors import Error
from mqplug._settings.fields import fields_of
from mqplug._settings.urls import without_logins

MASK: Final = "..."
_SHORT_SECRET_LETTERS: Final = 4  # a shorter secret is part of many words, so only a whole word counts


def secrets_of(kind: type[Any], given: object) -> set[str]:
    """Return the secret texts among settings, given as a mapping, valid or not, or as an object of their class."""
    found: set[str] = set()
    for name, field in fields_of(kind).items():
        value = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
        if field.secret:
            found.update(_texts(value))
        elif field.nested is not None:
            found |= secrets_of(field.nested, value)
    return found


def shows(text: str, secrets: Iterable[str]) -> bool:
    """Return whether a text contains one of the secrets, verbatim or as its ``repr``."""
    return any(pattern.search(text) for pattern in map(_pattern, secrets))


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return a text with ``...`` in place of each secret and of each login in a URL."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = _pattern(secret).sub(MASK, text)
    return without_logins(text)


def redact(error: BaseException, secrets: Iterable[str]) -> None:
    """Remove secrets from an error's texts. Drop its cause if that shows a secret."""
    known = list(secrets)
    if isinstance(error, Error):
        error.message = hidden(error.message, known)
        error.fix = error.fix and hidden(error.fix, known)
    error.args = tuple(hidden(arg, known) if isinstance(arg, str) else arg for arg in error.args)
    if any(hidden(text, known) != text for text in _causes(error)):
        error.__cause__ = error.__context__ = None


def _pattern(secret: str) -> re.Pattern[str]:
    spellings = "|".join(re.escape(each) for each in {secret, repr(secret)[1:-1]})
    return re.compile(spellings if len(secret) >= _SHORT_SECRET_LETTERS else rf"(?<!\w)(?:{spellings})(?!\w)")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif value is not None and not isinstance(value, bool) and str(value):
        yield str(value)


def _causes(error: BaseException) -> Iterator[str]:
    """Yield the texts of all causes of an error."""
    seen = [error]
    for each in seen:
        for cause in (each.__cause__, each.__context__):
            if cause is not None and all(cause is not other for other in seen):
                seen.append(cause)
                yield f"{cause} {cause!r}"
