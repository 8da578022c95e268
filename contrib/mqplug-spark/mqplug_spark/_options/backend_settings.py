"""How a process connects: by a URL, a configuration file, options, or the configuration that mqplug finds itself.

Options travel to all processes, and Spark shows many of them. So they may hold references, which each process resolves
for itself: ``${NAME}`` to a variable, ``${file:PATH}`` to a file. The value of a reference is never shown.
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
SPARKS_OWN: Final = frozenset({"provider"})  # options that Spark itself passes, as for CREATE TABLE ... USING mqplug

Pairs = tuple[tuple[str, str], ...]

FILE_PREFIX: Final = "file:"
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")


@attrs.frozen(kw_only=True)
class BackendSettings:
    """How a process connects to a backend. The repr hides values that may be secrets.

    ``settings`` are the backend's, or added to the URL. Values may hold references, which only ``connect`` resolves.
    Without ``url``, ``config`` and ``backend``, each process finds its own configuration, as ``mqplug.connect()`` does.
    """

    url: str | None = attrs.field(default=None, repr=False)
    config: str | None = None
    backend: str | None = None
    settings: Pairs = attrs.field(default=(), repr=False)
    librdkafka: Pairs = attrs.field(default=(), repr=False)

    def connect(self, timeout: float | None = 30) -> Client:
        """Return a client. A missing store is not created: it is an error."""
        options = {name: resolve(name, text) for name, text in self.librdkafka}
        keywords: dict[str, Any] = {"librdkafka": options} if options else {}
        return mqplug.connect(self._target(), timeout=timeout, must_exist=True, **keywords)

    def _target(self) -> str | Path | dict[str, Any] | None:
        if self.config is not None:
            return Path(self.config)
        if self.url is None and not self.settings:
            return self.backend
        # A URL, because its texts are converted to the types of the settings.
        url = f"{self.backend}://" if self.url is None else resolve_url(self.url)
        query = urlencode([(name, resolve(name, text)) for name, text in self.settings])
        return url + (f"{'&' if '?' in url else '?'}{query}" if query else "")


def parse_backend(found: Mapping[str, str], names: Mapping[str, str]) -> BackendSettings:
    """Return the backend that the options name. Option names in ``found`` are in lower case.

    ``names`` maps all other options from lower case to their spelling. Anything else is a setting of the named backend,
    or raises ``ConfigError``.
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
        raise ConfigError("'config' and 'backend' are both given", fix="Set backend = ... in the file")
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
    """Raise ``ConfigError`` if two options name the backend, or if ``kafka.`` options are given for another one."""
    ways = [name for name, given in (("url", url), ("config", config), (SERVERS, kafka.get(SERVERS))) if given]
    if len(ways) > 1 or (url is not None and backend is not None):
        both = ways if len(ways) > 1 else ["url", "backend"]
        raise ConfigError(f"{both[0]!r} and {both[1]!r} both name the backend", fix="Remove one")
    if not kafka:
        return
    scheme = backend or ("kafka" if SERVERS in kafka else _scheme(url))
    if scheme == "kafka":
        return
    if scheme:
        raise ConfigError(f"{min(kafka)!r} is a Kafka option, but the backend is {scheme}", fix="Remove it")
    where = "Set it in the file" if config is not None else f"Name the brokers with option({SERVERS!r}, ...)"
    raise ConfigError(f"{min(kafka)!r} is given, but no option says that the backend is kafka", fix=where)


def _scheme(url: str | None) -> str:
    """Return the backend that a URL names; "" if the whole URL is a reference, which only ``connect`` resolves."""
    return "" if url is None or is_reference(url) else url.partition("://")[0].lower()


def _check_misspelt(name: str, names: Mapping[str, str]) -> None:
    if get_close_matches(name, names, n=1, cutoff=0.85):
        raise _unknown(name, names)


def _unknown(name: str, names: Mapping[str, str]) -> ConfigError:
    known = {**{each: each for each in (*BACKEND_NAMES, SERVERS)}, **names}
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {known[near[0]]!r}?" if near else f"Choose from {', '.join(known.values())}"
    return ConfigError(f"unknown option {name!r}", fix=hint)


def resolve(option: str, text: str) -> str:
    """Resolve the references in a text; ``$${`` becomes ``${``. Raise ``ConfigError`` for a missing one."""
    return _REFERENCE.sub(lambda found: _value(option, found), text)


def resolve_url(text: str) -> str:
    """Resolve the references in a URL. A value that is only a part of the URL is percent-encoded."""
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
            fix=f"Set {name} for the driver and for the executors, for example with spark.executorEnv.{name}",
        )
    return os.environ[name]


def _content(option: str, path: str) -> str:
    """Return the content of a file, without a final newline."""
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
