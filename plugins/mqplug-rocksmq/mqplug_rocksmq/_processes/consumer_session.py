"""A consumer of another process: it lives here, in the owner of the store, as long as its connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mqplug import Batch, ConnectError, Error, Log
from mqplug.spi import GroupPosition
from mqplug_rocksmq._driver.shared_member import JoinContext
from mqplug_rocksmq._processes.batch_codec import pack_batches
from mqplug_rocksmq._processes.codec import error_to_json, from_json, to_json
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.session import SessionConnection

MAX_POLL_WAIT_S: Final = 5.0
REVOKE_ANSWER_S: Final = 30.0
MAX_ANSWER_BYTES: Final = 1 << 20
FULL_POLL_MESSAGES: Final = 100  # messages; where fewer came, they were the last ones


class ConsumerSession:
    """Does with the consumer's driver what the other process asks for, one request after the other."""

    def __init__(self, guest: SessionConnection, request: FrameHeader) -> None:
        self._guest = guest
        self._server = guest.server
        options = from_json(request["options"])
        self._shares = options.shares
        self._left = False
        # A member is heard of every second or so, whatever it is at work with: its client sees to that.
        self.silence: float | None = None if options.group is None else self._server.store.settings.session_timeout
        self.driver: Any = self._server.home.open_consumer(
            options, self, float(request["timeout"]), _join_context(request)
        )
        self._token = self._server.consumers.add(self.driver)
        self._membership = self._server.memberships.admit() if options.group is not None else None
        try:
            guest.say({"token": self._token, "resumed": self.driver.resumed, "membership": self._membership})
        except OSError:
            self.leave(for_good=True)
            raise

    def serve(self, header: FrameHeader, body: bytes) -> None:
        """Carry out one request."""
        match header["call"]:
            case "poll":
                self._poll(header["number"], int(header["most"]), float(header["timeout"]))
            case "wake":
                """It ended a wait by its coming."""
            case "pause":
                self.driver.pause(from_json(header["logs"]))
            case "resume":
                self.driver.resume(from_json(header["logs"]))
            case "close":
                self.leave(for_good=True)
                self._guest.say({"closed": True})
                self._guest.hang_up()
            case "tend":
                self._answered(header, lambda: self.driver.tend(float(header["timeout"])))
            case "seek":
                self._answered(
                    header, lambda: self.driver.seek(from_json(header["positions"]), float(header["timeout"]))
                )
            case "pass_over":
                positions, timeout = from_json(header["positions"]), float(header["timeout"])
                self._answered(header, lambda: self.driver.pass_over(positions, timeout))
            case other:
                raise ConnectError(f"a consumer does not understand {other!r}")

    def _answered(self, request: FrameHeader, action: Callable[[], None]) -> None:
        answer: FrameHeader = {"number": request["number"]}
        try:
            action()
        except Exception as error:  # noqa: BLE001 - it is raised at the other side
            answer["error"] = error_to_json(error)
        self._guest.say(answer)

    def _poll(self, number: int, most: int, timeout: float) -> None:
        try:
            batches = self._gather(self.driver.poll(most, 0), most)
            if not batches and timeout > 0 and not self._guest.more_came:
                self._wait(number, most, min(timeout, MAX_POLL_WAIT_S))
                return
        except Exception as error:  # noqa: BLE001 - it is raised at the other side
            self._refuse(number, error)
            return
        self._hand_over(number, batches)

    def _wait(self, number: int, most: int, timeout: float) -> None:
        """Answer as soon as there is something; what comes from the guest meanwhile ends the wait."""
        with self._server.watch.over(self._guest.fileno(), self.driver.wake):
            try:
                batches = self._gather(self.driver.poll(most, timeout), most)
            except Exception as error:  # noqa: BLE001 - the same
                self._refuse(number, error)
            else:
                self._hand_over(number, batches)  # before all else: somebody waits for it

    def _hand_over(self, number: int, batches: Sequence[Batch]) -> None:
        headers, pages = pack_batches(batches, attempts=self._shares)
        self._guest.say({"number": number, "batches": headers}, *pages)

    def _refuse(self, number: int, error: Exception) -> None:
        self._guest.say({"number": number, "error": error_to_json(error)})

    def _gather(self, batches: Sequence[Batch], most: int) -> Sequence[Batch]:
        """Take more along where so much came that there may be more."""
        came = sum(map(len, batches))
        if self._shares or came < FULL_POLL_MESSAGES:
            return batches
        found, count, size = [*batches], came, _size(batches)
        while came and count < most and size < MAX_ANSWER_BYTES:
            try:
                more = self.driver.poll(most - count, 0)
            except Error:
                break  # it comes again when this was delivered
            found += more
            came = sum(map(len, more))
            count += came
            size += _size(more)
        return found

    # what the driver tells ---------------------------------------------------------------------------------

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        self._guest.say({"event": "assigned", "positions": to_json(positions)})

    def lost(self, logs: Sequence[Log]) -> None:
        self._guest.say({"event": "lost", "logs": to_json(list(logs))})

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        if self._left:
            return {}
        self._guest.say({"event": "revoked", "logs": to_json(list(logs))})
        try:
            return self._hear_positions(time.monotonic() + (self.silence or REVOKE_ANSWER_S))
        except TimeoutError:
            self._guest.hang_up()  # others wait for what it holds
            raise

    def _hear_positions(self, end: float) -> Mapping[Log, GroupPosition]:
        while frame := self._guest.hear(max(0.001, end - time.monotonic())):
            if frame[0]["call"] == "revoked":
                positions: Mapping[Log, GroupPosition] = from_json(frame[0]["positions"])
                return positions
            self.serve(*frame)  # what the member's callback does
        raise ConnectionResetError("the member is gone")

    def leave(self, *, for_good: bool) -> None:
        if not self._left:
            self._left = True
            self._server.consumers.remove(self._token)
            if self._membership is not None:  # before others get what it holds
                self._server.memberships.end(self._membership)
            self.driver.close(REVOKE_ANSWER_S)


def _join_context(request: FrameHeader) -> JoinContext:
    """What the member brings along."""
    return JoinContext(from_json(request["holding"]), elsewhere=True)


def _size(batches: Sequence[Batch]) -> int:
    """About how many bytes these are."""
    slices = [part for batch in batches for part in getattr(batch, "slices", ())]
    return sum(part.page.size for part in slices)
