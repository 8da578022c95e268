"""Tokens from a provider: a function that another distribution offers under a name.

Settings name the provider and do not hold it, so they reach other processes as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, NamedTuple

from mqplug import AuthError, ConfigError
from mqplug_pulsar._settings import PulsarSettings

ENTRY_POINTS = "mqplug.pulsar_tokens"
RENEWED_AT = 0.75  # of a token's life


class Token(NamedTuple):
    """A token of a provider. ``expires_at`` is in seconds since 1970."""

    value: str
    expires_at: float


Provider = Callable[[PulsarSettings], Token]


class TokenSource:
    """The tokens of a provider, each of which is used until it gets old."""

    def __init__(self, settings: PulsarSettings, name: str) -> None:
        self._name = name
        self._provider = find_provider(name)
        self._settings = settings
        self._lock = Lock()
        self._value = ""
        self._renew_at = 0.0

    def __call__(self) -> str:
        """Return a token that is valid for a while. Raise ``AuthError`` if the provider has none."""
        with self._lock:
            now = time.time()
            if now >= self._renew_at:
                self._value, expires_at = self._fetch()
                self._renew_at = now + RENEWED_AT * (expires_at - now)
            return self._value

    def _fetch(self) -> tuple[str, float]:
        fix = "Check its settings, and what it needs in its environment"
        try:
            value, expires_at = self._provider(self._settings)
        except Exception as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise AuthError(f"the token provider {self._name!r} failed: {said}", fix=fix) from error
        return _checked(self._name, value, expires_at)


def _checked(name: str, value: Any, expires_at: Any) -> tuple[str, float]:
    if not isinstance(value, str) or not value.isprintable() or not value or not isinstance(expires_at, int | float):
        raise AuthError(
            f"the token provider {name!r} returned no token with the time of its end",
            fix="Return a text, and the time in seconds since 1970",
        )
    if expires_at <= time.time():
        raise AuthError(
            f"the token provider {name!r} returned a token that expired {time.time() - expires_at:.0f} s ago",
            fix="Return the time of its end in seconds since 1970, and check the clocks",
        )
    return value, expires_at


def find_provider(name: str) -> Provider:
    """Return the provider of this name, among those that installed distributions offer."""
    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise ConfigError(
            f"token_provider: no installed distribution offers {name!r}",
            fix=f"Install the one that offers it in the entry points {ENTRY_POINTS}; offered are: {known}",
        )
    try:
        provider: Any = found[name].load()
    except Exception as error:
        raise ConfigError(
            f"token_provider: {name!r} cannot be loaded: {type(error).__name__}: {error}",
            fix="Repair or update its distribution",
        ) from error
    if not callable(provider):
        raise ConfigError(f"token_provider: {name!r} is not a function", fix="Name a function in the entry point")
    return provider  # type: ignore[no-any-return]
