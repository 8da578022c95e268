"""Members that share the messages of all logs: the modes shared and key_shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, GroupPosition, Listener, Numbers, Settlement
from mqplug_rocksmq._driver.consumer import GroupConsumer
from mqplug_rocksmq._store.store import Store

if TYPE_CHECKING:
    from mqplug_rocksmq._driver.group_members import GroupMembers


class JoinContext(NamedTuple):
    """How a member comes: from another process, and with what it had of an owner of the store before this one."""

    holding: Mapping[Log, Sequence[Numbers]] = {}
    elsewhere: bool = False


NEW_MEMBER: Final = JoinContext()


class SharedMember(GroupConsumer):
    """Takes what nobody else has, and waits also for what time or others set free."""

    def __init__(
        self, store: Store, present: GroupMembers, options: ConsumerOptions, listener: Listener, bearing: JoinContext
    ) -> None:
        self._present = present
        with present.changing:
            self._sharing = present.sharing(store, options.mode)
            super().__init__(store, present.group, options, present.roster, listener)
            self._sharing.join(self, self.wake, options.max_processing, elsewhere=bearing.elsewhere)
            self.resumed = self._sharing.resume(self, bearing.holding)

    def _next(self, log: Log, most: int) -> Batch | None:
        return self._sharing.take(self, log, most)

    def _patience(self, timeout: float) -> float:
        return min(timeout, self._sharing.patience(self._reading()))

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._check_held(positions)
        self._sharing.seek(positions, timeout)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """What lies before was removed, and counts as acked; all else stays as it is."""
        self._check_held(positions)
        self._sharing.pass_over(positions, timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Store what became of messages; what this member does not have any more is passed over."""
        self._sharing.settle(self, settled, timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """What each member has done is settled; there is no position of one member."""

    def close(self, timeout: float) -> None:
        with self._present.changing:
            self._sharing.leave(self)
            super().close(timeout)
            self._present.left()
