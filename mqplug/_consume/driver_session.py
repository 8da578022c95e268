"""A consumer's driver: the lock for its calls, its lifetime, its outages, and the context of its errors."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Condition, Lock, get_ident
from typing import TYPE_CHECKING, Any

import attrs

from mqplug._base.deadline import Deadline
from mqplug._base.fork import ForkGuard
from mqplug._model.errors import Closed, ConcurrentUse, ConnectError, Timeout, Unsupported
from mqplug._plugins.backend import NO_TIMEOUT_S

if TYPE_CHECKING:
    from mqplug._consume.delivery import StillHolds
    from mqplug._model.id_text import Numbers
    from mqplug._model.log import Log
    from mqplug._model.names import Matching
    from mqplug._plugins.backend import Backend
    from mqplug.spi._actions import ConsumerOptions, GroupPosition, Settlement
    from mqplug.spi._drivers import ConsumerDriver, Listener


logger = logging.getLogger("mqplug.outage")

REPEAT_LINE_S = 30.0  # between two log lines about one outage


class DriverLock:
    """The lock for the calls of a consumer driver that may not overlap.

    ``receiver`` and ``holder`` are set to None in a ``finally`` that calls nothing before: Python raises Ctrl-C only
    where a function begins or has returned, and where a loop starts over.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self.sleepers = 0  # waiting threads: a poll notifies only if there are any
        self.holder: int | None = None  # the thread that calls the driver
        self.receiver: object = None  # the call that receives
        self._waiting = 0

    @property
    def busy(self) -> bool:
        """Whether a thread is receiving."""
        return self.receiver is not None

    def begin_receive(self, call: object) -> None:
        """Make this call the only one that receives. Raise ``ConcurrentUse`` at once if there is another."""
        with self._lock:
            if self.receiver is not None:
                raise ConcurrentUse("another thread is receiving from this consumer", operation="receive")
            self.receiver = call

    def enter_to_poll(self, me: int) -> None:
        """Hold the driver for one poll of this thread. Other waiting threads come first."""
        with self._lock:  # this thread may already hold the driver, if Ctrl-C came right after it was taken
            if self._waiting or self.holder not in {None, me}:
                self._changed.notify_all()
                self._sleep_until(lambda: self.holder in {None, me} and not self._waiting, None)
            self.holder = me

    @contextmanager
    def entering(self, wake: Callable[[], None], deadline: Deadline) -> Iterator[None]:
        """Hold the driver for any other call. A running poll is woken, and the next one waits."""
        if self.holder == get_ident():  # one of our callbacks runs inside this thread's poll
            yield
            return
        self._enter(wake, deadline)
        try:
            yield
        finally:
            self.holder = None
            self.notify()

    def _enter(self, wake: Callable[[], None], deadline: Deadline) -> None:
        with self._lock:
            self._waiting += 1
        try:
            if self.holder is not None:
                wake()
            with self._lock:
                if not self._sleep_until(lambda: self.holder is None, deadline.remaining(1e6)):
                    raise Timeout("the consumer's driver is busy: its call did not return in time", fix="Try again")
                self.holder = get_ident()
        finally:
            with self._lock:
                self._waiting -= 1
                self._changed.notify_all()

    def _sleep_until(self, possible: Callable[[], bool], timeout: float | None) -> bool:
        self.sleepers += 1
        try:
            return self._changed.wait_for(possible, timeout)
        finally:
            self.sleepers -= 1

    def notify(self) -> None:
        """Make the waiting threads check whether the driver is free."""
        with self._lock:
            self._changed.notify_all()


class Outage:
    """The outages of one consumer's server, which are logged here, so that drivers need not.

    A line says when the server stops answering, again every half minute, and when it answers again.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._logged_at = -math.inf
        self._logged = False  # whether the beginning was logged, and the end not yet
        self.ongoing = False  # whether the server was away at the last call

    def note(self, error: Exception | None) -> bool:
        """Note an error of a driver's call. Return whether it is logged here, and needs no other log line."""
        if not isinstance(error, ConnectError | Timeout):
            return False
        self.ongoing = True
        now = time.monotonic()
        if now - self._logged_at >= REPEAT_LINE_S:
            self._logged_at = now
            self._logged = True
            # Without the fix, which is for a caller that passed a timeout.
            logger.warning("%s: the server does not answer, retrying: %s", self._what, error.message)
        return True

    def end(self) -> None:
        """Note the success of a call that needed the server."""
        self.ongoing = False
        if self._logged:
            self._logged = False
            logger.warning("%s: the server answers again", self._what)


