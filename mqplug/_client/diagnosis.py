"""Diagnosis of a connection: the sources read, the backend chosen, the settings with their sources, the outcome.

Secrets are masked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import attrs

from mqplug._base.deadline import Deadline
from mqplug._client.client import Client
from mqplug._config.layers import Document, ForeignLayer, Layer, LeftAlone
from mqplug._config.plan import ConnectionPlan, Target, plan, sources
from mqplug._model.errors import Error
from mqplug._plugins.capabilities import FLAGS
from mqplug._settings.fields import fields_of
from mqplug._settings.secrets import MASK
from mqplug._settings.urls import without_logins


@attrs.frozen
class Setting:
    """A setting in force, and its source."""

    name: str
    value: Any
    source: str


@attrs.frozen(kw_only=True)
class Diagnosis:
    """The findings, up to the error that ended the diagnosis, if any."""

    sources: list[str] = attrs.field(factory=list)
    backend: str | None = None
    reason: str | None = None
    settings: list[Setting] = attrs.field(factory=list)
    connects: bool = False
    seconds: float | None = None
    capabilities: Mapping[Literal["native", "core", "absent"], list[str]] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    left_alone: list[LeftAlone] = attrs.field(factory=list)
    warnings: list[str] = attrs.field(factory=list)
    error: str | None = None


def effective_settings(target: Target) -> list[Setting]:
    """Return the settings that ``connect(target)`` would use, without connecting."""
    return list(_settings(plan(target, {})))


def diagnose(target: Target, timeout: float, settings: Mapping[str, Any] | None = None) -> Diagnosis:
    """Report what ``connect(target)`` would do, and whether it reaches the backend. Creates nothing."""
    found, given = Diagnosis(), settings or {}
    try:
        layers = sources(target, given).layers
        found = attrs.evolve(
            found, sources=[layer.source for layer in layers], left_alone=list(_left_alone(layers, None))
        )
        made = plan(target, given)
        found = attrs.evolve(
            found,
            sources=_sources(made),
            backend=made.choice.name,
            reason=made.choice.reason,
            settings=list(_settings(made)),
            left_alone=list(_left_alone(made.layers, made.choice.name)),
        )
        with _warned() as warnings:
            found = attrs.evolve(found, warnings=warnings)
            return _connected(found, made, Deadline(timeout))
    except (Error, TypeError, ValueError) as error:
        return attrs.evolve(found, error=" ".join(str(error).split()))


def _connected(found: Diagnosis, made: ConnectionPlan, deadline: Deadline) -> Diagnosis:
    began = time.monotonic()
    backend = made.looking().connect(deadline)
    client = Client(backend)
    try:
        client.health(deadline.remaining())
        seconds = time.monotonic() - began
        names = sorted(FLAGS)
        kinds = {name: client.support(name) for name in names}
        notes = list(backend.connection.notes())
    finally:
        client.close(deadline.remaining())
    return attrs.evolve(
        found,
        connects=True,
        seconds=round(seconds, 4),
        notes=notes,
        capabilities={kind: [name for name in names if kinds[name] == kind] for kind in ("native", "core", "absent")},
    )


def _left_alone(layers: Sequence[Layer], chosen: str | None) -> Iterator[LeftAlone]:
    for layer in layers:
        if isinstance(layer, ForeignLayer):
            yield from layer.left_alone(chosen)


class _Warned(logging.Handler):
    """A log handler that gathers the warnings of plugins."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("mqplug"):
            self._texts.append(without_logins(record.getMessage()))


@contextmanager
def _warned() -> Iterator[list[str]]:
    texts: list[str] = []
    handler = _Warned(texts)
    logging.getLogger().addHandler(handler)
    try:
        yield texts
    finally:
        logging.getLogger().removeHandler(handler)


def _sources(made: ConnectionPlan) -> list[str]:
    """Return the files, and the environment variables that had a value."""
    documents = [layer.source for layer in made.layers if isinstance(layer, Document | ForeignLayer)]
    said = [given.source for given in (*made.givens.values(), *made.keys.values())]
    return list(dict.fromkeys([*said, *documents]))


def _settings(made: ConnectionPlan) -> Iterator[Setting]:
    kind = type(made.settings)
    for name, field in fields_of(kind).items():
        value = getattr(made.settings, name)
        source = made.givens[name].source if name in made.givens else "default"
        if field.nested is not None and value is not None:
            for inner in fields_of(field.nested).values():
                shown = MASK if inner.secret else getattr(value, inner.name)
                yield Setting(f"{name}.{inner.name}", _plain(shown), source)
        else:
            yield Setting(name, MASK if field.secret and value else _plain(value), source)


def _plain(value: Any) -> Any:
    """Return the value as JSON, without logins."""
    if isinstance(value, str):
        return without_logins(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
