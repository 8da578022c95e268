"""The stage: what all actors of a run share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition, Event
from typing import Protocol

from mqplug import Client, Error, MessageId
from mqplug.spi import Deadline
from mqplug.testing._harness.harness import Harness
from mqplug.testing.history._actors.plan import Plan
from mqplug.testing.history._events.events import UnexpectedError
from mqplug.testing.history._events.recorder import HistoryRecorder

REST = 0.05  # seconds after something failed


class Actor(Protocol):
    """Somebody who does things of one sort, session after session."""

    name: str

    def session(self) -> None:
        """Come, work for a while, and leave. An ``Error`` ends a session, and the next one begins."""
        ...


class RunContext:
    """The topic, the time, and how to reach the backend."""

    def __init__(self, harness: Harness, plan: Plan, topic: str, extensions: Sequence[object] = ()) -> None:
        self.harness = harness
        self.plan = plan
        self.topic = topic
        self.recorder = HistoryRecorder(plan.limit)
        self.turnstile = EmptyingBarrier()
        self.partitions = plan.partitions
        self.stored: deque[MessageId] = deque(maxlen=2000)  # the newest ids that producers were told
        self._extensions = extensions
        self._connections = 0
        self._over = Event()

    @contextmanager
    def connected(self) -> Iterator[Client]:
        """A client of its own for somebody; closing it is never what fails."""
        client = self._connect()
        try:
            yield client
        finally:
            with suppress(Error):
                client.close(10)

    def _connect(self) -> Client:
        """By any way that the harness has: some clients lie behind the network that can be cut."""
        if self._extensions and self.harness.extended is not None:
            return self.harness.extended(self._extensions)
        self._connections += 1
        if self.harness.behind_network is not None and self._connections % 2:
            return self.harness.behind_network()
        return self.harness.connect()

    # time --------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether work goes on."""
        return not self._over.is_set() and not self.recorder.full

    def stays(self, until: Deadline) -> bool:
        """Whether somebody who wanted to stay until then goes on."""
        return self.running and not self.turnstile.shut and not until.expired

    def nap(self, seconds: float) -> None:
        """Rest, but not longer than the run."""
        self._over.wait(seconds)

    def end(self) -> None:
        """Call all actors back."""
        self._over.set()

    # acting ------------------------------------------------------------------------------------------------

    def perform(self, actor: Actor) -> None:
        """One actor's work, from beginning to end. Only what mqplug raises is to be met there."""
        try:
            while self.running:
                with suppress(Error), self.turnstile.passing():
                    actor.session()
                self.nap(REST)
        except Exception as error:  # noqa: BLE001 - any other error is a find
            self.recorder.add(actor.name, UnexpectedError(f"{type(error).__name__}: {error}"))


class EmptyingBarrier:
    """Lets actors in, unless the place has to be empty, as it has while the backend is stopped cleanly."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self.shut = False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Be inside, once that is allowed."""
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
        """Nobody is inside; False if somebody did not leave in time."""
        with self._changed:
            self.shut = True
            empty = self._changed.wait_for(lambda: not self._inside, timeout)
        try:
            yield empty
        finally:
            with self._changed:
                self.shut = False
                self._changed.notify_all()
