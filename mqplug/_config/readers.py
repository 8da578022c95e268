"""Configuration files of other programs, and the readers that distributions add for them.

A reader is found by its entry point in the group ``mqplug.config_readers``: a module or an object with ``reads`` and
``read``. It is asked about each YAML file, in the order of the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from mqplug._config.layers import ForeignLayer
from mqplug._model.errors import ConfigError

READERS_GROUP: Final = "mqplug.config_readers"
PUBLISHED_READERS: Final = {"milvus": "mqplug-milvus"}  # by a word in the names of files


class ConfigReader(Protocol):
    """Reads the configuration file of another program."""

    def reads(self, name: str, content: Mapping[str, Any]) -> bool:
        """Return whether a file is one of that program, by its name or its content."""
        ...

    def read(self, source: str, content: Mapping[str, Any], variables: Mapping[str, str]) -> ForeignLayer:
        """Return the settings in a file and the environment, in mqplug's words. Raise ``ConfigError`` for mistakes."""
        ...


def reader_for(name: str, content: Mapping[str, Any]) -> ConfigReader | None:
    """Return the reader of a file; None if it is mqplug's own. Raise ``ConfigError`` if its reader is not installed."""
    from importlib import metadata  # slow, and few programs have a YAML file

    for point in sorted(metadata.entry_points(group=READERS_GROUP), key=lambda each: each.name):
        reader: ConfigReader = point.load()
        if reader.reads(name, content):
            return reader
    for word, distribution in PUBLISHED_READERS.items():
        if word in name.lower():
            raise ConfigError(f"{name} is read by {distribution}", fix=f"Run pip install {distribution}")
    return None
