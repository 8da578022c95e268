"""What all actors of a run share: the plan with its rates, topic, time, recorder, and how to connect."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from threading import Condition, Event
from typing import Protocol

import attrs

from mqplug import Client, Error, MessageId
from mqplug.spi import Deadline
from mqplug_testing._harness.harness import Harness
from mqplug_testing.history._events import UnexpectedError
from mqplug_testing.history._history import HistoryRecorder


@attrs.frozen(kw_only=True)
class Plan:
    """The length of a run, the number of its actors, and their rates.

    Each actor draws random numbers from the seed and its own name.

    ``rate`` is the maximum number of records that a producer sends per second. ``limit`` bounds the memory: a run ends
    early after this number of events. ``patience`` is how many seconds to wait at the end without any progress.
    """

    seconds: float = 60.0
    seed: str = "0"
    partitions: int = 3
    producers: int = 3
    members: int = 2
    readers: int = 2
    rate: float = 150.0
    limit: int = 400_000
    patience: float = 60.0

    def lots(self, name: str) -> Random:
        """Return the random numbers of one actor."""
        return Random(f"{self.seed}/{name}")

    @property
    def pace(self) -> float:
        """The seconds in which a few faults happen: those of the run, at most a minute."""
        return min(self.seconds, 60.0)

    def session(self, random: Random) -> float:
        """Draw the seconds that an actor works before it leaves and comes back."""
        return random.uniform(0.15, 0.4) * min(max(self.seconds, 1.0), 20.0)

    def smaller(self) -> Plan:
        """Return a plan with half of the actors, for half the time."""
        return attrs.evolve(
            self,
            seconds=max(self.seconds / 2, min(self.seconds, 1.0)),
            producers=max(self.producers // 2, 1),
            members=max(self.members // 2, 1),
            readers=self.readers // 2,
            partitions=max(self.partitions // 2, 1),
        )


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
        """Connect in one of the ways of the harness: some clients use the network that can be cut."""
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
        """Run one actor to the end of the run. Only errors of mqplug are expected."""
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
        """Be inside for the block, once the barrier is open."""
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
