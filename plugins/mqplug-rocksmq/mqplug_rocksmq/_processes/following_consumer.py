"""A consumer that continues where it was when the store gets another owner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from weakref import proxy

import attrs

from mqplug import AlreadyOpen, Batch, ConnectError, Error, Log, Position, Timeout
from mqplug.spi import ConsumerDriver, ConsumerOptions, Deadline, GroupPosition, Listener, Numbers, Settlement
from mqplug_rocksmq._driver.consumer import JoinContext, LogConsumer, Membership
from mqplug_rocksmq._processes.client_connection import OwnerGone
from mqplug_rocksmq._processes.owner import StoreAccess, StoreLocator
from mqplug_rocksmq._processes.remote_store import RemoteConsumer
from mqplug_rocksmq._processes.requests import RemoteMembership

OWNER_WAIT_S: Final = 10.0  # of searching for an owner; then the consumer raises
_MAX_LOOK_S: Final = 1.0  # counted at most between two searches: an owner may come and go in between
REOPEN_S: Final = 1.0
REJOIN_DELAY_S: Final = 0.4  # all members store their positions before any of them gets a partition again


class FollowingConsumer(ConsumerDriver):
    """Uses a consumer where the store is open. When the owner ends, opens another one at the next owner.

    A reader continues after the last message that it handed out. A member stores the acks it can and joins again. A
    member in a shared mode keeps its messages if it comes back in time.
    """

    def __init__(self, locator: StoreLocator, options: ConsumerOptions, listener: Listener, timeout: float) -> None:
        self._locator = locator
        self._options = options
        self._listener = listener
        self._in_hand: dict[Log, set[Numbers]] = {}  # unsettled messages, in a shared mode
        self._acked: dict[Log, set[Numbers]] = {}  # the ones whose clock was stopped
        self._held: dict[Log, list[GroupPosition]] = {}  # where the group may be, if only this member stored positions
        self._positions: dict[Log, Position] = {}
        self._paused: set[Log] = set()
        self._away = False
        self._ownerless_s = 0.0
        self._looked: float | None = None
        self._rejoin_at: float | None = None
        if options.group is None:
            given = options.start
            start = given if isinstance(given, Mapping) else locator.resolve(given, options.logs, timeout)
            self._positions = dict(start)
        self._access, self._inner = self._open(timeout)
        self._newest = self._access

    def _open(self, timeout: float) -> tuple[StoreAccess, LogConsumer | RemoteConsumer]:
        options = self._options
        if options.group is None:
            options = attrs.evolve(options, start=dict(self._positions))
        context = JoinContext({log: sorted(held) for log, held in list(self._in_hand.items()) if held})
        listener = proxy(self)  # the consumer there would otherwise outlive its close until a collection of garbage
        return self._locator.open_consumer_there(options, listener, timeout, context)

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        """A check whether this member still holds its logs. None without a group, and in a shared mode."""
        return None if self._options.shares or self._options.group is None else self._inner.still_holds

    # polling -----------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        if self._away and not self._return(timeout):
            return ()
        try:
            batches = self._inner.poll(most, timeout)
        except OwnerGone:
            self._return(timeout)
            return ()
        if self._options.group is None:
            for batch in batches:
                self._positions[batch.log] = batch.next_position
        elif self._options.shares:
            for batch in batches:
                self._in_hand.setdefault(batch.log, set()).update(batch.coordinates)
        return batches

    def tend(self, timeout: float) -> None:
        if self._away and not self._return(timeout):
            return
        try:
            self._inner.tend(timeout)
        except OwnerGone:
            self._return(timeout)

    def _return(self, timeout: float) -> bool:
        """Open a consumer at the next owner, if there is one yet. Called only by ``poll`` and ``tend``."""
        self._away = True
        began = time.monotonic()
        try:
            self._note_owner(self._locator.follow(self._access, max(timeout, 0.05)))
            if not self._may_join(timeout):
                return False
            gone = self._inner
            self._access, self._inner = self._open(REOPEN_S)
            gone.close(0)
            if self._options.shares and not self._inner.resumed:
                self._give_up_all()
            self._stop_clocks()
        except (AlreadyOpen, ConnectError, Timeout) as error:
            self._note_no_owner(began, error)
            return False
        self._newest, self._ownerless_s, self._looked = self._access, 0.0, None
        self._away, self._rejoin_at = False, None
        if self._paused:
            self._inner.pause(list(self._paused))
        return True

    def _note_owner(self, found: StoreAccess) -> None:
        if found is not self._newest:
            self._newest = found
            self._ownerless_s = 0.0

    def _note_no_owner(self, began: float, error: Error) -> None:
        """Count how long no owner has been found, and raise ``ConnectError`` if that is too long."""
        now = time.monotonic()
        self._ownerless_s += now - began + min(_MAX_LOOK_S, began - (self._looked or began))
        self._looked = now
        if self._ownerless_s >= OWNER_WAIT_S:
            raise ConnectError(
                f"no owner of the store was found in {self._ownerless_s:.0f} s, and this process cannot own it",
                fix="Connect again", backend="rocksmq",
            ) from error  # fmt: skip

    def _may_join(self, timeout: float) -> bool:
        if self._options.group is None or self._options.shares:
            return True
        if self._rejoin_at is None:
            self._give_up_all()
            self._rejoin_at = time.monotonic() + REJOIN_DELAY_S
        left = self._rejoin_at - time.monotonic()
        if left > 0:
            time.sleep(min(left, timeout))
        return left <= timeout

    def _give_up_all(self) -> None:
        """Give up all logs, because membership is lost. Store the acks of logs that no other member has got yet."""
        held = sorted(self._held, key=lambda log: (log.topic, log.partition))
        since = dict(self._held)
        positions = self.revoked(held) if held else {}
        if positions and self._options.group is not None and not self._options.shares:
            with suppress(Error):  # those messages are delivered again
                self._locator.restore_group(self._options.group, positions, since, REOPEN_S)

    def wake(self) -> None:
        self._inner.wake()

    # the listener of the inner consumer --------------------------------------------------------------------

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
            self._acked.pop(log, None)

    # moving ------------------------------------------------------------------------------------------------

    def pause(self, logs: Sequence[Log]) -> None:
        self._paused |= set(logs)
        self._try(lambda: self._inner.pause(logs))

    def resume(self, logs: Sequence[Log]) -> None:
        self._paused -= set(logs)
        self._try(lambda: self._inner.resume(logs))

    def _try(self, act: Callable[[], None]) -> bool:
        """Act on the current consumer. Return False if the owner is gone: the next poll opens another consumer."""
        if not self._away:
            try:
                act()
                return True
            except OwnerGone:
                self._away = True
        return False

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Switch to reading these logs. If the owner is gone, the consumer that the next poll opens reads them."""
        self._options = options
        if options.group is None and isinstance(options.start, Mapping):
            self._positions = {log: self._positions.get(log, options.start[log]) for log in options.logs}
        inner: Any = self._inner
        self._try(lambda: inner.follow(options, timeout))

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        moved = {log: GroupPosition(position) for log, position in positions.items()}
        with self._storing(moved):
            if not self._try(lambda: self._inner.seek(positions, timeout)) and self._options.group is not None:
                self._restore(self._options.group, moved, timeout)
        if self._options.group is None:
            self._positions.update(positions)
        for log in positions:
            self._in_hand.pop(log, None)
            self._acked.pop(log, None)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count removed messages before these positions as acked. If the owner is gone, a later poll repeats it."""
        inner: Any = self._inner
        self._try(lambda: inner.pass_over(positions, timeout))

    # storing -----------------------------------------------------------------------------------------------

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        with self._storing(positions):
            if not self._away:
                with suppress(OwnerGone):
                    self._inner.commit(positions, timeout)
                    return
            if self._options.group is not None and positions:
                self._restore(self._options.group, positions, timeout)

    @contextmanager
    def _storing(self, positions: Mapping[Log, GroupPosition]) -> Iterator[None]:
        """Record that the group may be at these positions or the old ones, and then that it is at these."""
        held = self._held
        for log in filter(held.__contains__, positions):
            held[log] = [*held[log], positions[log]]
        yield
        for log in filter(held.__contains__, positions):
            held[log] = [positions[log]]

    def _restore(self, group: str, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Have the next owner store the group's positions, unless others have moved the group since."""
        self._locator.restore_group(group, positions, dict(self._held), timeout)

    def membership(self) -> FollowingMembership:
        """Return proof for a transaction that this member still holds its logs."""
        inner: Any = self._inner
        return FollowingMembership(self, inner.membership())

    def expect_transaction(self, positions: Mapping[Log, GroupPosition]) -> None:
        """Record that a transaction may store these positions."""
        for log in filter(self._held.__contains__, positions):
            self._held[log] = [*self._held[log], positions[log]]

    def note_transaction(self, positions: Mapping[Log, GroupPosition], *, stored: bool) -> None:
        """Record that a transaction has stored these positions, or certainly has not."""
        for log in filter(self._held.__contains__, positions):
            held = self._held[log]
            self._held[log] = [positions[log]] if stored else [each for each in held if each is not positions[log]]

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Keep a message leased until it is settled, also at the next owner."""
        self._acked.setdefault(log, set()).add(coordinates)
        inner: Any = self._inner
        self._try(lambda: inner.stop_clock(log, coordinates))

    def _stop_clocks(self) -> None:
        inner: Any = self._inner
        for log, kept in list(self._acked.items()):
            for coordinates in list(kept):
                inner.stop_clock(log, coordinates)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int:
        """Store acks and returns, and return how many acks are late. If the owner ends, the next one stores them."""
        deadline, late = Deadline(timeout), 0
        inner: Any = self._inner

        def settle_there() -> None:
            nonlocal late
            late = inner.settle(settled, timeout)

        if not self._try(settle_there) and self._options.group is not None:
            self._locator.settle_late(self._options.group, self._options.mode, settled, deadline.remaining())
        for log, each in settled.items():
            for known in filter(None, (self._in_hand.get(log), self._acked.get(log))):
                known.difference_update(each.acked, (at for at, _ in each.returned))
        return late

    def close(self, timeout: float) -> None:
        with suppress(OwnerGone):
            self._inner.close(timeout)


class FollowingMembership(NamedTuple):
    """A member that follows the store, and its membership with the current owner."""

    consumer: FollowingConsumer
    present: Membership | RemoteMembership
