"""A consumer that goes on where it was when the store gets another owner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import attrs

from mqplug import AlreadyOpen, Batch, ConnectError, Error, Log, Position, Timeout
from mqplug.spi import ConsumerOptions, GroupPosition, Listener, Mode, Numbers, Settlement, SymbolicStart
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.consumer import LogConsumer
from mqplug_rocksmq._driver.shared_member import JoinContext
from mqplug_rocksmq._processes.client_connection import OwnerGone
from mqplug_rocksmq._processes.remote_consumer import RemoteConsumer
from mqplug_rocksmq._processes.remote_store import RemoteConnection

OWNER_WAIT_S: Final = 10.0  # seconds without an owner after which a consumer says so
REOPEN_S: Final = 1.0
REJOIN_DELAY_S: Final = (
    0.4  # seconds in which all members store how far they came, before any of them gets a partition again
)

StoreAccess = RemoteConnection | StoreConnection


class StoreFollower(Protocol):
    """A connection that finds the store wherever it is, and does there what a consumer needs."""

    def move(self, gone: StoreAccess, timeout: float) -> StoreAccess: ...
    def open_at_home(
        self, options: ConsumerOptions, listener: Listener, timeout: float, bearing: JoinContext
    ) -> tuple[StoreAccess, Any]: ...
    def resolve(self, start: SymbolicStart, logs: Sequence[Log], timeout: float) -> dict[Log, Position]: ...
    def restore_group(
        self,
        group: str,
        positions: Mapping[Log, GroupPosition],
        since: Mapping[Log, Sequence[GroupPosition]],
        timeout: float,
    ) -> None: ...
    def settle_late(self, group: str, mode: Mode, settled: Mapping[Log, Settlement], timeout: float) -> None: ...


class FollowingConsumer:
    """Uses a consumer where the store is, and opens another one when that has moved.

    A reader goes on behind the last message that it handed out. A member stores what it still can, and joins again; one
    that shares its logs keeps what it has, if it comes soon enough.
    """

    def __init__(self, guest: StoreFollower, options: ConsumerOptions, listener: Listener, timeout: float) -> None:
        self._guest = guest
        self._options = options
        self._listener = listener
        self._shares = options.shares
        self._in_hand: dict[Log, set[Numbers]] = {}  # what is not settled, of those that share
        self._held: dict[Log, list[GroupPosition]] = {}  # where the group stands by what this member has stored
        self._positions: dict[Log, Position] = {}
        self._paused: set[Log] = set()
        self._away_since: float | None = None
        self._joins_at: float | None = None
        if options.group is None:
            given = options.start
            start = given if isinstance(given, Mapping) else guest.resolve(given, options.logs, timeout)
            self._positions = dict(start)
        self._home, self._inner = self._open(timeout)

    def _open(self, timeout: float) -> tuple[StoreAccess, LogConsumer | RemoteConsumer]:
        options = self._options
        if options.group is None:
            options = attrs.evolve(options, start=dict(self._positions))
        bearing = JoinContext({log: sorted(held) for log, held in list(self._in_hand.items()) if held})
        return self._guest.open_at_home(options, self, timeout, bearing)

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        """What tells whether others may have this member's logs by now; those that share hand out what they take."""
        return None if self._shares or self._options.group is None else self._inner.still_holds

    # polling -----------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        if self._away_since is not None and not self._return(timeout):
            return ()
        try:
            batches = self._inner.poll(most, timeout)
        except OwnerGone:
            self._return(timeout)
            return ()
        if self._options.group is None:
            for batch in batches:
                self._positions[batch.log] = batch.next_position
        elif self._shares:
            for batch in batches:
                self._in_hand.setdefault(batch.log, set()).update(batch.coordinates)
        return batches

    def tend(self, timeout: float) -> None:
        if self._away_since is not None and not self._return(timeout):
            return
        try:
            self._inner.tend(timeout)
        except OwnerGone:
            self._return(timeout)

    def _return(self, timeout: float) -> bool:
        """Go where the store is now, if that is known already; only inside ``poll`` and ``tend``."""
        self._away_since = self._away_since or time.monotonic()
        try:
            self._guest.move(self._home, max(timeout, 0.05))
            if not self._may_join(timeout):
                return False
            gone = self._inner
            self._home, self._inner = self._open(REOPEN_S)
            gone.close(0)
            if self._shares and not self._inner.resumed:
                self._give_up_all()
        except (AlreadyOpen, ConnectError, Timeout) as error:
            if time.monotonic() - self._away_since < OWNER_WAIT_S:
                return False
            raise ConnectError(
                "the process that owned the store is gone, and nobody can own it now", fix="Connect again",
                backend="rocksmq",
            ) from error  # fmt: skip
        self._away_since = self._joins_at = None
        if self._paused:
            self._inner.pause(list(self._paused))
        return True

    def _may_join(self, timeout: float) -> bool:
        if self._options.group is None or self._shares:
            return True
        if self._joins_at is None:
            self._give_up_all()
            self._joins_at = time.monotonic() + REJOIN_DELAY_S
        left = self._joins_at - time.monotonic()
        if left > 0:
            time.sleep(min(left, timeout))
        return left <= timeout

    def _give_up_all(self) -> None:
        """Membership is lost: what was acked is stored, unless another member has the partition already."""
        held = sorted(self._held, key=lambda log: (log.topic, log.partition))
        since = dict(self._held)
        states = self.revoked(held) if held else {}
        if states and self._options.group is not None and not self._shares:
            with suppress(Error):  # those messages come again
                self._guest.restore_group(self._options.group, states, since, REOPEN_S)

    def wake(self) -> None:
        self._inner.wake()

    # what is told ------------------------------------------------------------------------------------------

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        fresh = {log: position for log, position in positions.items() if log not in self._held}
        self._held |= {log: [position] for log, position in fresh.items()}
        if fresh:
            self._listener.assigned(fresh)

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        self._forget(logs)
        return self._listener.revoked(logs)

    def lost(self, logs: Sequence[Log]) -> None:
        self._forget(logs)
        self._listener.lost(logs)

    def _forget(self, logs: Iterable[Log]) -> None:
        self._paused.difference_update(logs)
        for log in logs:
            self._held.pop(log, None)
            self._in_hand.pop(log, None)

    # moving ------------------------------------------------------------------------------------------------

    def pause(self, logs: Sequence[Log]) -> None:
        self._paused |= set(logs)
        self._try(lambda: self._inner.pause(logs))

    def resume(self, logs: Sequence[Log]) -> None:
        self._paused -= set(logs)
        self._try(lambda: self._inner.resume(logs))

    def _try(self, act: Callable[[], None]) -> bool:
        """Do something with the consumer as it is; False if the owner is gone, which the next poll sees to."""
        if self._away_since is None:
            try:
                act()
                return True
            except OwnerGone:
                self._away_since = time.monotonic()
        return False

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        stands = {log: GroupPosition(position) for log, position in positions.items()}
        with self._storing(stands):
            if not self._try(lambda: self._inner.seek(positions, timeout)) and self._options.group is not None:
                self._restore(self._options.group, stands, timeout)
        if self._options.group is None:
            self._positions.update(positions)
        for log in positions:
            self._in_hand.pop(log, None)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """What lies before was removed, and counts as acked; if the owner is gone, a later poll says so again."""
        inner: Any = self._inner
        self._try(lambda: inner.pass_over(positions, timeout))

    # storing -----------------------------------------------------------------------------------------------

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        with self._storing(positions):
            if self._away_since is None:
                with suppress(OwnerGone):
                    self._inner.commit(positions, timeout)
                    return
            if self._options.group is not None and positions:
                self._restore(self._options.group, positions, timeout)

    @contextmanager
    def _storing(self, stands: Mapping[Log, GroupPosition]) -> Iterator[None]:
        """While it is not known whether the group stands there already; afterwards it does."""
        held = self._held
        for log in filter(held.__contains__, stands):
            held[log] = [*held[log], stands[log]]
        yield
        for log in filter(held.__contains__, stands):
            held[log] = [stands[log]]

    def _restore(self, group: str, stands: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Have the next owner store where the group stands, unless others have moved it meanwhile."""
        self._guest.restore_group(group, stands, dict(self._held), timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Store what became of messages; if the owner goes meanwhile, the next one is told."""
        end = time.monotonic() + timeout
        inner: Any = self._inner
        if not self._try(lambda: inner.settle(settled, timeout)) and self._options.group is not None:
            left = max(0.0, end - time.monotonic())
            self._guest.settle_late(self._options.group, self._options.mode, settled, left)
        for log, each in settled.items():
            if held := self._in_hand.get(log):
                held.difference_update(each.acked, (at for at, _ in each.returned))

    def close(self, timeout: float) -> None:
        with suppress(OwnerGone):
            self._inner.close(timeout)
