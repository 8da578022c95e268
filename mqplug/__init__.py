"""One API over message logs: produce, consume, acknowledge, seek, and query watermarks.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mqplug._client.client import Client as Client
    from mqplug._client.connect import configured as configured, connect as connect
    from mqplug._client.stage import Stage as Stage
    from mqplug._client.transaction import BatchHandle as BatchHandle, Transaction as Transaction
    from mqplug._consume.assignment import ConsumerStatistics as ConsumerStatistics, PartitionState as PartitionState
    from mqplug._consume.consumer import Consumer as Consumer
    from mqplug._consume.retries import Reject as Reject, Retry as Retry
    from mqplug._consume.serving import serve as serve
    from mqplug._model.batch import Batch as Batch
    from mqplug._model.errors import (
        AccessDenied as AccessDenied,
        AlreadyOpen as AlreadyOpen,
        AuthError as AuthError,
        Closed as Closed,
        CloseIncomplete as CloseIncomplete,
        ConcurrentUse as ConcurrentUse,
        ConfigError as ConfigError,
        ConnectError as ConnectError,
        ConsumerBusy as ConsumerBusy,
        Corrupt as Corrupt,
        Error as Error,
        Fenced as Fenced,
        ForkedClient as ForkedClient,
        GroupNotFound as GroupNotFound,
        InvalidMessageId as InvalidMessageId,
        InvalidName as InvalidName,
        InvalidRecord as InvalidRecord,
        InvalidTimestamp as InvalidTimestamp,
        MessageTooLarge as MessageTooLarge,
        NotAssigned as NotAssigned,
        NotCommitted as NotCommitted,
        PluginError as PluginError,
        QueueFull as QueueFull,
        SendFailed as SendFailed,
        StorageFull as StorageFull,
        Timeout as Timeout,
        TopicExists as TopicExists,
        TopicNotFound as TopicNotFound,
        Unsupported as Unsupported,
    )
    from mqplug._model.ids import MessageId as MessageId
    from mqplug._model.log import GroupDescription as GroupDescription, GroupMember as GroupMember, Log as Log
    from mqplug._model.message import Message as Message
    from mqplug._model.names import matching as matching
    from mqplug._model.outcome import OutcomeUnknown as OutcomeUnknown, SendTimeout as SendTimeout
    from mqplug._model.position import (
        EARLIEST as EARLIEST,
        LATEST as LATEST,
        Bounds as Bounds,
        Position as Position,
        PositionLost as PositionLost,
        Start as Start,
        Watermarks as Watermarks,
        after as after,
        ago as ago,
        at_time as at_time,
        before as before,
        last as last,
    )
    from mqplug._plugins.discovery import register as register
    from mqplug._produce.handle import SendHandle as SendHandle
    from mqplug._produce.outcomes import ProducerStatistics as ProducerStatistics
    from mqplug._produce.producer import Producer as Producer
    from mqplug._produce.record import Record as Record
    from mqplug.spi._actions import (
        Broker as Broker,
        ClusterInfo as ClusterInfo,
        GroupInfo as GroupInfo,
        GroupPosition as GroupPosition,
        Ingested as Ingested,
        Staged as Staged,
        TopicInfo as TopicInfo,
    )
    from mqplug.spi._descriptor import Capabilities as Capabilities

_HOMES: Final = {
    "_client.client": "Client",
    "_client.connect": "configured connect",
    "_client.stage": "Stage",
    "_client.transaction": "BatchHandle Transaction",
    "_consume.assignment": "ConsumerStatistics PartitionState",
    "_consume.consumer": "Consumer",
    "_consume.retries": "Reject Retry",
    "_consume.serving": "serve",
    "_model.batch": "Batch",
    "_model.errors": """
        AccessDenied AlreadyOpen AuthError CloseIncomplete Closed ConcurrentUse ConfigError ConnectError
        ConsumerBusy Corrupt Error Fenced ForkedClient GroupNotFound InvalidMessageId InvalidName
        InvalidRecord InvalidTimestamp MessageTooLarge NotAssigned NotCommitted PluginError QueueFull
        SendFailed StorageFull Timeout TopicExists TopicNotFound Unsupported
    """,
    "_model.ids": "MessageId",
    "_model.log": "GroupDescription GroupMember Log",
    "_model.message": "Message",
    "_model.names": "matching",
    "_model.outcome": "OutcomeUnknown SendTimeout",
    "_model.position": "Bounds EARLIEST LATEST Position PositionLost Start Watermarks after ago at_time before last",
    "_plugins.discovery": "register",
    "_produce.handle": "SendHandle",
    "_produce.outcomes": "ProducerStatistics",
    "_produce.producer": "Producer",
    "_produce.record": "Record",
    "spi._actions": "Broker ClusterInfo GroupInfo GroupPosition Ingested Staged TopicInfo",
    "spi._descriptor": "Capabilities",
}
_HOME_OF: Final = dict(sorted((name, home) for home, names in _HOMES.items() for name in names.split()))

__all__ = list(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll] - type checkers read the imports above


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Load a public name from its module on first use.

        A program that only queries lags then does not load the modules of producers and consumers.
        """
        if name not in _HOME_OF:
            raise AttributeError(f"module 'mqplug' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"mqplug.{_HOME_OF[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
