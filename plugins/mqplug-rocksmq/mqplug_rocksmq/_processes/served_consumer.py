"""A client process's consumer in the owner: it lives as long as its connection.

The thread that stores a message can answer a poll that waits here. That saves two thread switches per message: waking
the poll's own thread, and giving it the interpreter's lock.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mqplug import Batch, ConnectError, Error, Log
from mqplug.spi import Bell, ConsumerOptions, Deadline, GroupPosition
from mqplug_rocksmq._driver.consumer import JoinContext
from mqplug_rocksmq._processes.codec import error_to_wire, from_wire, pack_batches, to_wire
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.owner_services import UNCOUNTED_BYTES, SessionConnection

MAX_POLL_WAIT_S: Final = 5.0
REVOKE_ANSWER_S: Final = 30.0
MAX_ANSWER_BYTES: Final = 1 << 20
BATCH_MESSAGES: Final = 1000  # in one batch, unless the client's program wants more at a time
FULL_POLL_MESSAGES: Final = 100  # a read that returns fewer has probably reached the end
_log = logging.getLogger("mqplug.rocksmq")


class PollBell(Bell):
    """Wakes a waiting poll, as bytes from its client do. *answer* may use the poll's consumer during that wait."""

    __slots__ = ("_answer", "_awake", "_poll", "_ringing", "_rings", "_rung")

    def __init__(self, connection: int, answer: Callable[[], bool]) -> None:
        super().__init__()
        self._answer = answer
        self._awake = threading.Lock()  # held by the thread that may use the consumer
        self._awake.acquire()
        self._ringing = threading.Lock()
        self._rung = False
        self._rings: int | None = os.eventfd(0)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(self._rings, select.POLLIN)

    def ring(self) -> None:
        if _held.bells is not None:
            _held.bells.append(self)
        elif not self._rung:
            with self._ringing:
                if self._rings is not None and not self._rung:
                    self._rung = True
                    os.eventfd_write(self._rings, 1)

    def wait(self, timeout: float | None) -> bool:
        """Wait for a ring, or for bytes from the client. Return whether it rang."""
        self._awake.release()
        try:
            self._poll.poll(None if timeout is None else 1000 * timeout)
        finally:
            self._awake.acquire()  # once an answer in progress is done
        with self._ringing:
            rung, self._rung = self._rung, False
            if rung and self._rings is not None:
                os.eventfd_read(self._rings)
        return rung

    def answer(self) -> bool:
        """Answer the poll in this thread. Return False if its own thread must do it."""
        if self._awake.acquire(blocking=False):
            try:
                return self._answer()
            finally:
                self._awake.release()
        return False

    def close(self) -> None:
        """Release the bell. It may still be rung."""
        with self._ringing:
            if self._rings is not None:
                os.close(self._rings)
                self._rings = None


class _HeldRings(threading.local):
    """The bells that this thread rang while it holds rings back."""

    bells: list[PollBell] | None = None


_held: Final = _HeldRings()


def hold_rings() -> None:
    """Hold back the rings of this thread until ``ring_held``."""
    _held.bells = []


def answer_first() -> None:
    """Answer the first poll whose bell this thread holds back. The others wait until the sender has its own answer."""
    if (bells := _held.bells) and bells[0].answer():
        del bells[0]


def ring_held() -> None:
    """Answer the other polls, and wake the threads of those that need it."""
    bells, _held.bells = _held.bells, None
    for bell in bells or ():
        if not bell.answer():
            bell.ring()


WaitingPoll = tuple[int, tuple[int, int]]
"""The number of an unanswered poll, and how many messages it wants: in all, and in one batch."""


