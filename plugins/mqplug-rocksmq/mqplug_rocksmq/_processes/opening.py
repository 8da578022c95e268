"""Opens a store for a client: as its owner, or through the process that owns it."""

from __future__ import annotations

import errno
from typing import Final

import attrs

from mqplug import AccessDenied, ConnectError, Error, StorageFull
from mqplug.spi import Capabilities
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._engine.directory import examine, expect_database
from mqplug_rocksmq._processes.following_connection import FollowingConnection
from mqplug_rocksmq._processes.open_stores import OPEN_RETRY_S, close_store, open_or_connect
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.store import Store

_ERRORS: Final = {
    errno.EACCES: AccessDenied, errno.EPERM: AccessDenied, errno.EROFS: AccessDenied,
    errno.ENOSPC: StorageFull, errno.EDQUOT: StorageFull,
}  # fmt: skip


def connect(
    settings: RocksMQSettings, capabilities: Capabilities, timeout: float
) -> StoreConnection | FollowingConnection:
    """Open the store, or connect to the process that has it open."""
    try:
        examine(settings.directory, create=settings.create)
        expect_database(settings.directory)
        found = open_or_connect(settings.directory, settings, min(timeout, OPEN_RETRY_S))
    except Error:
        raise
    except OSError as error:
        where = "" if error.filename is None else f": {error.filename}"
        reason = f"the store {settings.path} cannot be opened: {error.strerror}{where}"
        kind = _ERRORS.get(error.errno or 0, ConnectError)
        raise kind(reason, fix="Check the path, its permissions and the free disk space") from error
    capabilities = attrs.evolve(capabilities, message_max_bytes=settings.message_max_bytes)
    if isinstance(found, Store):
        return StoreConnection(found, settings, capabilities, close_store)
    return FollowingConnection(found, settings, capabilities)
