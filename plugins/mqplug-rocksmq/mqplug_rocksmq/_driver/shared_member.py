"""A member of a group in the modes shared and key_shared: it takes single messages of all logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, GroupPosition, Listener, Numbers, Settlement
from mqplug_rocksmq._driver.consumer import GroupConsumer
from mqplug_rocksmq._driver.join_context import JoinContext
from mqplug_rocksmq._store.store import Store

if TYPE_CHECKING:
    from mqplug_rocksmq._driver.group_members import GroupMembers


class SharedMember(GroupConsumer):
    """Takes messages that no other member has. Waits also for messages that become free again."""

    def __init__(
        self, store: Store, present: GroupMembers, options: ConsumerOptions, listener: Listener, context: JoinContext
    ) -> None:
        self._present = present
        with present.changing:
            self._sharing = present.sharing(store, options.mode)
            super().__init__(store, present.group, options, present.roster, listener, context)
            self._sharing.join(self, self.wake, options.max_processing, elsewhere=context.elsewhere is not None)
            self.resumed = self._sharing.resume(self, context.holding)

    def _next(self, log: Log, most: int) -> Batch | None:
        return self._sharing.take(self, log, most)

    def _max_wait(self, timeout: float) -> float:
        return min(timeout, self._sharing.seconds_to_next_free(self._active()))

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._check_held(positions)
        self._sharing.seek(positions, timeout)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count removed messages before these positions as acked. Nothing else changes."""
        self._check_held(positions)
        self._sharing.pass_over(positions, timeout)

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Keep a message until it is settled."""
        self._sharing.stop_clock(self, log, coordinates)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int:
        """Store acks and returns, except of messages that this member no longer has. Return how many acks are late."""
        return self._sharing.settle(self, settled, timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Do nothing: acks are settled one by one, and a single member has no position."""

    def close(self, timeout: float) -> None:
        with self._present.changing:
            self._sharing.leave(self)
            super().close(timeout)
            self._present.left()
