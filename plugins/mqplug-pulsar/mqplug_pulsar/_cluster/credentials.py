"""The credentials for the broker and for the admin interface, from the settings.

A token may be renewed: each time one is needed, its file is read, or its function or provider asked, again.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import mqplug
from mqplug_pulsar._cluster.token_providers import TokenSource
from mqplug_pulsar._settings import PulsarSettings

if TYPE_CHECKING:
    import pulsar

Token = str | Callable[[], str]

logger = logging.getLogger("mqplug.pulsar")


class Credentials:
    """Who this client is, as the broker and the admin interface want to know it. Any thread may ask."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self._token_source = _token_source(settings)
        self._last: str | None = None

    @property
    def method(self) -> str | None:
        """Pulsar's name for the way to authenticate; None without credentials."""
        if self._token_source is not None:
            return "token"
        if self._settings.username is not None:
            return "basic"
        return "tls" if self._settings.tls_certificate is not None else None

    def token(self) -> str:
        """Return the token that is valid now. If there is no new one, return the last, with a warning."""
        if self._token_source is None:
            raise self.refused("a token that was asked for")
        try:
            self._last = self._token_source()
        except mqplug.Error as error:
            if self._last is None:
                raise
            logger.warning("going on with the last token: %s", error.message)
        return self._last

    def data(self) -> bytes:
        """Return the credentials as the broker's own protocol has them."""
        match self.method:
            case "token":
                return self.token().encode()
            case "basic":
                return self._login()
        return b""

    def header(self) -> str | None:
        """Return the ``Authorization`` header of a request to the admin interface. A certificate needs none."""
        match self.method:
            case "token":
                return f"Bearer {self.token()}"
            case "basic":
                return f"Basic {base64.b64encode(self._login()).decode()}"
        return None

    def native(self) -> pulsar.Authentication | None:
        """Return the native client's authentication; None without credentials."""
        import pulsar

        settings = self._settings
        match self.method:
            case "token":
                self.token()  # a first one, since an exception in the native client's thread would end the process
                return pulsar.AuthenticationToken(settings.token if isinstance(settings.token, str) else self.token)
            case "basic":
                return pulsar.AuthenticationBasic(settings.username, settings.password)
            case "tls":
                return pulsar.AuthenticationTLS(settings.tls_certificate, settings.tls_key)
        return None

    def refused(self, who: str, said: str = "") -> mqplug.AuthError:
        """Return the error for credentials that were refused, or missing."""
        reason = f": {said}" if said else ""
        if self.method is None:
            fix = "Say token=, username= and password=, or tls_certificate= and tls_key="
            return mqplug.AuthError(f"{who} requires credentials{reason}", fix=fix)
        fixes = {
            "token": "Check the token: that the broker's key signed it, and that it has not expired",
            "basic": "Check username= and password=",
            "tls": "Check tls_certificate= and tls_key=",
        }
        return mqplug.AuthError(f"{who} refused the credentials{reason}", fix=fixes[self.method])

    def _login(self) -> bytes:
        return f"{self._settings.username}:{self._settings.password}".encode()


def _token_source(settings: PulsarSettings) -> Callable[[], str] | None:
    """Return a function that returns the token of now, or raises an ``mqplug.Error``; None without a token."""
    token, file = settings.token, settings.token_file
    if settings.token_provider is not None:
        return TokenSource(settings, settings.token_provider)
    if file is not None:
        return lambda: _from_file(file)
    if callable(token):
        return lambda: _from_function(token)
    return None if token is None else lambda: token


def _from_file(name: str) -> str:
    reason = "it does not hold a token in one line of text"
    try:
        token = Path(name).read_text(encoding="utf-8").strip()
        if _is_one_line(token):
            return token
    except UnicodeDecodeError:
        pass
    except OSError as error:
        reason = error.strerror or str(error)
    raise mqplug.ConfigError(f"the file {name!r} of token_file: {reason}", fix="Check token_file=")


def _from_function(function: Callable[[], object]) -> str:
    fix = "Check the function given as token="
    try:
        token = function()
    except Exception as error:
        raise mqplug.AuthError(
            f"the function that returns the token failed: {type(error).__name__}: {error}", fix=fix
        ) from error
    if isinstance(token, str) and _is_one_line(token):
        return token
    raise mqplug.AuthError("the function that returns the token returned no token in one line of text", fix=fix)


def _is_one_line(token: str) -> bool:
    return bool(token) and token.isprintable()
