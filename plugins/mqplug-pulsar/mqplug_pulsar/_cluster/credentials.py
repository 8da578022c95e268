"""The credentials for the broker and for the admin interface, from the settings: tokens, passwords and certificates.

A token may be renewed: each time one is needed, its file is read, or its function or provider called, again. A provider
is a function that another distribution offers under a name. Settings hold only its name, so they reach other processes
unchanged.
"""

from __future__ import annotations

import base64
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import mqplug
from mqplug.spi.tokens import TokenSource
from mqplug_pulsar._settings import PulsarSettings

if TYPE_CHECKING:
    import pulsar


ENTRY_POINTS = "mqplug.pulsar_tokens"

logger = logging.getLogger("mqplug.pulsar")


class Credentials:
    """This client's identity, in the forms that the broker and the admin interface expect. Any thread may use it."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self._token_source = _token_source(settings)
        self._last: str | None = None

    @property
    def method(self) -> str | None:
        """Pulsar's name of the authentication method; None without credentials."""
        if self._token_source is not None:
            return "token"
        if self._settings.username is not None:
            return "basic"
        return "tls" if self._settings.tls_certificate is not None else None

    def token(self) -> str:
        """Return the current token. If getting a new one fails, log a warning and return the last one."""
        if self._token_source is None:
            raise self.refused("the request for a token")
        try:
            self._last = self._token_source()
        except mqplug.Error as error:
            if self._last is None:
                raise
            logger.warning("using the last token again: %s", error.message)
        return self._last

    def data(self) -> bytes:
        """Return the credentials as the broker's own protocol sends them."""
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
        """Return the client library's authentication; None without credentials."""
        import pulsar

        settings = self._settings
        match self.method:
            case "token":
                self.token()  # fails here if it can: an exception in the client library's thread would end the process
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
            fix = "Set token=, username= and password=, or tls_certificate= and tls_key="
            return mqplug.AuthError(f"{who} requires credentials{reason}", fix=fix)
        fixes = {
            "token": "Check that the broker's key signed the token, and that it has not expired",
            "basic": "Check username= and password=",
            "tls": "Check tls_certificate= and tls_key=",
        }
        return mqplug.AuthError(f"{who} refused the credentials{reason}", fix=fixes[self.method])

    def _login(self) -> bytes:
        return f"{self._settings.username}:{self._settings.password}".encode()


def _token_source(settings: PulsarSettings) -> Callable[[], str] | None:
    """Return a function that returns the current token or raises an ``mqplug.Error``; None without a token."""
    token, file = settings.token, settings.token_file
    if settings.token_provider is not None:
        source = TokenSource(ENTRY_POINTS, settings.token_provider, settings)
        return lambda: str(source.token()[0])
    if file is not None:
        return lambda: _from_file(file)
    if callable(token):
        return lambda: _from_function(token)
    return None if token is None else lambda: token


def _from_file(name: str) -> str:
    reason = "it does not hold a token on one line of text"
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
    raise mqplug.AuthError("the function that returns the token must return one line of text", fix=fix)


def _is_one_line(token: str) -> bool:
    return bool(token) and token.isprintable()


def tls_context(settings: PulsarSettings, *, trusted: str | None = None) -> ssl.SSLContext:
    """Return the TLS context. ``trusted`` is the file of authorities if ``tls_ca`` names none.

    Raise ``ConfigError`` if a file cannot be used.
    """
    with _naming(settings, "tls_ca"):
        context = ssl.create_default_context(cafile=settings.tls_ca or trusted)
    if settings.tls_allow_insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif not settings.tls_validate_hostname:
        context.check_hostname = False
    if settings.tls_certificate is not None:
        with _naming(settings, "tls_certificate", "tls_key"):
            # The password keeps OpenSSL from asking for one at the terminal.
            context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
    return context


@contextmanager
def _naming(settings: PulsarSettings, *names: str) -> Iterator[None]:
    """Turn an error about unusable files into a ``ConfigError`` that names their settings."""
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = " and ".join(f"{getattr(settings, name)!r} of {name}" for name in names)
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise mqplug.ConfigError(
            f"cannot use {files}: {reason}", fix="Give files in PEM, with a key that is not encrypted"
        ) from error
