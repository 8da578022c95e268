"""A store that another process owns: forwards operations to the owner process over its socket."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqplug import AlreadyOpen, Error
from mqplug.spi import Action, ConsumerOptions, Listener
from mqplug_rocksmq._driver.consumer import NEW_MEMBER, JoinContext
from mqplug_rocksmq._driver.transactional_producer import PlacedParts, StepCommit
from mqplug_rocksmq._engine.ownership import read_owner
from mqplug_rocksmq._processes.client_connection import ANSWER_GRACE_S, ClientConnection, OwnerGone, raise_error_in
from mqplug_rocksmq._processes.codec import from_wire, to_wire
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.outlets import RemoteOutlet
from mqplug_rocksmq._processes.remote_consumer import RemoteConsumer
from mqplug_rocksmq._processes.requests import ForwardingConnection, commit_request, read_commit_answer
from mqplug_rocksmq._store.deduplication import OnceRequest
from mqplug_rocksmq._store.statistics import RocksMQStatistics

STATISTICS_S = 30.0


class RemoteConnection(ForwardingConnection):
    """A connection to the owner process. Any thread may call. Raises ``OwnerGone`` when that process has ended."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self._address = _address(path)
        self._idle: list[ClientConnection] = []
        self._closed = False
        first = ClientConnection(self._address, path, timeout)
        self.id = str(first.owner["store"])
        self._owner = first.owner.get("owner")
        self._idle.append(first)

    def connect(self, timeout: float) -> ClientConnection:
        """Open another connection to the same owner process. The next owner would listen at the same address."""
        connection = ClientConnection(self._address, self.path, timeout)
        if connection.owner.get("owner") != self._owner:
            connection.close()
            raise OwnerGone
        return connection

    def ask(self, call: str, *arguments: Any, timeout: float) -> Any:
        """Have the owner do something, and return its answer."""
        request = {"call": call, "arguments": to_wire(list(arguments)), "timeout": timeout}
        answer = self._exchange(request, timeout=timeout)
        raise_error_in(answer)
        return from_wire(answer["answer"])

    def _exchange(self, request: FrameHeader, *body: bytes, timeout: float) -> FrameHeader:
        """Send a request on a connection that no other call uses, and return its answer."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.connect(timeout + ANSWER_GRACE_S)
        try:
            answer, _ = connection.exchange(request, *body, timeout=timeout + ANSWER_GRACE_S)
        except BaseException:
            connection.close()  # an answer may be overdue
            raise
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)
        return answer

    def commit_transaction(self, commit: StepCommit, timeout: float) -> PlacedParts | Error:
        """Have the owner commit a transaction. Return its error, if it refused."""
        request, pages = commit_request(commit, timeout)
        answer = self._exchange(request, *pages, timeout=timeout)
        return read_commit_answer(answer)

    def _forward(self, operation: str, arguments: Sequence[Any], timeout: float) -> Any:
        return self.ask(operation, *map(_as_list, arguments), timeout=timeout)

    def administer(self, action: Action, timeout: float, request: OnceRequest) -> Any:
        """Carry out an action, once."""
        return self.ask("administer", action, request.name.hex(), request.again, timeout=timeout)

    def open_consumer(
        self, options: ConsumerOptions, listener: Listener, timeout: float, context: JoinContext = NEW_MEMBER
    ) -> RemoteConsumer:
        """Have the owner open a consumer for this process."""
        connection = self.connect(timeout + ANSWER_GRACE_S)
        return RemoteConsumer(self.ask, connection, self.path, options, listener, timeout, context.holding)

    def open_outlet(self, producer: bytes, timeout: float, *, strict: bool) -> RemoteOutlet:
        """Open a producer's outlet. *strict*: a send is done only when it is on disk."""
        return RemoteOutlet(self.connect(timeout + ANSWER_GRACE_S), producer, timeout, strict=strict)

    def unwrap(self, kind: type[Any]) -> Any | None:
        """Return the store's statistics. The store itself is in another process."""
        if kind is RocksMQStatistics:
            return self._statistics()
        return self if isinstance(self, kind) else None

    def _statistics(self) -> RocksMQStatistics:
        connection = self.connect(ANSWER_GRACE_S)
        try:
            return RocksMQStatistics.from_json(connection.ask({"call": "stats"}, timeout=STATISTICS_S)[0]["stats"])
        finally:
            connection.close()

    def close(self, timeout: float) -> None:
        """Close all connections."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def _as_list(argument: Any) -> Any:
    """Return any sequence as a list, which the codec knows."""
    return list(argument) if isinstance(argument, Sequence) and not isinstance(argument, str) else argument


def _address(path: Path) -> str:
    owner = read_owner(path)
    if owner is None or owner.socket is None:
        raise AlreadyOpen(
            f"the store {path} is open in a process that does not serve others", fix="Close it there",
            backend="rocksmq",
        )  # fmt: skip
    return owner.socket
