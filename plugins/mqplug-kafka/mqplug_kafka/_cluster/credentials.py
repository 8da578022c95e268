"""The credentials of clients: certificates, which may be renewed, and tokens for OAUTHBEARER.

Tokens come from a provider, a function that another distribution offers under a name. Settings hold only the name, so
they reach other processes unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError

from mqplug import ConfigError
from mqplug.spi.tokens import TokenSource
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._settings import KafkaSettings

ENTRY_POINTS = "mqplug.kafka_tokens"


class ClientTokens:
    """The tokens of a connection's provider, for all of its clients.

    A provider may also return a principal and the extensions that the broker gets (RFC 7628).
    """

    def __init__(self, settings: KafkaSettings, provider: str) -> None:
        self.source = TokenSource(ENTRY_POINTS, provider, settings)

    def __call__(self, _: str = "") -> tuple[str, float, str, dict[str, str]]:
        """Return a token in confluent-kafka's form. Used as ``oauth_cb``, on a thread of the client."""
        value, expires_at, *more = self.source.token()
        return value, float(expires_at), more[0] if more else "", dict(more[1]) if len(more) > 1 else {}


LOOK_EVERY_S = 1.0  # between two looks for renewed files

Look = tuple[tuple[int, int, int] | None, ...]


class Credentials:
    """The certificate files and the tokens of one connection."""

    def __init__(self, settings: KafkaSettings) -> None:
        named = {name: getattr(settings, name) for name in ("ca_file", "cert_file", "key_file")}
        self._files = {name: Path(path) for name, path in named.items() if path is not None}
        self._tokens = None if settings.token_provider is None else ClientTokens(settings, settings.token_provider)
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
            self._tokens()
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
