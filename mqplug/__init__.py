"""One API over message logs: produce, consume, acknowledge, seek, and ask for watermarks.

In short::

    import mqplug

    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send(b"hello")
        for message in mq.read("orders"):
            print(message.value)
"""

from __future__ import annotations

from mqplug._batch import Batch
from mqplug._client import Client
from mqplug._connect import connect
from mqplug._consumer import Consumer
from mqplug._discovery import register
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
from mqplug._handle import SendHandle
from mqplug._ids import MessageId
from mqplug._log import Log
from mqplug._message import Message
from mqplug._position import EARLIEST, LATEST, Position, Start, after, ago, at_time, before, last
from mqplug._producer import Producer
from mqplug._record import Record
from mqplug._watermarks import Bounds, Watermarks
from mqplug.spi._descriptor import Capabilities

__version__ = "0.1.0"

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
    "Corrupt",
    "Error",
    "Fenced",
    "ForkedClient",
    "GroupNotFound",
    "InvalidMessageId",
    "InvalidName",
    "Log",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NotAssigned",
    "OutcomeUnknown",
    "PluginError",
    "Position",
    "PositionLost",
    "Producer",
    "QueueFull",
    "Record",
    "SendFailed",
    "SendHandle",
    "SendTimeout",
    "Start",
    "StorageFull",
    "Timeout",
    "TopicExists",
    "TopicNotFound",
    "Unsupported",
    "Watermarks",
    "after",
    "ago",
    "at_time",
    "before",
    "connect",
    "last",
    "register",
]
