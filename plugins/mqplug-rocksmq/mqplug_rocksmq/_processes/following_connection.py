"""A client's hold on a store that another process owns, until this process becomes the owner itself."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

from mqplug import Bounds, ConnectError, ForkedClient, Log, MessageId, Position, Timeout, Watermarks
from mqplug.spi import (
    Action,
    Capabilities,
    ConsumerOptions,
    GroupPosition,
    Listener,
    Mode,
    Numbers,
    Settlement,
    SymbolicStart,
    TopicInfo,
)
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.shared_member import NEW_MEMBER, JoinContext
from mqplug_rocksmq._driver.stage import RocksMQStage
from mqplug_rocksmq._driver.synced_producer import SyncedProducer
from mqplug_rocksmq._driver.topic_defaults import TopicDefaults
from mqplug_rocksmq._driver.translation import is_offset, position_at
from mqplug_rocksmq._processes.client_connection import OwnerGone
from mqplug_rocksmq._processes.following_consumer import FollowingConsumer, StoreAccess
from mqplug_rocksmq._processes.open_stores import close_store, open_or_connect
from mqplug_rocksmq._processes.outlets import Outlet, StoreOutlet
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._processes.resending import ResendingSink
from mqplug_rocksmq._store.deduplication import Request
from mqplug_rocksmq._store.store import Store, StoreSettings

Result = TypeVar("Result")


class FollowingConnection:
    """Does everything at home: where the store is. When the owner goes, there is a new home, perhaps here."""

    def __init__(self, remote: RemoteConnection, settings: StoreSettings, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.defaults = TopicDefaults()
        self._path = remote.path
        self._id = remote.id
        self._settings = settings
        self._home: StoreAccess = remote
        self._moving = threading.Lock()
        self._process = os.getpid()

    # where the store is ------------------------------------------------------------------------------------

    @property
    def home(self) -> StoreAccess:
        """Where the store is, as far as is known."""
        return self._home

    def move(self, gone: StoreAccess, timeout: float) -> StoreAccess:
        """Return the home after this one: own the store, or find who does."""
        if os.getpid() != self._process:
            raise ForkedClient("this client was opened before the process forked", fix="Connect in the child")
        if not self._moving.acquire(timeout=timeout):
            raise Timeout("the store's next owner was not found in time", backend="rocksmq")
        try:
            if self._home is gone:
                self._home = self._find(timeout)
                gone.close(0)
            return self._home
        finally:
            self._moving.release()

    def _find(self, timeout: float) -> StoreAccess:
        found = open_or_connect(self._path, self._settings, timeout, agree=False)
        if found.id != self._id:
            self._close_found(found, timeout)
            raise ConnectError(
                f"there is another store at {self._path} now", fix="Connect again", backend="rocksmq", retryable=False
            )
        return StoreConnection(found, self.capabilities, close_store) if isinstance(found, Store) else found

    @staticmethod
    def _close_found(found: Store | RemoteConnection, timeout: float) -> None:
        if isinstance(found, Store):
            close_store(found, timeout)
        else:
            found.close(timeout)

    def _at_home(self, act: Callable[[StoreAccess, float], Result], timeout: float) -> Result:
        """Do something where the store is; if the owner goes meanwhile, do it again at the next one's."""
        end = time.monotonic() + timeout
        home = self._home
        while True:
            try:
                return act(home, max(0.0, end - time.monotonic()))
            except OwnerGone as gone:
                if time.monotonic() >= end:
                    raise Timeout("the store's owner changed, and no time was left", backend="rocksmq") from gone
                home = self.move(home, end - time.monotonic())

    # what a connection does --------------------------------------------------------------------------------

    def after(self, message_id: MessageId) -> Position:
        return position_at(message_id.log, message_id.coordinates[0] + 1)

    def is_possible(self, coordinates: Numbers) -> bool:
        return is_offset(coordinates)

    def health(self, timeout: float) -> None:
        self._at_home(lambda home, left: home.health(left), timeout)

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self._at_home(lambda home, _: home.unwrap(kind), 30.0)

    def open_producer(self, timeout: float) -> SyncedProducer:
        """Open a producer."""
        return SyncedProducer(ResendingSink(self._open_outlet, timeout))

    def _open_outlet(self, producer: bytes, failed: Outlet | None, timeout: float) -> Outlet:
        strict = self._settings.sync == "always"
        if failed is not None:
            self._leave_home_of(failed, timeout)

        def opened(home: StoreAccess, left: float) -> Outlet:
            if isinstance(home, StoreConnection):
                outlet: Outlet = StoreOutlet(home.store, producer, strict=strict)
            else:
                outlet = home.outlet(producer, left, strict=strict)
            outlet.home = home
            return outlet

        return self._at_home(opened, timeout)

    def _leave_home_of(self, failed: Outlet, timeout: float) -> None:
        if failed.home is self._home:
            self.move(self._home, timeout)

    def open_stage(self, topic: TopicInfo, timeout: float) -> RocksMQStage:
        """Open a stage: this process writes its files beside the store, and asks the owner for numbers only."""
        return RocksMQStage(self._id, self._path, topic, self._reserve_segment)

    def _reserve_segment(self, timeout: float) -> int:
        return self._at_home(lambda home, left: home.reserve_segment(left), timeout)

    def open_consumer(self, options: ConsumerOptions, listener: Listener, timeout: float) -> FollowingConsumer:
        """Open a consumer; where the store goes, it goes."""
        return FollowingConsumer(self, options, listener, timeout)

    def open_at_home(
        self, options: ConsumerOptions, listener: Listener, timeout: float, bearing: JoinContext = NEW_MEMBER
    ) -> tuple[StoreAccess, Any]:
        """Open a consumer where the store is."""
        return self._at_home(lambda home, left: (home, home.open_consumer(options, listener, left, bearing)), timeout)

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Move a group that has no members."""
        self._at_home(lambda home, left: home.move_group(group, positions, left), timeout)

    def restore_group(
        self,
        group: str,
        positions: Mapping[Log, GroupPosition],
        since: Mapping[Log, Sequence[GroupPosition]],
        timeout: float,
    ) -> None:
        """Store how far a member of the owner before had come, where nobody has moved the group since."""
        self._at_home(lambda home, left: home.restore_group(group, positions, since, left), timeout)

    def settle_late(self, group: str, mode: Mode, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Store what became of messages that a member had of the owner before; to do it twice does no harm."""
        self._at_home(lambda home, left: home.settle_late(group, mode, settled, left), timeout)

    def resolve(self, start: SymbolicStart, logs: Sequence[Log], timeout: float) -> dict[Log, Position]:
        """Turn a start into positions."""
        return self._at_home(lambda home, left: home.resolve(start, logs, left), timeout)

    def watermarks(self, logs: Sequence[Log], since: Mapping[Log, Position], timeout: float) -> dict[Log, Watermarks]:
        """Return how far each log reaches."""
        return self._at_home(lambda home, left: home.watermarks(logs, since, left), timeout)

    def bounds(self, logs: Sequence[Log], timeout: float) -> dict[Log, Bounds]:
        """Return the first and the last id of each log."""
        return self._at_home(lambda home, left: home.bounds(logs, left), timeout)

    def administer(self, action: Action, timeout: float) -> Any:
        """Carry out an action, once: what an owner had done that did not answer is not done again by the next."""
        request, tries = Request(uuid.uuid4().bytes), count()
        return self._at_home(
            lambda home, left: home.administer(action, left, request._replace(again=next(tries) > 0)), timeout
        )

    def close(self, timeout: float) -> None:
        self._home.close(timeout)
