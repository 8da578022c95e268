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
    from mqplug._public import *  # noqa: F403
    from mqplug._public import __all__ as __all__


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
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use.

    A program that only queries lags then does not load the modules of producers and consumers.
    """
    if name == "__all__":
        return sorted(_HOME_OF)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mqplug' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"mqplug.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
