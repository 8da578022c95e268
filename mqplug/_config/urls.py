"""URLs: their parts, and what of them may be shown."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from mqplug._errors import ConfigError
from mqplug.spi._descriptor import Url

_LOGIN: Final = re.compile(r"(?<=://)[^\s/?#'\"]*@")


def split_url(text: str) -> tuple[Url, dict[str, str]]:
    """The parts of a URL, and its query."""
    scheme, colon, _ = text.partition("://")
    if not colon or not scheme:
        raise ConfigError(f"{shown(text)!r} is no URL", fix="Write one such as kafka://host:9092 or rocksmq:///path")
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:  # it shows what it could not read, which may be a secret
        parts, query = None, []
    if parts is None:
        raise ConfigError(f"{shown(text)!r} is no URL", fix="Write key=value after the '?', with '&' between them")
    _check_once(query)
    login, at, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    url = Url(
        parts.scheme,
        tuple(host for host in hosts.split(",") if host),
        unquote(parts.path),
        unquote(user) if at else None,
        unquote(password) if password else None,
    )
    return url, dict(query)


def shown(url: str) -> str:
    """A URL without the secrets that it may hold."""
    head, at, tail = url.rpartition("@")
    scheme, colon, _ = head.partition("://")
    return (f"{scheme}{colon}...@{tail}" if at else url).partition("?")[0]


def without_logins(text: str) -> str:
    """A text with ``...`` for the user and password of each URL in it."""
    return _LOGIN.sub("...@", text)


def _check_once(query: list[tuple[str, str]]) -> None:
    keys = [key for key, _ in query]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ConfigError(f"the URL says {', '.join(map(repr, twice))} twice", fix="Say it once")
