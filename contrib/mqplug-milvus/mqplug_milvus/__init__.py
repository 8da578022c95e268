"""What Milvus writes into its message queue, as typed events, and its configuration.

``mqplug.connect(Path("milvus.yaml"))`` opens the message queue that Milvus' own file names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqplug_milvus._config.file import MilvusFile
from mqplug_milvus._config.keys import is_milvus_shaped
from mqplug_milvus._format.columns import Column
from mqplug_milvus._format.decoding import decode, decode_bytes
from mqplug_milvus._format.events import (
    CollectionCreated,
    CollectionDropped,
    CollectionEvent,
    Delete,
    Event,
    Insert,
    Other,
    PartitionCreated,
    PartitionDropped,
    TimeTick,
)
from mqplug_milvus._format.schema import DataType, Field, Schema
from mqplug_milvus._format.wire import FormatError
from mqplug_milvus._reading.checkpoints import Checkpoint, checkpoints, place, position
from mqplug_milvus._reading.feed import Events, collections, events, read as read_events
from mqplug_milvus._reading.order import TickOrder, TickOverdue
from mqplug_milvus._reading.table import Table, Tables

__all__ = [
    "Checkpoint",
    "CollectionCreated",
    "CollectionDropped",
    "CollectionEvent",
    "Column",
    "DataType",
    "Delete",
    "Event",
    "Events",
    "Field",
    "FormatError",
    "Insert",
    "MilvusFile",
    "Other",
    "PartitionCreated",
    "PartitionDropped",
    "Schema",
    "Table",
    "Tables",
    "TickOrder",
    "TickOverdue",
    "TimeTick",
    "checkpoints",
    "collections",
    "decode",
    "decode_bytes",
    "events",
    "place",
    "position",
    "read",
    "read_events",
    "reads",
]


def reads(name: str, content: Mapping[str, Any]) -> bool:
    """Return whether this is Milvus' configuration, by the file's name or its content."""
    return "milvus" in name.lower() or is_milvus_shaped(content)


def read(source: str, content: Mapping[str, Any], variables: Mapping[str, str]) -> MilvusFile:
    """Return the settings in a ``milvus.yaml``, overridden by Milvus' own variables."""
    return MilvusFile.read(source, content, variables)
