"""TLS as the settings say, for the handshake and the admin interface."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import mqplug
from mqplug_pulsar._settings import PulsarSettings


def tls_context(settings: PulsarSettings, *, trusted: str | None = None) -> ssl.SSLContext:
    """Return the context for TLS. ``trusted`` is the file of authorities if ``tls_ca`` names none.

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
    """Name the settings whose files cannot be used."""
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = " and ".join(f"{getattr(settings, name)!r} of {name}" for name in names)
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise mqplug.ConfigError(
            f"cannot use {files}: {reason}", fix="Give files in PEM, with a key that is not encrypted"
        ) from error
