"""Splitting URLs, and showing them without secrets.

A character with a meaning in URLs (``/``, ``?``, ``#``) ends a password early, and the rest would be taken for a host
or a path. So a URL that cannot be split with certainty is not shown at all.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote

from mqplug._model.errors import ConfigError
from mqplug.spi._descriptor import Address, Url

ESCAPES: Final = "In user names, passwords and values write %40 for @, %2F for /, %3F for ?, %23 for #"
_LOGIN: Final = re.compile(r"(?<=://).*@", re.DOTALL)
_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?",
    re.DOTALL | re.ASCII,
)


def split_url(text: str) -> tuple[Url, dict[str, str]]:
    """Return the parts of a URL, and its query."""
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ConfigError(f"{shown(text)!r} is not a URL", fix="Write one such as kafka://host:9092 or rocksmq:///path")
    if not _is_certain(parts):
        raise ConfigError(f"{shown(text)!r} has an '@' after the host, or a '#'", fix=ESCAPES)
    login, at, hosts = parts["authority"].rpartition("@")
    user, _, password = login.partition(":")
    url = Url(
        parts["scheme"].lower(),
        _addresses(hosts, shown(text)),
        unquote(parts["path"]),
        unquote(user) if at else None,
        unquote(password) if password else None,
    )
    return url, _query(parts["query"], text)


def shown(url: str) -> str:
    """Return a URL without the secrets that it may contain."""
    parts = _PARTS.fullmatch(url)
    if parts is None or parts["scheme"] != parts["scheme"].lower():  # it may be a user without the scheme before it
        return "..."
    _, at, hosts = parts["authority"].rpartition("@")
    known = _is_certain(parts) and _are_addresses(hosts)
    login = "...@" if at else ""
    return f"{parts['scheme']}://" + (f"{login}{hosts}{parts['path']}" if known else "...")


def without_logins(text: str) -> str:
    """Return a text with ``...`` in place of everything between its first ``://`` and its last ``@``."""
    return _LOGIN.sub("...@", text)


def _is_certain(parts: re.Match[str]) -> bool:
    """Return whether no ``@`` follows the hosts, which would be the rest of a password with a ``/``."""
    rest = f"{parts['path']}{parts['query'] or ''}" if parts["authority"] else parts["query"] or ""
    return "@" not in rest and parts["fragment"] is None


def _addresses(hosts: str, called: str) -> tuple[Address, ...]:
    try:
        return _read(hosts)
    except ValueError as error:  # its text shows neither the host, which may be a user, nor the port
        reason = str(error)
    raise ConfigError(f"{called!r} has an invalid host: {reason}", fix=f"Write host:9092 or [::1]:9092. {ESCAPES}")


def _are_addresses(hosts: str) -> bool:
    try:
        _read(hosts)
    except ValueError:
        return False
    return True


def _read(hosts: str) -> tuple[Address, ...]:
    return tuple(Address.parse(host) for host in hosts.split(",")) if hosts else ()


def _query(query: str | None, text: str) -> dict[str, str]:
    asked = (query or "").removeprefix("?").removesuffix("&")
    try:
        found = parse_qsl(asked, keep_blank_values=True, strict_parsing=bool(asked))
    except ValueError:  # not chained: it shows the unreadable part, which may be a secret
        found = None
    if found is None:
        raise ConfigError(f"{shown(text)!r} is not a URL", fix="Write key=value after the '?', with '&' between them")
    _check_once(found)
    return dict(found)


def _check_once(query: list[tuple[str, str]]) -> None:
    keys = [key for key, _ in query]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ConfigError(f"the URL gives {', '.join(map(repr, twice))} more than once", fix="Give each key once")
