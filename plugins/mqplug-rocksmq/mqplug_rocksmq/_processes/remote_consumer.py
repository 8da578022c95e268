"""A consumer that lives in the process that owns the store, and is used from this one.

Each call is one request and one answer on a connection of its own, whose end is the end of its membership. What the
owner has to tell the listener comes before the answer of the poll or tend that it happens in.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from mqplug import Batch, Error, Log, Position, Timeout
from mqplug.spi import ConsumerOptions, GroupPosition, Listener, Numbers, Settlement
from mqplug_rocksmq._processes.batch_codec import unpack_batches
from mqplug_rocksmq._processes.client_connection import ClientConnection, OwnerGone, raise_refusal
from mqplug_rocksmq._processes.codec import from_json, to_json
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.member_tokens import MemberToken, token_check

POLL_AHEAD_MESSAGES: Final = 8000  # messages that are taken along when at least as many as a page has are wanted
ANSWER_GRACE_S: Final = 0.1


class AskOwner(Protocol):
    """Has the owner do something, on another connection."""

    def __call__(self, call: str, *arguments: Any, timeout: float) -> Any: ...


class RemoteConsumer:
    """Speaks for a consumer in the owner's process. ``OwnerGone`` when there is no owner any more."""

    def __init__(
        self,
        ask: AskOwner,
        link: ClientConnection,
        path: Path,
        options: ConsumerOptions,
        listener: Listener,
        timeout: float,
        holding: Mapping[Log, Sequence[Numbers]],
    ) -> None:
        self._ask = ask
        self._link = link
        self._listener = listener
        self._shares = options.shares
        self._asked = 0  # requests so far: each answer names its request
        self._answered = 0
        self._told: deque[FrameHeader] = deque()  # what came for the listener while it could not be told
        self._here: deque[Batch] = deque()
        self._paused: set[Log] = set()
        try:
            request = {
                "call": "consume", "options": to_json(options), "timeout": timeout, "holding": to_json(holding)
            }  # fmt: skip
            answer = link.ask(request, timeout=timeout + ANSWER_GRACE_S)[0]
            self._token, self.resumed = answer["token"], bool(answer["resumed"])
            self.still_holds: Callable[[], bool] | None = None
            if membership := answer.get("membership"):
                self.still_holds = token_check(path, MemberToken(*membership))
        except BaseException:
            link.close()
            raise

    # polling -----------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        self._check_membership()
        self._tell_all()
        if not (ready := self._take(most)) and self._is_up_to_date(timeout) and not self._here:
            wanted = most if self._shares or most < 1000 else POLL_AHEAD_MESSAGES
            self._request({"call": "poll", "most": wanted, "timeout": timeout}, timeout)
            ready = self._take(most)
        ready = ready or self._take(most)
        self._check_membership()  # this process may have been stopped since the owner answered
        return ready

    def _check_membership(self) -> None:
        """Raise ``OwnerGone`` where others may have what this member held: of that nothing more is handed out."""
        if self.still_holds is not None and not self.still_holds():
            raise OwnerGone

    def tend(self, timeout: float) -> None:
        self._check_membership()
        self._tell_all()
        if self._is_up_to_date(timeout):
            self._request({"call": "tend", "timeout": timeout}, timeout)

    def _request(self, request: FrameHeader, timeout: float, *, tells: bool = True) -> bool:
        """Ask for something and wait; False if the answer did not come in time."""
        end = time.monotonic() + timeout + ANSWER_GRACE_S
        self._asked += 1
        number = self._asked
        self._link.say({**request, "number": number}, timeout=timeout + ANSWER_GRACE_S)
        return self._await(number, end, tells=tells)

    def _is_up_to_date(self, timeout: float) -> bool:
        """Whether everything was answered; what was asked for in vain is waited for."""
        try:
            return self._answered == self._asked or self._await(self._asked, time.monotonic() + timeout, tells=True)
        except OwnerGone:
            raise
        except Error:  # it was meant for a call that is over
            return True

    def _await(self, number: int, end: float, *, tells: bool) -> bool:
        """Take in what comes until this request is answered; False if that is not in time."""
        while frame := self._link.hear(max(0.0, end - time.monotonic())):
            header, body = frame
            if "event" in header:
                if tells:
                    self._tell(header)
                else:
                    self._told.append(header)
                continue
            self._answered = max(self._answered, header["number"])
            if "batches" in header:
                self._here += unpack_batches(header["batches"], body)
            if header["number"] == number:
                raise_refusal(header)
                return True
        return False

    def _take(self, most: int) -> list[Batch]:
        """Hand out what is here, but for what is paused."""
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

    def _tell(self, header: FrameHeader) -> None:
        """Tell the listener; only inside ``poll`` and ``tend``."""
        match header["event"]:
            case "assigned":
                self._listener.assigned(from_json(header["positions"]))
            case "revoked":
                logs = from_json(header["logs"])
                positions = self._listener.revoked(logs)
                self._drop(logs)
                self._paused -= set(logs)
                self._link.say({"call": "revoked", "positions": to_json(positions)}, timeout=10)
            case "lost":
                logs = from_json(header["logs"])
                self._listener.lost(logs)
                self._drop(logs)

    def _tell_all(self) -> None:
        while self._told:
            self._tell(self._told.popleft())

    def _drop(self, logs: Sequence[Log]) -> None:
        gone = set(logs)
        self._here = deque(batch for batch in self._here if batch.log not in gone)

    def wake(self) -> None:
        self._link.nudge({"call": "wake"})

    # moving ------------------------------------------------------------------------------------------------

    def pause(self, logs: Sequence[Log]) -> None:
        self._paused |= set(logs)
        self._link.say({"call": "pause", "logs": to_json(list(logs))}, timeout=10)

    def resume(self, logs: Sequence[Log]) -> None:
        self._paused -= set(logs)
        self._link.say({"call": "resume", "logs": to_json(list(logs))}, timeout=10)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._move("seek", positions, timeout)
        self._drop(list(positions))

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """What lies before was removed, and counts as acked; all else stays as it is."""
        self._move("pass_over", positions, timeout)

    def _move(self, call: str, positions: Mapping[Log, Position], timeout: float) -> None:
        request = {"call": call, "positions": to_json(positions), "timeout": timeout}
        if not self._request(request, timeout, tells=False):
            raise Timeout("the owner of the store did not answer in time", backend="rocksmq")

    # storing -----------------------------------------------------------------------------------------------

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        if positions:
            self._ask("commit", self._token, positions, timeout=timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Store what became of messages."""
        self._ask("settle", self._token, settled, timeout=timeout)

    def close(self, timeout: float) -> None:
        try:
            with suppress(Error):
                self._link.say({"call": "close", "timeout": timeout}, timeout=timeout + ANSWER_GRACE_S)
                end = time.monotonic() + timeout
                while (frame := self._link.hear(max(0.0, end - time.monotonic()))) is not None:
                    if "closed" in frame[0]:
                        break
        finally:
            self._link.close()
