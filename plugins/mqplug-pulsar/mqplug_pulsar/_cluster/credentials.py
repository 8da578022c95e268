"""The credentials for the broker and for the admin interface, from the settings."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

import mqplug
from mqplug_pulsar._settings import PulsarSettings

if TYPE_CHECKING:
    import pulsar


def with_token(settings: PulsarSettings) -> PulsarSettings:
    """Return the settings with the token that ``token_file`` holds now."""
    if settings.token_file is None:
        return settings
    try:
        token = Path(settings.token_file).read_text(encoding="utf-8").strip()
        return attrs.evolve(settings, token=token, token_file=None)
    except (OSError, ValueError) as error:  # also a file that is empty or has several lines
        reason = error.strerror if isinstance(error, OSError) else "it does not hold a token in one line of text"
    raise mqplug.ConfigError(f"the file {settings.token_file!r} of token_file: {reason}", fix="Check token_file=")


def authentication(settings: PulsarSettings) -> pulsar.Authentication | None:
    """Return the native client's authentication; None without credentials."""
    import pulsar

    if settings.token is not None:
        return pulsar.AuthenticationToken(settings.token)
    if settings.username is not None:
        return pulsar.AuthenticationBasic(settings.username, settings.password)
    if settings.tls_certificate is not None:
        return pulsar.AuthenticationTLS(settings.tls_certificate, settings.tls_key)
    return None


def header(settings: PulsarSettings) -> str | None:
    """Return the ``Authorization`` header of requests to the admin interface. A certificate needs none."""
    if settings.token is not None:
        return f"Bearer {settings.token}"
    if settings.username is not None:
        login = f"{settings.username}:{settings.password}"
        return f"Basic {base64.b64encode(login.encode()).decode()}"
    return None