class DriverSession:
    """The ``driver`` of one consumer, opened on first use, and again after a release.

    ``group`` is None for a consumer without one. ``shares``: whether members read the same logs, message by message.
    """

    def __init__(self, backend: Backend, options: ConsumerOptions, listener: Listener) -> None:
        self.backend = backend
        self.connection = backend.connection
        self.options = options
        self.group = options.group
        self.shares = options.shares
        self.logs: list[Log] = list(options.logs)
        self.lock = DriverLock()
        self._fork = ForkGuard()
        self._forks = ForkGuard.forks  # compared at each poll
        self.closed = False
        self.pattern: Matching | None = None  # that chose the topics
        self._listener = listener
        self.driver: ConsumerDriver | None = None
        self.before_open: Callable[[Deadline], None] | None = None
        """Called before the driver is opened, until it succeeds once."""
        self.outage = Outage(f"a consumer of {self.topic}")

    @property
    def topic(self) -> str:
        """The topics, as errors name them."""
        if self.pattern is not None:
            return str(self.pattern)
        return ", ".join(sorted({log.topic for log in self.logs}))

    def where(self, operation: str) -> dict[str, Any]:
        """Return backend, topic and operation, for an error."""
        return {"backend": self.backend.name, "topic": self.topic, "operation": operation}

    def context(self, operation: str) -> AbstractContextManager[None]:
        """Add backend, topic and operation to errors raised within."""
        return self.backend.context(operation, self.topic)

    def check_open(self) -> None:
        """Raise ``Closed`` after close, ``ForkedClient`` in a child process."""
        if ForkGuard.forks != self._forks:
            self._fork.check()
        if self.closed:
            raise Closed("this consumer was closed", **self.where("use a consumer"))

    def require_group(self, operation: str) -> str:
        """Return the group. Raise ``Unsupported`` if there is none."""
        if self.group is None:
            raise Unsupported(
                "groups",
                f"a consumer without a group cannot {operation}",
                **self.where(operation),
                fix="Open the consumer with group=",
            )
        return self.group

    def open(self, deadline: Deadline) -> ConsumerDriver:
        """Return the driver, opened if necessary. The lock is held, or no other thread has this object yet."""
        if self.driver is None:
            self.check_open()
            if self.before_open is not None:
                self.before_open(deadline)
                self.before_open = None
            self.driver = self.backend.open_consumer(self.options, self._listener, deadline)
            self.options = attrs.evolve(self.options, must_exist=False)
        return self.driver

    def release(self) -> ConsumerDriver | None:
        """Return the driver, to be closed, and forget it."""
        driver, self.driver = self.driver, None
        return driver

    @property
    def still_holds(self) -> StillHolds | None:
        """A function that returns whether the logs still belong to this member; None where only a poll finds out."""
        return None if self.driver is None else self.driver.still_holds

    @property
    def is_open(self) -> bool:
        """Whether there is a driver now."""
        return self.driver is not None

    def wake(self) -> None:
        """Make a running poll return soon."""
        driver = self.driver
        if driver is not None:
            driver.wake()

    def entering(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Hold the driver for any call except a poll."""
        return self.lock.entering(self.wake, deadline)

    @property
    def has_clocks(self) -> bool:
        """Whether a message that this member has goes to another one after ``max_processing``."""
        return self.shares and self.options.max_processing is not None

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Let this member keep a message until it is settled."""
        driver = self.driver
        if driver is not None:
            driver.stop_clock(log, coordinates)

    def store(self, changes: Mapping[Log, GroupPosition | Settlement], deadline: Deadline) -> int:
        """Store acks durably. Return how many are late."""
        driver: Any = self.driver or self.open(deadline)
        store = driver.settle if self.shares else driver.commit
        try:
            late: int | None = store(changes, deadline.remaining(NO_TIMEOUT_S))
        except Exception as error:
            self.outage.note(error)
            with self.context("commit"):  # entered only for errors, as it costs time
                raise
        if self.outage.ongoing:
            self.outage.end()
        return late or 0

    def tend(self, timeout: float) -> None:
        """Stay a member while the caller is away. The lock is held. An outage is logged."""
        try:
            self.open(Deadline(timeout)).tend(timeout)
        except Exception as error:
            if not self.outage.note(error):
                raise
