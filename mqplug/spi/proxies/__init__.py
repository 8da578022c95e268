"""Tools for extensions: proxies that pass every call on to a driver, to be subclassed where a call is to change."""

from __future__ import annotations

from mqplug.spi.proxies._proxy import (
    ColumnsProxy,
    ConnectionProxy,
    ConsumerProxy,
    HookWrapper,
    ListenerProxy,
    ListenerRelay,
    ProducerProxy,
    SendingProxy,
    TransactionProxy,
)

__all__ = [
    "ColumnsProxy",
    "ConnectionProxy",
    "ConsumerProxy",
    "HookWrapper",
    "ListenerProxy",
    "ListenerRelay",
    "ProducerProxy",
    "SendingProxy",
    "TransactionProxy",
]
