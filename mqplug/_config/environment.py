"""The layer of environment variables: ``MQPLUG_BACKEND``, ``MQPLUG_URL``, ``MQPLUG_KAFKA_SERVERS`` and so on.

An empty variable counts as unset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import attrs

from mqplug._config.layers import Given
from mqplug._settings.fields import Text

VARIABLE_PREFIX: Final = "MQPLUG_"
Scope = Literal["all", "sections", "plugins"]


@attrs.frozen
class Environment:
    """A layer of variables. ``scope`` limits which are read; those about plugins always are."""

    variables: Mapping[str, str] = attrs.field(repr=False)
    scope: Scope = "all"
    source: str = "the environment"

    def key(self, name: str) -> Given | None:
        """Return a key above the sections."""
        return self._given(VARIABLE_PREFIX + name.upper()) if self.scope == "all" else None

    def section(self, *path: str) -> Mapping[str, Given]:
        """Return a section."""
        if path == ("plugins",):
            found = {name: self._given(VARIABLE_PREFIX + name.upper()) for name in ("allow", "deny")}
            return {name: given for name, given in found.items() if given is not None}
        if self.scope == "plugins":
            return {}
        prefix = VARIABLE_PREFIX + "".join(f"{name}_" for name in path).upper().replace("-", "_")
        found = {name[len(prefix) :].lower(): self._given(name) for name in self.variables if name.startswith(prefix)}
        return {key: given for key, given in found.items() if key and given is not None}

    def backends(self) -> Iterable[str]:
        """Return nothing: the variables of a backend are known only when its section is read."""
        return ()

    def loose(self) -> Mapping[str, Given]:
        """Return nothing: each variable names its section."""
        return {}

    def _given(self, variable: str) -> Given | None:
        text = self.variables.get(variable)
        return Given(Text(text), variable, variable) if text else None
