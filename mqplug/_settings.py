"""Settings: from keywords, a mapping or a URL, into a backend's own class."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from mqplug._errors import ConfigError
from mqplug.spi._descriptor import Url

if TYPE_CHECKING:
    import cattrs

    from mqplug.spi._descriptor import Descriptor


def split_url(text: str) -> tuple[Url, dict[str, str]]:
    """The parts of a URL, and its query."""
    scheme, colon, _ = text.partition("://")
    if not colon or not scheme:
        raise ConfigError(f"{shown(text)!r} is no URL", fix="Write one such as kafka://host:9092 or rocksmq:///path")
    try:
        parts = urlsplit(text)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise ConfigError(f"{shown(text)!r} is no URL: {error}") from None
    login, at, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    url = Url(
        parts.scheme,
        tuple(host for host in hosts.split(",") if host),
        unquote(parts.path),
        unquote(user) if at else None,
        unquote(password) if password else None,
    )
    return url, query


def shown(url: str) -> str:
    """A URL without the secrets that it may hold."""
    head, at, tail = url.rpartition("@")
    scheme, colon, _ = head.partition("://")
    return (f"{scheme}{colon}...@{tail}" if at else url).partition("?")[0]


def settings_from_url(descriptor: Descriptor, url: Url, query: Mapping[str, str]) -> Any:
    """The backend's settings from a URL's parts; the query's texts are read as the types that are wanted."""
    given = dict(descriptor.from_url(url))
    fields = attrs.fields_dict(descriptor.settings)
    hints = typing.get_type_hints(descriptor.settings)
    for key, text in query.items():
        given[key] = _from_text(text, hints[key]) if key in fields else text
    return structure(descriptor, given)


def structure(descriptor: Descriptor, given: Mapping[str, Any]) -> Any:
    """The backend's settings from a mapping; all that is wrong is named with its key."""
    known = attrs.fields_dict(descriptor.settings)
    for key in given:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(sorted(known))}"
            raise ConfigError(f"{descriptor.name} has no setting {key!r}", backend=descriptor.name, fix=hint)
    from cattrs import transform_error
    from cattrs.errors import ClassValidationError
    from cattrs.v import format_exception

    def spoken(error: BaseException, wanted: type | None) -> str:
        return str(error) if type(error) in {TypeError, ValueError} else format_exception(error, wanted)

    try:
        return _converter().structure(dict(given), descriptor.settings)
    except ClassValidationError as error:
        reasons = (
            reason.replace(" @ $.", " at ").removesuffix(" @ $")
            for reason in transform_error(error, format_exception=spoken)
        )
        raise ConfigError(f"settings for {descriptor.name}: {'; '.join(reasons)}", backend=descriptor.name) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"settings for {descriptor.name}: {error}", backend=descriptor.name) from None


def _from_text(text: str, wanted: Any) -> Any:
    kinds = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    for kind in kinds:
        if kind is bool and text.lower() in {"true", "false"}:
            return text.lower() == "true"
        if kind in {int, float}:
            try:
                return kind(text)
            except ValueError:
                continue
    return text


@cache
def _converter() -> cattrs.Converter:
    """Structures strictly: no number becomes a text, no text a number."""
    from cattrs import Converter

    made = Converter(forbid_extra_keys=True)
    for kind in (str, bytes, bool, int, float):
        made.register_structure_hook(kind, _exactly)
    return made


def _exactly(value: Any, kind: type[Any]) -> Any:
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"expected {kind.__name__}, not {type(value).__name__}")
