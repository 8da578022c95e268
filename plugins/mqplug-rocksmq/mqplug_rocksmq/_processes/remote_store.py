"""A store that another process owns: what its owner does for this one, over the owner's socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqplug import AlreadyOpen, Bounds, Error, Log, Position, Watermarks
from mqplug.spi import Action, ConsumerOptions, GroupPosition, Listener, Mode, Settlement, SymbolicStart
from mqplug_rocksmq._driver.shared_member import NEW_MEMBER, JoinContext
from mqplug_rocksmq._engine.ownership import owner_of
from mqplug_rocksmq._processes.client_connection import ClientConnection, OwnerGone
from mqplug_rocksmq._processes.codec import from_json, to_json
from mqplug_rocksmq._processes.remote_consumer import RemoteConsumer
from mqplug_rocksmq._processes.remote_outlet import ANSWER_GRACE_S, RemoteOutlet
from mqplug_rocksmq._store.deduplication import Request
from mqplug_rocksmq._store.statistics import RocksMQStatistics


class RemoteConnection:
    """Asks the owner. Any thread may call. ``OwnerGone`` when there is no owner any more."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self._address = _address(path)
        self._idle: list[ClientConnection] = []
        self._closed = False
        first = ClientConnection(self._address, path, timeout)
        self.id = str(first.owner["store"])
        self._owner = first.owner.get("owner")
        self._idle.append(first)

    def link(self, timeout: float) -> ClientConnection:
        """Open another conversation with the same owner: the next one has the same address."""
        link = ClientConnection(self._address, self.path, timeout)
        if link.owner.get("owner") != self._owner:
            link.close()
            raise OwnerGone
        return link

    def ask(self, call: str, *arguments: Any, timeout: float) -> Any:
        """Have the owner do something, and return what it answers."""
        request = {"call": call, "arguments": to_json(list(arguments)), "timeout": timeout}
        try:
            link = self._idle.pop()
        except IndexError:
            link = self.link(timeout + ANSWER_GRACE_S)
        try:
            header, _ = link.ask(request, timeout=timeout + ANSWER_GRACE_S)
        except BaseException as error:
            if isinstance(error, Error) and not isinstance(error, OwnerGone) and link.usable:
                self._idle.append(link)
            else:
                link.close()
            raise
        if self._closed:
            link.close()
        else:
            self._idle.append(link)
        return from_json(header["answer"])

    def open_consumer(
        self, options: ConsumerOptions, listener: Listener, timeout: float, bearing: JoinContext = NEW_MEMBER
    ) -> RemoteConsumer:
        """Have the owner open a consumer for this process."""
        link = self.link(timeout + ANSWER_GRACE_S)
        return RemoteConsumer(self.ask, link, self.path, options, listener, timeout, bearing.holding)

    def outlet(self, producer: bytes, timeout: float, *, strict: bool) -> RemoteOutlet:
        """Open a way for a producer's sends. *strict*: a send is done when it is on disk."""
        return RemoteOutlet(self.link(timeout + ANSWER_GRACE_S), producer, timeout, strict=strict)

    def reserve_segment(self, timeout: float) -> int:
        """Have the owner give out the number of a segment."""
        return int(self.ask("reserve_segment", timeout=timeout))

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Move a group that has no members."""
        self.ask("move_group", group, positions, timeout=timeout)

    def settle_late(self, group: str, mode: Mode, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Store what became of messages that a member had of the owner before."""
        self.ask("settle_late", group, mode, settled, timeout=timeout)

    def restore_group(
        self,
        group: str,
        positions: Mapping[Log, GroupPosition],
        since: Mapping[Log, Sequence[GroupPosition]],
        timeout: float,
    ) -> None:
        """Store what a member of the owner before could not store any more."""
        self.ask("restore_group", group, positions, since, timeout=timeout)

    def resolve(self, start: SymbolicStart, logs: Sequence[Log], timeout: float) -> dict[Log, Position]:
        """Turn a start into positions."""
        return dict(self.ask("resolve", start, list(logs), timeout=timeout))

    def watermarks(self, logs: Sequence[Log], since: Mapping[Log, Position], timeout: float) -> dict[Log, Watermarks]:
        """Return how far each log reaches."""
        return dict(self.ask("watermarks", list(logs), since, timeout=timeout))

    def bounds(self, logs: Sequence[Log], timeout: float) -> dict[Log, Bounds]:
        """Return the first and the last id of each log."""
        return dict(self.ask("bounds", list(logs), timeout=timeout))

    def administer(self, action: Action, timeout: float, request: Request) -> Any:
        """Carry out an action, once."""
        return self.ask("administer", action, request.name.hex(), request.again, timeout=timeout)

    def health(self, timeout: float) -> None:
        """Return if the owner answers."""
        self.ask("health", timeout=timeout)

    def unwrap(self, kind: type[Any]) -> Any | None:
        """The store itself is in another process."""
        if kind is RocksMQStatistics:
            return self._statistics()
        return self if isinstance(self, kind) else None

    def _statistics(self) -> RocksMQStatistics:
        link = self.link(ANSWER_GRACE_S)
        try:
            return RocksMQStatistics.from_json(link.ask({"call": "stats"}, timeout=30.0)[0]["stats"])
        finally:
            link.close()

    def close(self, timeout: float) -> None:
        """Hang up."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def _address(path: Path) -> str:
    owner = owner_of(path)
    if owner is None or owner.socket is None:
        raise AlreadyOpen(
            f"the store {path} is owned by a process that serves no others", fix="Close it there", backend="rocksmq"
        )
    return owner.socket
