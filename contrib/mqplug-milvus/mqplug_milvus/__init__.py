"""Reads Milvus' configuration: ``mqplug.connect(Path("milvus.yaml"))`` opens the message queue that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqplug_milvus._file import MilvusFile
from mqplug_milvus._keys import is_milvus_shaped

__all__ = ["MilvusFile", "read", "reads"]


def reads(name: str, content: Mapping[str, Any]) -> bool:
    """Return whether this is Milvus' configuration, by the file's name or its content."""
    return "milvus" in name.lower() or is_milvus_shaped(content)


def read(source: str, content: Mapping[str, Any], variables: Mapping[str, str]) -> MilvusFile:
    """Return the settings in a ``milvus.yaml``, overridden by Milvus' own variables."""
    return MilvusFile.read(source, content, variables)