class ServedConsumer:
    """Carries out the client's requests with a consumer driver, one after the other."""

    def __init__(self, connection: SessionConnection, request: FrameHeader) -> None:
        self._connection = connection
        self._server = connection.server
        options: ConsumerOptions = from_wire(request["options"])
        self._shares = options.shares
        self._left = False
        # The client of a member sends something every second or so, even while its program is busy.
        self.silence: float | None = None if options.group is None else self._server.store.settings.session_timeout
        self._waiting: WaitingPoll | None = None
        self._found: tuple[FrameHeader, list[bytes]] | None = None  # its answer, if another thread cannot send it
        self._bell = PollBell(connection.fileno(), self._answer_waiting)
        context = JoinContext(from_wire(request["holding"]), self._bell, connection.process)
        try:
            self.driver: Any = self._server.store_connection.open_consumer(
                options, self, float(request["timeout"]), context
            )
        except BaseException:
            self._bell.close()
            raise
        self._token = self._server.consumers.add(self.driver)
        self._member_token = self._server.member_tokens.admit() if options.group is not None else None
        try:
            connection.send_frame(
                {"token": self._token, "resumed": self.driver.resumed, "membership": self._member_token}
            )
        except OSError:
            self.leave(for_good=True)
            raise

    def serve(self, header: FrameHeader, body: bytes) -> None:
        """Carry out one request."""
        match header["call"]:
            case "poll":
                wanted = int(header["most"]), max(1, int(header.get("batch", BATCH_MESSAGES)))
                self._poll(header["number"], wanted, float(header["timeout"]))
            case "wake":
                """Its arrival has ended a wait."""
            case "pause":
                self.driver.pause(from_wire(header["logs"]))
            case "resume":
                self.driver.resume(from_wire(header["logs"]))
            case "close":
                self.leave(for_good=True)
                self._connection.send_frame({"closed": True})
                self._connection.hang_up()
            case "tend":
                self._answer(header, lambda: self.driver.tend(float(header["timeout"])))
            case "seek":
                positions, timeout = from_wire(header["positions"]), float(header["timeout"])
                self._answer(header, lambda: self.driver.seek(positions, timeout))
            case "follow":
                wanted, timeout = from_wire(header["options"]), float(header["timeout"])
                self._answer(header, lambda: self.driver.follow(wanted, timeout))
            case "stop_clock":
                self.driver.stop_clock(from_wire(header["log"]), tuple(header["coordinates"]))
            case "pass_over":
                positions, timeout = from_wire(header["positions"]), float(header["timeout"])
                self._answer(header, lambda: self.driver.pass_over(positions, timeout))
            case other:
                raise ConnectError(f"{other!r} is not a request of a consumer")

    def _answer(self, request: FrameHeader, action: Callable[[], None]) -> None:
        answer: FrameHeader = {"number": request["number"]}
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the client raises it
            answer["error"] = error_to_wire(error)
        self._connection.send_frame(answer)

    def _poll(self, number: int, wanted: tuple[int, int], timeout: float) -> None:
        """Answer with messages. *wanted* is the maximum in all, and in one batch."""
        try:
            self.driver.tend(0)
            batches = self._gather(*wanted)
        except Exception as error:  # noqa: BLE001 - the client raises it
            self._refuse(number, error)
            return
        if batches or timeout <= 0 or self._connection.more_came:
            self._answer_poll(number, batches)
        else:
            self._wait(number, wanted, min(timeout, MAX_POLL_WAIT_S))

    def _wait(self, number: int, wanted: tuple[int, int], timeout: float) -> None:
        """Answer as soon as messages arrive. Anything that the client sends ends the wait."""
        self._waiting = number, wanted
        self.driver.wait(timeout)
        if self._take_waiting() is None:
            return  # answered by the thread that stored the messages
        if self._found is not None:
            found, self._found = self._found, None
            self._connection.send_frame(found[0], *found[1])
        else:
            self._poll(number, wanted, 0)

    def _take_waiting(self) -> WaitingPoll | None:
        waiting, self._waiting = self._waiting, None
        return waiting

    def _answer_waiting(self) -> bool:
        """Answer the poll that waits from another thread, which must not wait for the client.

        Return False if the session's own thread must read or answer.
        """
        if self._waiting is None or self._found is not None:
            return False
        number, wanted = self._waiting
        try:
            batches = self._gather(*wanted)
        except Exception:  # noqa: BLE001 - the session's own thread gets the same error, and reports it
            return False
        if not batches:
            return True
        try:
            header, pages = self._poll_answer(number, batches)
            if sum(map(len, pages)) > UNCOUNTED_BYTES:  # it may have to wait for memory, and for the client
                self._found = header, pages
                return False
            self._waiting = None
            self._connection.send_frame_nowait(header, *pages)
        except Exception:  # noqa: BLE001 - the calling thread has its own work
            self._connection.hang_up()  # these messages are delivered again when the client has reconnected
            _log.exception("store %s: sending messages to a client process failed", self._server.store.path)
        return True

    def _answer_poll(self, number: int, batches: Sequence[Batch]) -> None:
        header, pages = self._poll_answer(number, batches)
        self._connection.send_frame(header, *pages)

    def _poll_answer(self, number: int, batches: Sequence[Batch]) -> tuple[FrameHeader, list[bytes]]:
        headers, pages = pack_batches(batches, attempts=self._shares)
        return {"number": number, "batches": headers}, pages

    def _refuse(self, number: int, error: Exception) -> None:
        self._connection.send_frame({"number": number, "error": error_to_wire(error)})

    def _gather(self, most: int, batch: int) -> list[Batch]:
        """Read messages, and continue while the numbers read suggest that there are more."""
        found = [*self.driver.read(min(most, batch))]
        came = count = sum(map(len, found))
        if self._shares or came < FULL_POLL_MESSAGES:
            return found
        size = _size(found)
        while came and count < most and size < MAX_ANSWER_BYTES:
            try:
                more = self.driver.read(min(most - count, batch))
            except Error:
                break  # the poll after this answer raises it again
            found += more
            came = sum(map(len, more))
            count += came
            size += _size(more)
        return found

    # the driver's listener ---------------------------------------------------------------------------------

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        self._connection.send_frame({"event": "assigned", "positions": to_wire(positions)})

    def lost(self, logs: Sequence[Log]) -> None:
        self._connection.send_frame({"event": "lost", "logs": to_wire(list(logs))})

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        if self._left:
            return {}
        self._connection.send_frame({"event": "revoked", "logs": to_wire(list(logs))})
        try:
            return self._receive_positions(Deadline(self.silence or REVOKE_ANSWER_S))
        except TimeoutError:
            self._connection.hang_up()  # others wait for its partitions
            raise

    def _receive_positions(self, deadline: Deadline) -> Mapping[Log, GroupPosition]:
        while frame := self._connection.receive_frame(max(0.001, deadline.remaining())):
            if frame[0]["call"] == "revoked":
                positions: Mapping[Log, GroupPosition] = from_wire(frame[0]["positions"])
                return positions
            self.serve(*frame)  # requests from the member's callback
        raise ConnectionResetError("the member is gone")

    def leave(self, *, for_good: bool) -> None:
        if not self._left:
            self._left = True
            self._server.consumers.remove(self._token)
            if self._member_token is not None:  # before others get its partitions
                self._server.member_tokens.end(self._member_token)
            try:
                self.driver.close(REVOKE_ANSWER_S)
            finally:
                self._bell.close()


def _size(batches: Sequence[Batch]) -> int:
    """Return the approximate size of these batches in bytes."""
    slices = [part for batch in batches for part in getattr(batch, "slices", ())]
    return sum(part.page.size for part in slices)
