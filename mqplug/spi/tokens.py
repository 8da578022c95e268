"""Tokens from a provider: a function that another distribution offers under a name, by an entry point.

Settings hold only the provider's name, so they reach other processes unchanged. A provider takes the settings and
returns the token, its expiry time in seconds since 1970, and whatever else its backend passes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import entry_points
from threading import Lock
from typing import Any

from mqplug._model.errors import AuthError, ConfigError

__all__ = ["TokenSource"]

_RENEWED_AT = 0.75  # of a token's life: clients ask for the next one at 0.8 at the earliest


class TokenSource:
    """The tokens of a provider. Each is used for 75 % of its life. Any thread may ask."""

    def __init__(self, group: str, name: str, settings: Any) -> None:
        """Find the provider *name* among the entry points of *group*. Raise ``ConfigError`` if there is none."""
        self._name = name
        self._provider = _find(group, name)
        self._settings = settings
        self._lock = Lock()
        self._token: tuple[Any, ...] = ()
        self._renew_at = 0.0

    def token(self) -> tuple[Any, ...]:
        """Return a provider's answer that is not about to expire: token, expiry time, and more.

        Raise ``AuthError`` if the provider fails, or its answer is no valid token.
        """
        with self._lock:
            now = time.time()
            if now >= self._renew_at:
                self._token = self._ask()
                self._renew_at = now + _RENEWED_AT * (self._token[1] - now)
            return self._token

    def _ask(self) -> tuple[Any, ...]:
        try:
            answer: object = self._provider(self._settings)
        except Exception as error:
            raise AuthError(
                f"the token provider {self._name!r} failed: {_said(error)}",
                fix="Check the provider's settings and environment",
            ) from error
        token, expires_at, *more = answer if isinstance(answer, tuple) and len(answer) > 1 else ("", 0.0)
        if not (isinstance(token, str) and token and token.isprintable() and isinstance(expires_at, int | float)):
            raise AuthError(
                f"the token provider {self._name!r} must return (token, expires_at)",
                fix="Return a text, and its expiry time in seconds since 1970",
            )
        if expires_at <= time.time():
            raise AuthError(
                f"the token provider {self._name!r} returned a token that expired {time.time() - expires_at:.0f} s ago",
                fix="Return its expiry time in seconds since 1970, and check the clocks",
            )
        return (token, expires_at, *more)


def _find(group: str, name: str) -> Callable[[Any], Any]:
    found = entry_points(group=group)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise ConfigError(
            f"token_provider: no installed distribution offers {name!r}",
            fix=f"Install the distribution with this entry point of {group}; found: {known}",
        )
    try:
        provider: Any = found[name].load()
    except Exception as error:
        raise ConfigError(
            f"token_provider: {name!r} cannot be loaded: {_said(error)}", fix="Repair or update its distribution"
        ) from error
    if not callable(provider):
        raise ConfigError(f"token_provider: {name!r} is not a function", fix="Name a function in the entry point")
    return provider  # type: ignore[no-any-return]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
