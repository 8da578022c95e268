"""The public names of ``mqplug``, for type checkers: ``mqplug/__init__.py`` loads each from its module."""

from __future__ import annotations

from mqplug._client.client import Client
from mqplug._client.connect import configured, connect
from mqplug._client.stage import Stage
from mqplug._client.transaction import BatchHandle, Transaction
from mqplug._consume.assignment import ConsumerStatistics, PartitionState
from mqplug._consume.consumer import Consumer
from mqplug._consume.retries import Reject, Retry
from mqplug._consume.serving import serve
from mqplug._model.batch import Batch
from mqplug._model.errors import (
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
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    NotAssigned,
    NotCommitted,
    PluginError,
    QueueFull,
    SendFailed,
    StorageFull,
    Timeout,
    TopicExists,
    TopicNotFound,
    Unsupported,
)
from mqplug._model.ids import MessageId
from mqplug._model.log import GroupDescription, GroupMember, Log
from mqplug._model.message import Message
from mqplug._model.names import matching
from mqplug._model.outcome import OutcomeUnknown, SendTimeout
from mqplug._model.position import (
    EARLIEST,
    LATEST,
    Bounds,
    Position,
    PositionLost,
    Start,
    Watermarks,
    after,
    ago,
    at_time,
    before,
    last,
)
from mqplug._plugins.discovery import register
from mqplug._produce.handle import SendHandle
from mqplug._produce.outcomes import ProducerStatistics
from mqplug._produce.producer import Producer
from mqplug._produce.record import Record
from mqplug.spi._actions import Broker, ClusterInfo, GroupInfo, GroupPosition, Ingested, Staged, TopicInfo
from mqplug.spi._descriptor import Capabilities

__all__ = [
    "EARLIEST",
    "LATEST",
    "AccessDenied",
    "AlreadyOpen",
    "AuthError",
    "Batch",
    "BatchHandle",
    "Bounds",
    "Broker",
    "Capabilities",
    "Client",
    "CloseIncomplete",
    "Closed",
    "ClusterInfo",
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
    "GroupDescription",
    "GroupInfo",
    "GroupMember",
    "GroupNotFound",
    "GroupPosition",
    "Ingested",
    "InvalidMessageId",
    "InvalidName",
    "InvalidRecord",
    "InvalidTimestamp",
    "Log",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NotAssigned",
    "NotCommitted",
    "OutcomeUnknown",
    "PartitionState",
    "PluginError",
    "Position",
    "PositionLost",
    "Producer",
    "ProducerStatistics",
    "QueueFull",
    "Record",
    "Reject",
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
    "Transaction",
    "Unsupported",
    "Watermarks",
    "after",
    "ago",
    "at_time",
    "before",
    "configured",
    "connect",
    "last",
    "matching",
    "register",
    "serve",
]
