"""A store that another process owns: the owner runs operations and consumers, reached over its socket.

Each consumer has its own connection, whose end ends its membership. Each of its calls is one request and one answer.
The owner's events for the listener come before the answer of the poll or tend in which they happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mqplug import AlreadyOpen, Batch, Error, Log, Position, Timeout
from mqplug.spi import Action, ConsumerOptions, Deadline, GroupPosition, Listener, Numbers, Settlement
from mqplug_rocksmq._driver.consumer import NEW_MEMBER, JoinContext
from mqplug_rocksmq._driver.transactional_producer import PlacedParts, StepCommit
from mqplug_rocksmq._engine.ownership import read_owner
from mqplug_rocksmq._processes.client_connection import ANSWER_GRACE_S, ClientConnection, OwnerGone, raise_error_in
from mqplug_rocksmq._processes.codec import from_wire, to_wire, unpack_batches
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.member_tokens import MemberToken, token_check
from mqplug_rocksmq._processes.requests import (
    ForwardingConnection,
    RemoteMembership,
    commit_request,
    read_commit_answer,
)
from mqplug_rocksmq._processes.resending import RemoteOutlet
from mqplug_rocksmq._store.repeated_requests import OnceRequest
from mqplug_rocksmq._store.statistics import RocksMQStatistics

STATISTICS_S = 30.0
MANY_MESSAGES: Final = 1000  # a program that asks for this many is expected to continue reading
POLL_AHEAD_MESSAGES: Final = 8000  # fetched together for such a program
SEND_S: Final = 10.0  # for a frame that needs no answer
STOP_CLOCK_S: Final = 0.1  # how long an ack waits for another frame being sent to the owner


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
        """Send a request to the owner, and return its answer."""
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
        """Have the owner commit a transaction. Return its error if it refused."""
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
        return RemoteConsumer(self, connection, options, listener, timeout, context.holding)

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
            f"the store {path} is open in a process that does not serve other processes", fix="Close it there",
            backend="rocksmq",
        )  # fmt: skip
    return owner.socket


class RemoteConsumer:
    """A consumer of the owner process. Raises ``OwnerGone`` when that process has ended."""

    def __init__(
        self,
        store: RemoteConnection,
        connection: ClientConnection,
        options: ConsumerOptions,
        listener: Listener,
        timeout: float,
        holding: Mapping[Log, Sequence[Numbers]],
    ) -> None:
        self._store = store
        self._connection = connection
        self._listener = listener
        self._shares = options.shares
        self._asked = 0  # requests sent; each answer names the number of its request
        self._answered = 0
        self._events: deque[FrameHeader] = deque()  # received while the listener could not be called
        self._here: deque[Batch] = deque()
        self._paused: set[Log] = set()
        self._terms: dict[Log, int] = {}  # as the consumer in the owner process counts them
        self._taken = 0
        try:
            request = {
                "call": "consume", "options": to_wire(options), "timeout": timeout, "holding": to_wire(holding)
            }  # fmt: skip
            answer = connection.ask(request, timeout=timeout + ANSWER_GRACE_S)[0]
            self._token, self.resumed = answer["token"], bool(answer["resumed"])
            self.still_holds: Callable[[], bool] | None = None
            if token := answer.get("membership"):
                self.still_holds = token_check(store.path, MemberToken(*token))
        except BaseException:
            connection.close()
            raise

    # polling -----------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        self._check_token()
        self._deliver_events()
        if not (ready := self._take(most)) and self._is_up_to_date(timeout) and not self._here:
            wanted = most if self._shares or most < MANY_MESSAGES else POLL_AHEAD_MESSAGES
            batch = max(most, MANY_MESSAGES)
            self._request({"call": "poll", "most": wanted, "batch": batch, "timeout": timeout}, timeout)
            ready = self._take(most)
        ready = ready or self._take(most)
        self._check_token()  # this process may have been suspended since the owner answered
        return ready

    def _check_token(self) -> None:
        """Raise ``OwnerGone`` if others may have this member's logs, so that it hands out no more of their messages."""
        if self.still_holds is not None and not self.still_holds():
            raise OwnerGone

    def tend(self, timeout: float) -> None:
        self._check_token()
        self._deliver_events()
        if self._is_up_to_date(timeout):
            self._request({"call": "tend", "timeout": timeout}, timeout)

    def _request(self, request: FrameHeader, timeout: float, *, events: bool = True) -> bool:
        """Send a request and wait. Return False if the answer did not come in time."""
        deadline = Deadline(timeout + ANSWER_GRACE_S)
        self._asked += 1
        number = self._asked
        self._connection.send_frame({**request, "number": number}, timeout=timeout + ANSWER_GRACE_S)
        return self._await(number, deadline, events=events)

    def _is_up_to_date(self, timeout: float) -> bool:
        """Return whether every request was answered, after a wait for an overdue answer."""
        try:
            return self._answered == self._asked or self._await(self._asked, Deadline(timeout), events=True)
        except OwnerGone:
            raise
        except Error:  # its call has ended already
            return True

    def _await(self, number: int, deadline: Deadline, *, events: bool) -> bool:
        """Read frames until this request is answered. Return False if that takes too long."""
        while frame := self._connection.receive_frame(deadline.remaining()):
            header, body = frame
            if "event" in header:
                if events:
                    self._deliver(header)
                else:
                    self._events.append(header)
                continue
            self._answered = max(self._answered, header["number"])
            if "batches" in header:
                self._here += unpack_batches(header["batches"], body)
            if header["number"] == number:
                raise_error_in(header)
                return True
        return False

    def _take(self, most: int) -> list[Batch]:
        """Hand out fetched batches, except batches of paused logs."""
        taken: list[Batch] = []
        kept: deque[Batch] = deque()
        while self._here and most > 0:
            batch = self._here.popleft()
            if batch.log in self._paused:
                kept.append(batch)
                continue
            if len(batch) > most:
                self._here.appendleft(batch[most:])
                batch = batch[:most]
            taken.append(batch)
            most -= len(batch)
        kept.extend(self._here)
        self._here = kept
        return taken

    def _deliver(self, event: FrameHeader) -> None:
        """Call the listener. Only inside ``poll`` and ``tend``."""
        match event["event"]:
            case "assigned":
                positions = from_wire(event["positions"])
                self._taken += 1
                self._terms |= dict.fromkeys(positions, self._taken)
                self._listener.assigned(positions)
            case "revoked":
                logs = from_wire(event["logs"])
                self._end_terms(logs)
                positions = self._listener.revoked(logs)
                self._drop(logs)
                self._paused -= set(logs)
                self._connection.send_frame({"call": "revoked", "positions": to_wire(positions)}, timeout=SEND_S)
            case "lost":
                logs = from_wire(event["logs"])
                self._end_terms(logs)
                self._listener.lost(logs)
                self._drop(logs)

    def _end_terms(self, logs: Sequence[Log]) -> None:
        for log in logs:
            self._terms.pop(log, None)

    def membership(self) -> RemoteMembership:
        """Return proof for a transaction that this member still holds its logs."""
        return RemoteMembership(self._token, dict(self._terms))

    def _deliver_events(self) -> None:
        while self._events:
            self._deliver(self._events.popleft())

    def _drop(self, logs: Sequence[Log]) -> None:
        gone = set(logs)
        self._here = deque(batch for batch in self._here if batch.log not in gone)

    def wake(self) -> None:
        self._connection.send_frame_nowait({"call": "wake"})

    # moving ------------------------------------------------------------------------------------------------

    def pause(self, logs: Sequence[Log]) -> None:
        self._paused |= set(logs)
        self._connection.send_frame({"call": "pause", "logs": to_wire(list(logs))}, timeout=SEND_S)

    def resume(self, logs: Sequence[Log]) -> None:
        self._paused -= set(logs)
        self._connection.send_frame({"call": "resume", "logs": to_wire(list(logs))}, timeout=SEND_S)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._move("seek", positions, timeout)
        self._drop(list(positions))

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Switch to reading these logs."""
        self._drop(list({batch.log for batch in self._here}.difference(options.logs)))
        self._ask_there({"call": "follow", "options": to_wire(options), "timeout": timeout}, timeout)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count removed messages before these positions as acked. Nothing else changes."""
        self._move("pass_over", positions, timeout)

    def _move(self, call: str, positions: Mapping[Log, Position], timeout: float) -> None:
        self._ask_there({"call": call, "positions": to_wire(positions), "timeout": timeout}, timeout)

    def _ask_there(self, request: FrameHeader, timeout: float) -> None:
        if not self._request(request, timeout, events=False):
            raise Timeout(f"the owner of the store did not answer within {timeout:g} s", backend="rocksmq")

    # storing -----------------------------------------------------------------------------------------------

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        if positions:
            self._store.ask("commit", self._token, positions, timeout=timeout)

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Keep a message leased until it is settled."""
        request = {"call": "stop_clock", "log": to_wire(log), "coordinates": coordinates}
        self._connection.send_frame_nowait(request, turn=STOP_CLOCK_S)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int:
        """Store acks and returns. Return how many acks are late."""
        late: int = self._store.ask("settle", self._token, settled, timeout=timeout)
        return late

    def close(self, timeout: float) -> None:
        deadline = Deadline(timeout)
        try:
            with suppress(Error):
                self._connection.send_frame({"call": "close", "timeout": timeout}, timeout=timeout + ANSWER_GRACE_S)
                while (frame := self._connection.receive_frame(deadline.remaining())) is not None:
                    if "closed" in frame[0]:
                        break
        finally:
            self._connection.close()
