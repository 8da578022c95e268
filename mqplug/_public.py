"""All that ``mqplug`` exports."""

from __future__ import annotations

from mqplug._batch import Batch
from mqplug._client import Client
from mqplug._connect import configured, connect
from mqplug._consume.consumer import Consumer
from mqplug._consume.retry import Retry
from mqplug._consume.state import ConsumerStatistics, PartitionState
from mqplug._errors import (
    AccessDenied,
    AlreadyOpen,
    AuthError,
    Closed,
    CloseIncomplete,
    ConcurrentUse,
    ConfigError,
    ConnectError,
    ConsumerBusy,
    Corrupt,
    Error,
    Fenced,
    ForkedClient,
    GroupNotFound,
    InvalidMessageId,
    InvalidName,
    MessageTooLarge,
    NotAssigned,
    OutcomeUnknown,
    PluginError,
    PositionLost,
    QueueFull,
    SendFailed,
    SendTimeout,
    StorageFull,
    Timeout,
    TopicExists,
    TopicNotFound,
    Unsupported,
)
from mqplug._ids import MessageId
from mqplug._log import Log
from mqplug._message import Message
from mqplug._plugins.discovery import register
from mqplug._position import EARLIEST, LATEST, Position, Start, after, ago, at_time, before, last
from mqplug._produce.handle import SendHandle
from mqplug._produce.producer import Producer
from mqplug._produce.record import Record
from mqplug._stage import Stage
from mqplug._statistics import ProducerStatistics
from mqplug._watermarks import Bounds, Watermarks
from mqplug.spi._actions import GroupInfo, GroupPosition, Ingested, Staged, TopicInfo
from mqplug.spi._descriptor import Capabilities

__all__ = [
    "EARLIEST",
    "LATEST",
    "AccessDenied",
    "AlreadyOpen",
    "AuthError",
    "Batch",
    "Bounds",
    "Capabilities",
    "Client",
    "CloseIncomplete",
    "Closed",
    "ConcurrentUse",
    "ConfigError",
    "ConnectError",
    "Consumer",
    "ConsumerBusy",
    "ConsumerStatistics",
    "Corrupt",
    "Error",
    "Fenced",
    "ForkedClient",
    "GroupInfo",
    "GroupNotFound",
    "GroupPosition",
    "Ingested",
    "InvalidMessageId",
    "InvalidName",
    "Log",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NotAssigned",
    "OutcomeUnknown",
    "PartitionState",
    "PluginError",
    "Position",
    "PositionLost",
    "Producer",
    "ProducerStatistics",
    "QueueFull",
    "Record",
    "Retry",
    "SendFailed",
    "SendHandle",
    "SendTimeout",
    "Stage",
    "Staged",
    "Start",
    "StorageFull",
    "Timeout",
    "TopicExists",
    "TopicInfo",
    "TopicNotFound",
    "Unsupported",
    "Watermarks",
    "after",
    "ago",
    "at_time",
    "before",
    "configured",
    "connect",
    "last",
    "register",
]
