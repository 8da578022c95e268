"""The layer of a ``milvus.yaml``: its message queue's settings, in the words of mqplug.

Each key of the message queues' sections is used, refused, or listed as left alone. Milvus' own variables override the
file. They are read only together with a ``milvus.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from mqplug.introspection import Complaint, Given, LeftAlone, Text, Unset, config_error, quoted
from mqplug_milvus._config import sections
from mqplug_milvus._config.keys import (
    KNOWN_KEYS,
    MILVUS_SECTIONS,
    MilvusKeys,
    plain,
    reason_to_leave,
    reason_to_pass,
    sort_keys,
)
from mqplug_milvus._config.values import MilvusValues, is_blank

BACKENDS: Final[Mapping[str, Callable[[MilvusValues], dict[str, Given]]]] = {
    "kafka": sections.kafka,
    "pulsar": sections.pulsar,
    "rocksmq": sections.rocksmq,
}
_SERVICE: Final = re.compile(r"(tcp|udp)://")  # Kubernetes sets such a value for each service of a namespace


@attrs.frozen
class MilvusFile:
    """A layer of a ``milvus.yaml``, overridden by Milvus' own variables."""

    source: str
    _found: MilvusKeys = attrs.field(repr=False)
    _said: MilvusValues = attrs.field(repr=False)
    _variables_left: tuple[LeftAlone, ...] = ()

    @classmethod
    def read(cls, source: str, content: Mapping[str, Any], variables: Mapping[str, str]) -> MilvusFile:
        """Return the layer of a file and the environment. Raise ``ConfigError`` for unknown keys."""
        found = sort_keys(content, source)
        from_variables, left = _from_environment(variables)
        said = {key: from_variables[key] if key in from_variables else _one(key, found) for key in found.keys}
        said |= from_variables
        if found.complaints:
            raise config_error(found.complaints)
        return cls(source, found, MilvusValues(said, found.options), left)

    def key(self, name: str) -> Given | None:
        """Return a key above the sections: ``mq.type`` names the backend."""
        given = self._said.get("mq.type") if name == "backend" else None
        if given is None or isinstance(given.value, Unset):
            return given
        kind = str(given.value).strip().lower()
        return None if kind == "default" else attrs.evolve(given, value=kind)

    def section(self, *path: str) -> Mapping[str, Given]:
        """Return the settings of a backend, in the words of mqplug."""
        if len(path) != 1 or path[0] not in self.backends():
            return {}
        return BACKENDS[path[0]](self._said)

    def backends(self) -> Iterable[str]:
        """Return the backends that have settings here."""
        return [name for name in BACKENDS if self._said.mentions(name)]

    def loose(self) -> Mapping[str, Given]:
        """Return nothing: each key belongs to a section."""
        return {}

    def left_alone(self, chosen: str | None) -> list[LeftAlone]:
        """Return each key that is not used here, or not by the chosen backend, with the reason."""
        passed = [LeftAlone(name, reason_to_pass(name)) for name in self._found.strangers]
        others = [name for name in self.backends() if chosen is not None and name != chosen]
        tuning = [
            LeftAlone(key, reason_to_leave(key))
            for key in self._said.configured()
            if reason_to_leave(key) and key.partition(".")[0] not in others
        ]
        unused = sections.unused(self._said) if chosen == "kafka" else []
        queues = [LeftAlone(name, f"{chosen} was chosen") for name in others]
        return [*tuning, *unused, *queues, *passed, *self._variables_left]


def _one(key: str, found: MilvusKeys) -> Given:
    """Return a key's value. Note a complaint if the file gives the key twice with different values."""
    first, *others = found.keys[key]
    different = [other for other in others if other.value != first.value]
    if different:
        text = f"{quoted(first.place)} and {quoted(different[0].place)} are one key, but their values differ"
        found.complaints.append(Complaint(text, "Give it once"))
    return first


def _from_environment(variables: Mapping[str, str]) -> tuple[dict[str, Given], tuple[LeftAlone, ...]]:
    """Return the values of Milvus' own variables, and the variables that only look like one."""
    said: dict[str, Given] = {}
    left: list[LeftAlone] = []
    for name, text in sorted(variables.items()):
        key = KNOWN_KEYS.get(plain(name))
        if key is None or is_blank(text):
            if plain(name.partition("_")[0]) in MILVUS_SECTIONS and not is_blank(text):
                left.append(LeftAlone(name, "not a key of Milvus"))
        elif _SERVICE.match(text):
            left.append(LeftAlone(name, "Kubernetes sets this for a service"))
        elif key in said and said[key].value != text:
            raise config_error(
                [Complaint(f"{said[key].place!r} and {name!r} are one key, but their values differ", "Set one of them")]
            )
        else:
            said[key] = Given(Text(text), name, name)
    return said, tuple(left)
