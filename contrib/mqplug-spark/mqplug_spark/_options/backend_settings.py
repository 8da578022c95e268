"""How a process connects: named by a URL, by a configuration file, by options, or found by mqplug itself.

Options travel to all processes, and Spark shows many of them. So they may hold references, which each process resolves
for itself: ``${NAME}`` to a variable, ``${file:PATH}`` to a file. What is behind a reference is never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import attrs

import mqplug
from mqplug import Client, ConfigError
from mqplug_spark._options.kafka_names import KAFKA_PREFIX, SERVERS, kafka_settings

BACKEND_NAMES: Final = ("url", "config", "backend")
SPARKS_OWN: Final = frozenset({"provider"})  # what Spark itself passes, as for CREATE TABLE ... USING mqplug

Pairs = tuple[tuple[str, str], ...]

FILE_PREFIX: Final = "file:"
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")


@attrs.frozen(kw_only=True)
class BackendSettings:
    """How a process connects to a backend. Its repr shows no values, because they may be secrets.

    ``settings`` are of the backend, or added to the URL. Values may hold references: only ``connect`` resolves them.
    Without ``url``, ``config`` and ``backend``, each process finds its own configuration, as ``mqplug.connect()`` does.
    """

    url: str | None = attrs.field(default=None, repr=False)
    config: str | None = None
    backend: str | None = None
    settings: Pairs = attrs.field(default=(), repr=False)
    librdkafka: Pairs = attrs.field(default=(), repr=False)

    def connect(self, timeout: float | None = 30) -> Client:
        """Return a client. A store that does not exist is not created, but an error."""
        options = {name: resolve(name, text) for name, text in self.librdkafka}
        keywords: dict[str, Any] = {"librdkafka": options} if options else {}
        return mqplug.connect(self._target(), timeout=timeout, must_exist=True, **keywords)

    def _target(self) -> str | Path | dict[str, Any] | None:
        if self.config is not None:
            return Path(self.config)
        if self.url is None and not self.settings:
            return self.backend
        # Settings go into a URL, where texts are converted to their types.
        url = f"{self.backend}://" if self.url is None else resolve_url(self.url)
        query = urlencode([(name, resolve(name, text)) for name, text in self.settings])
        return url + (f"{'&' if '?' in url else '?'}{query}" if query else "")


def parse_backend(found: Mapping[str, str], names: Mapping[str, str]) -> BackendSettings:
    """Return the backend that the options name, whose own names are in lower case.

    ``names`` are the other options that exist: from lower case to their spelling. What is neither is a setting of the
    named backend, or a ``ConfigError``.
    """
    others = {name: text for name, text in found.items() if name not in names and name not in SPARKS_OWN}
    kafka = {name: others.pop(name) for name in list(others) if name.startswith(KAFKA_PREFIX)}
    url, config, backend = (others.pop(name, None) or None for name in BACKEND_NAMES)
    if others and (backend is None or url is not None or config is not None):
        raise _unknown(min(others), names)
    for name in others:
        _check_misspelt(name, names)
    _check_one_way(url, config, backend, kafka)
    if config is not None and backend is not None:
        raise ConfigError("'config' and 'backend' are both given", fix="Write backend = ... into the file")
    if not kafka:
        return BackendSettings(url=url, config=config, backend=backend, settings=tuple(sorted(others.items())))
    settings, librdkafka = kafka_settings(kafka)
    return BackendSettings(
        url=url,
        backend="kafka" if url is None else None,
        settings=tuple(sorted({**others, **settings}.items())),
        librdkafka=tuple(sorted(librdkafka.items())),
    )


def _check_one_way(url: str | None, config: str | None, backend: str | None, kafka: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` unless the backend is named once, and is Kafka if there are ``kafka.`` options."""
    ways = [name for name, given in (("url", url), ("config", config), (SERVERS, kafka.get(SERVERS))) if given]
    if len(ways) > 1 or (url is not None and backend is not None):
        both = ways if len(ways) > 1 else ["url", "backend"]
        raise ConfigError(f"{both[0]!r} and {both[1]!r} both name the backend", fix="Leave one out")
    if not kafka:
        return
    scheme = backend or ("kafka" if SERVERS in kafka else _scheme(url))
    if scheme == "kafka":
        return
    if scheme:
        raise ConfigError(f"{min(kafka)!r} is an option of kafka, but the backend is {scheme}", fix="Leave it out")
    where = "Write it into the file" if config is not None else f"Name the brokers with option({SERVERS!r}, ...)"
    raise ConfigError(f"{min(kafka)!r} is given, but no option says that the backend is kafka", fix=where)


def _scheme(url: str | None) -> str:
    """Return the backend that a URL names; none if the whole URL is a reference, which only ``connect`` resolves."""
    return "" if url is None or is_reference(url) else url.partition("://")[0].lower()


def _check_misspelt(name: str, names: Mapping[str, str]) -> None:
    if get_close_matches(name, names, n=1, cutoff=0.85):
        raise _unknown(name, names)


def _unknown(name: str, names: Mapping[str, str]) -> ConfigError:
    known = {**{each: each for each in (*BACKEND_NAMES, SERVERS)}, **names}
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {known[near[0]]!r}?" if near else f"Choose from {', '.join(known.values())}"
    return ConfigError(f"there is no option {name!r}", fix=hint)


def resolve(option: str, text: str) -> str:
    """Return the text with its references replaced, and ``$${`` by ``${``. Raise ``ConfigError`` for a missing one."""
    return _REFERENCE.sub(lambda found: _value(option, found), text)


def resolve_url(text: str) -> str:
    """Return a URL with its references replaced. One that is only a part of the URL is escaped as URLs need it."""
    whole = _REFERENCE.fullmatch(text)
    if whole is not None:
        return _value("url", whole)
    return _REFERENCE.sub(lambda found: quote(_value("url", found), safe=""), text)


def is_reference(text: str) -> bool:
    """Return whether a text is one reference and nothing else."""
    found = _REFERENCE.fullmatch(text)
    return found is not None and found[1] is not None


def _value(option: str, found: re.Match[str]) -> str:
    name = found[1]
    if name is None:
        return "${"
    if name.startswith(FILE_PREFIX):
        return _content(option, name.removeprefix(FILE_PREFIX))
    if name not in os.environ:
        raise ConfigError(
            f"the option {option!r} refers to the variable {name!r}, which is not set in this process",
            fix=f"Set {name} for the driver, and for the executors, as with spark.executorEnv.{name}",
        )
    return os.environ[name]


def _content(option: str, path: str) -> str:
    """Return what a file holds, without the end of its last line."""
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise ConfigError(
        f"the option {option!r} refers to the file {path!r}, which this process cannot read: {reason}",
        fix="Mount it at this path for the driver and for the executors",
    )
