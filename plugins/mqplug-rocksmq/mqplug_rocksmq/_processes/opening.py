"""Opening a store: as its owner, or as a guest of the process that owns it."""

from __future__ import annotations

import errno
from typing import Final

import attrs

from mqplug import AccessDenied, ConnectError, Error, StorageFull
from mqplug.spi import Capabilities, retention_seconds
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.topic_defaults import TopicDefaults
from mqplug_rocksmq._engine.directory import examine, expect_database
from mqplug_rocksmq._processes.following_connection import FollowingConnection
from mqplug_rocksmq._processes.open_stores import OPEN_RETRY_S, close_store, open_or_connect
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.store import Store, StoreSettings

_KINDS: Final = {
    errno.EACCES: AccessDenied, errno.EPERM: AccessDenied, errno.EROFS: AccessDenied,
    errno.ENOSPC: StorageFull, errno.EDQUOT: StorageFull,
}  # fmt: skip


def connect(
    settings: RocksMQSettings, capabilities: Capabilities, timeout: float
) -> StoreConnection | FollowingConnection:
    """Open the store, or reach the process that has it open."""
    wanted = StoreSettings(
        settings.sync,
        settings.interval,
        settings.retention_interval,
        settings.disk_max_bytes,
        settings.memory_max_bytes,
        settings.session_timeout,
        settings.compression,
        settings.ballast_max_bytes,
        guests_max_bytes=settings.guests_max_bytes,
        guest_connections_max=settings.guest_connections_max,
    )
    try:
        examine(settings.directory, create=settings.create)
        expect_database(settings.directory)
        found = open_or_connect(settings.directory, wanted, min(timeout, OPEN_RETRY_S))
    except Error:
        raise
    except OSError as error:
        where = "" if error.filename is None else f": {error.filename}"
        reason = f"the store {settings.path} cannot be opened: {error.strerror}{where}"
        raise _kind(error)(reason, fix="Check the path, its permissions and its disk") from error
    capabilities = attrs.evolve(capabilities, message_max_bytes=settings.message_max_bytes)
    connection: StoreConnection | FollowingConnection
    if isinstance(found, Store):
        connection = StoreConnection(found, capabilities, close_store)
    else:
        connection = FollowingConnection(found, wanted, capabilities)
    connection.defaults = TopicDefaults(retention_seconds(settings.retention), settings.retention_bytes)
    return connection


def _kind(error: OSError) -> type[Error]:
    return _KINDS.get(error.errno or 0, ConnectError)
