"""Tokens for OAUTHBEARER from a provider: a function that another distribution offers under a name.

Settings name the provider and do not hold it, so they reach other processes as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, NamedTuple

from mqplug import AuthError, ConfigError
from mqplug_kafka._settings import KafkaSettings

ENTRY_POINTS = "mqplug.kafka_tokens"
RENEWED_AT = 0.75  # of a token's life; librdkafka asks for the next one at 0.8


class Token(NamedTuple):
    """A token of a provider. ``expires_at`` is in seconds since 1970; the broker gets the extensions (RFC 7628)."""

    value: str
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = {}


Provider = Callable[[KafkaSettings], Token]


class TokenSource:
    """The tokens of a provider for all native clients of a connection, which share one until it gets old."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._name = settings.token_provider or ""
        self._provider = find_provider(self._name)
        self._settings = settings
        self._lock = Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    def token(self) -> Token:
        """Return a token that is valid for a while. Raise ``AuthError`` if the provider has none."""
        with self._lock:
            if self._token is None or time.time() >= self._renew_at:
                self._token = self._fetch()
                now = time.time()
                self._renew_at = now + RENEWED_AT * (self._token.expires_at - now)
            return self._token

    def __call__(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """Return a token as confluent-kafka wants it. Serves as ``oauth_cb``, on a thread of the native client."""
        value, expires_at, principal, extensions = self.token()
        return value, float(expires_at), principal, dict(extensions)

    def _fetch(self) -> Token:
        fix = "Check its settings, and what it needs in its environment"
        try:
            token = Token(*self._provider(self._settings))
        except Exception as error:
            raise AuthError(f"the token provider {self._name!r} failed: {_said(error)}", fix=fix) from error
        value, expires_at = _parts(token)
        if not isinstance(value, str) or not value or not isinstance(expires_at, int | float):
            raise AuthError(f"the token provider {self._name!r} returned no token with the time of its end", fix=fix)
        if token.expires_at <= time.time():
            raise AuthError(
                f"the token provider {self._name!r} returned a token that expired "
                f"{time.time() - token.expires_at:.0f} s ago",
                fix="Return the time of its end in seconds since 1970, and check the clocks",
            )
        return token


def _parts(token: Token) -> tuple[Any, Any]:
    """Return a token's text and end, whose types nothing has checked yet."""
    return token.value, token.expires_at


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


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
            f"token_provider: {name!r} cannot be loaded: {_said(error)}", fix="Repair or update its distribution"
        ) from error
    if not callable(provider):
        raise ConfigError(f"token_provider: {name!r} is not a function", fix="Name a function in the entry point")
    return provider  # type: ignore[no-any-return]
