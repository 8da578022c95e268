"""The credentials of clients: certificates, which may be renewed, and tokens for OAUTHBEARER.

Tokens come from a provider, a function that another distribution offers under a name. Settings hold only the name, so
they reach other processes unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from mqplug import AuthError, ConfigError
from mqplug_kafka._cluster.log_throttle import logger
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
    """The tokens of a provider for all clients of a connection. They share each token for 75 % of its life."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._name = settings.token_provider or ""
        self._provider = find_provider(self._name)
        self._settings = settings
        self._lock = Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    def token(self) -> Token:
        """Return a token that is not about to expire. Raise ``AuthError`` if the provider has none."""
        with self._lock:
            if self._token is None or time.time() >= self._renew_at:
                self._token = self._fetch()
                now = time.time()
                self._renew_at = now + RENEWED_AT * (self._token.expires_at - now)
            return self._token

    def __call__(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """Return a token in confluent-kafka's form. Used as ``oauth_cb``, on a thread of the client."""
        value, expires_at, principal, extensions = self.token()
        return value, float(expires_at), principal, dict(extensions)

    def _fetch(self) -> Token:
        fix = "Check the provider's settings and environment"
        try:
            token = Token(*self._provider(self._settings))
        except Exception as error:
            raise AuthError(f"the token provider {self._name!r} failed: {_said(error)}", fix=fix) from error
        value, expires_at = _parts(token)
        if not isinstance(value, str) or not value or not isinstance(expires_at, int | float):
            raise AuthError(f"the token provider {self._name!r} must return (token, expires_at)", fix=fix)
        if token.expires_at <= time.time():
            raise AuthError(
                f"the token provider {self._name!r} returned a token that expired "
                f"{time.time() - token.expires_at:.0f} s ago",
                fix="Return its expiry time in seconds since 1970, and check the clocks",
            )
        return token


def _parts(token: Token) -> tuple[Any, Any]:
    """Return a token's text and expiry time, with unchecked types."""
    return token.value, token.expires_at


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def find_provider(name: str) -> Provider:
    """Return the provider of this name from the installed distributions."""
    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise ConfigError(
            f"token_provider: no installed distribution offers {name!r}",
            fix=f"Install the distribution with this entry point of {ENTRY_POINTS}; found: {known}",
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


LOOK_EVERY_S = 1.0  # between two looks for renewed files

Look = tuple[tuple[int, int, int] | None, ...]


class Credentials:
    """The certificate files and the tokens of one connection."""

    def __init__(self, settings: KafkaSettings) -> None:
        named = {name: getattr(settings, name) for name in ("ca_file", "cert_file", "key_file")}
        self._files = {name: Path(path) for name, path in named.items() if path is not None}
        self._tokens = TokenSource(settings) if settings.token_provider is not None else None
        self._generation = 0
        self._seen = self._look()
        self._looked = time.monotonic()

    @property
    def generation(self) -> int:
        """A number that grows when a file has changed. Clients of an older generation should be replaced."""
        now = time.monotonic()
        if self._files and now - self._looked > LOOK_EVERY_S:
            self._looked = now
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                self._generation += 1
        return self._generation

    def prepared(self, options: Mapping[str, Any], on_error: Callable[[KafkaError], None]) -> dict[str, Any]:
        """Return the options for a client that is created now.

        Raise errors that the client would report late or without a reason: unreadable files, a provider without token.
        """
        for name, path in self._files.items():
            _check_readable(name, path)
        prepared = {**options, "error_cb": on_error, "logger": logger}
        if self._tokens is not None:
            self._tokens.token()
            prepared["oauth_cb"] = self._tokens
        return prepared

    def _look(self) -> Look:
        return tuple(map(_fingerprint, self._files.values()))


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check_readable(name: str, path: Path) -> None:
    try:
        if path.is_dir() and name == "ca_file":  # librdkafka takes a directory of certificates too
            next(path.iterdir(), None)
        else:
            path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{name}: {str(path)!r} cannot be read: {error.strerror}", fix="Correct the path, or make it readable"
        ) from error
