"""The context that all actors of a run share: topic, time, recorder, and how to connect."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition, Event
from typing import Protocol

from mqplug import Client, Error, MessageId
from mqplug.spi import Deadline
from mqplug_testing._harness.harness import Harness
from mqplug_testing.history._actors.plan import Plan
from mqplug_testing.history._events.events import UnexpectedError
from mqplug_testing.history._events.recorder import HistoryRecorder

SESSION_RETRY_S = 0.05  # pause after a failure


class Actor(Protocol):
    """A client of one kind, which works session after session."""

    name: str

    def session(self) -> None:
        """Connect, work for a while, and leave. An ``Error`` ends a session, and the next one begins."""
        ...


class RunContext:
    """The topic and the time of a run, and how to reach the backend."""

    def __init__(self, harness: Harness, plan: Plan, topic: str, extensions: Sequence[object] = ()) -> None:
        self.harness = harness
        self.plan = plan
        self.topic = topic
        self.recorder = HistoryRecorder(plan.limit)
        self.barrier = EmptyingBarrier()
        self.partitions = plan.partitions
        self.stored: deque[MessageId] = deque(maxlen=2000)  # the newest ids that producers got
        self._extensions = extensions
        self._connections = 0
        self._over = Event()

    @contextmanager
    def connected(self) -> Iterator[Client]:
        """Yield a new client. Errors of closing it are ignored."""
        client = self._connect()
        try:
            yield client
        finally:
            with suppress(Error):
                client.close(10)

    def _connect(self) -> Client:
        """Connect in one of the ways of the harness: some clients are behind the network that can be cut."""
        if self._extensions and self.harness.extended is not None:
            return self.harness.extended(self._extensions)
        self._connections += 1
        if self.harness.behind_network is not None and self._connections % 2:
            return self.harness.behind_network()
        return self.harness.connect()

    # time --------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the run continues."""
        return not self._over.is_set() and not self.recorder.full

    def continues(self, until: Deadline) -> bool:
        """Return whether an actor that planned to stay until then continues."""
        return self.running and not self.barrier.shut and not until.expired

    def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond the end of the run."""
        self._over.wait(seconds)

    def end(self) -> None:
        """End the run: all actors leave."""
        self._over.set()

    # acting ------------------------------------------------------------------------------------------------

    def perform(self, actor: Actor) -> None:
        """Run one actor to the end of the run. Only errors of mqplug are expected there."""
        try:
            while self.running:
                with suppress(Error), self.barrier.passing():
                    actor.session()
                self.sleep(SESSION_RETRY_S)
        except Exception as error:  # noqa: BLE001 - any other error is a finding
            self.recorder.add(actor.name, UnexpectedError(f"{type(error).__name__}: {error}"))


class EmptyingBarrier:
    """A barrier that lets actors in, except while all must be out because the backend is stopped cleanly."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self.shut = False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Be inside for the block, once that is allowed."""
        with self._changed:
            self._changed.wait_for(lambda: not self.shut)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def emptied(self, timeout: float) -> Iterator[bool]:
        """Keep all actors out for the block. Yield False if some did not leave in time."""
        with self._changed:
            self.shut = True
            empty = self._changed.wait_for(lambda: not self._inside, timeout)
        try:
            yield empty
        finally:
            with self._changed:
                self.shut = False
                self._changed.notify_all()
