"""A consumer's hold of its driver: who may touch it, what its errors say, and when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import attrs

from mqplug._base.deadline import Deadline
from mqplug._base.fork import ForkGuard
from mqplug._base.outage import Outage
from mqplug._consume.driver_lock import DriverLock
from mqplug._model.errors import Closed, Unsupported
from mqplug._plugins.backend import NO_TIMEOUT_S
from mqplug.spi._drivers import knows_losses

if TYPE_CHECKING:
    from mqplug._consume.delivery import StillHolds
    from mqplug._model.log import Log
    from mqplug._plugins.backend import Backend
    from mqplug.spi._actions import ConsumerOptions, GroupPosition, Settlement
    from mqplug.spi._drivers import Connection, ConsumerDriver, Listener, LossAwareConsumerDriver


class DriverSession:
    """The ``driver`` of one consumer, opened when it is first needed, and again after it was let go.

    ``group`` is None where there is none; ``shares`` says whether the members read the same logs, message by message.
    """

    def __init__(self, backend: Backend, connection: Connection, options: ConsumerOptions, listener: Listener) -> None:
        self.backend = backend
        self.connection = connection
        self.options = options
        self.group = options.group
        self.shares = options.shares
        self.logs: list[Log] = list(options.logs)
        self.lock = DriverLock()
        self.fork = ForkGuard()
        self.closed = False
        self._listener = listener
        self.driver: ConsumerDriver | None = None
        self._loss_aware: LossAwareConsumerDriver | None = None  # the same driver, where it is one
        self.outage = Outage(f"a consumer of {self.topic}")

    @property
    def topic(self) -> str:
        """What errors name."""
        return ", ".join(sorted({log.topic for log in self.logs}))

    def where(self, operation: str) -> dict[str, Any]:
        """What errors say of the place."""
        return {"backend": self.backend.name, "topic": self.topic, "operation": operation}

    def context(self, operation: str) -> AbstractContextManager[None]:
        """Errors from within say where they happened."""
        return self.backend.context(operation, self.topic)

    def check_open(self) -> None:
        """``Closed`` after close, ``ForkedClient`` in a child process."""
        self.fork.check()
        if self.closed:
            raise Closed("this consumer was closed", **self.where("use a consumer"))

    def require_group(self, operation: str) -> str:
        """The group; without one there is nothing to ack, commit or give back."""
        if self.group is None:
            raise Unsupported(
                "groups", f"a consumer without a group cannot {operation}",
                **self.where(operation), fix="Open the consumer with group=",
            )  # fmt: skip
        return self.group

    def open(self, deadline: Deadline) -> ConsumerDriver:
        """The driver. The gate is held, or nobody else has this yet."""
        if self.driver is None:
            self.check_open()
            driver = self.backend.open_consumer(self.connection, self.options, self._listener, deadline)
            self.driver, self._loss_aware = driver, driver if knows_losses(driver) else None
            self.options = attrs.evolve(self.options, must_exist=False)
        return self.driver

    def release(self) -> ConsumerDriver | None:
        """Give the driver up, to be closed."""
        driver, self.driver, self._loss_aware = self.driver, None, None
        return driver

    @property
    def still_holds(self) -> StillHolds | None:
        """What tells whether the logs are still this member's, where the driver knows it without a poll."""
        return None if self._loss_aware is None else self._loss_aware.still_holds

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
        """Hold the driver for anything but a poll."""
        return self.lock.entering(self.wake, deadline)

    def store(self, changes: Mapping[Log, GroupPosition | Settlement], deadline: Deadline) -> None:
        """Store acks durably."""
        driver: Any = self.open(deadline)
        store = driver.settle if self.shares else driver.commit
        try:
            store(changes, deadline.remaining(NO_TIMEOUT_S))
        except Exception as error:
            self.outage.note(error)
            with self.context("commit"):  # only errors pay for it
                raise
        self.outage.end()

    def tend(self, timeout: float) -> None:
        """Stay a member for a caller that is away. The gate is held. An outage is told to the log."""
        try:
            self.open(Deadline(timeout)).tend(timeout)
        except Exception as error:
            if not self.outage.note(error):
                raise
