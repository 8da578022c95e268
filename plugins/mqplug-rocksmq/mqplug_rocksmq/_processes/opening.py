"""Opens a store for a client: as its owner, or through the process that owns it."""

from __future__ import annotations

import attrs

from mqplug import Error
from mqplug.spi import Capabilities
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._engine.directory import examine, expect_database
from mqplug_rocksmq._engine.errors import cannot_open
from mqplug_rocksmq._processes.following_connection import FollowingConnection
from mqplug_rocksmq._processes.open_stores import OPEN_RETRY_S, close_store, open_or_connect
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.store import Store


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
        raise cannot_open(settings.directory, error) from error
    capabilities = attrs.evolve(capabilities, message_max_bytes=settings.message_max_bytes)
    if isinstance(found, Store):
        return StoreConnection(found, settings, capabilities, close_store)
    return FollowingConnection(found, settings, capabilities)
