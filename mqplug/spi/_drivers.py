"""What a driver implements. No base class is demanded: these are protocols.

Drivers do I/O and map native errors, once. Validation, acks, handles, back-pressure, epochs, deadlines and close
order are the core's. Every ``timeout`` is in seconds and is the core's remaining deadline: when it runs out, raise
``mqplug.Timeout``. Who may call what when is written in the driver rules (docs/driver-rules.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from mqplug._model.batch import Batch
from mqplug._model.errors import Error
from mqplug._model.headers import Headers
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug._model.text import Numbers
from mqplug.spi._actions import GroupPosition, Settlement, Staged
from mqplug.spi._descriptor import Capabilities

if TYPE_CHECKING:
    import pyarrow


class Connection(Protocol):
    """A connection to a broker, or an open store."""

    @property
    def capabilities(self) -> Capabilities:
        """The descriptor's, with the limits that these settings imply."""
        ...

    def after(self, message_id: MessageId) -> Position:
        """The position just behind a message; pure. A message's own coordinates are the position just before it."""
        ...

    def health(self, timeout: float) -> None:
        """Return if the backend answers, else raise why not."""
        ...

    def unwrap(self, kind: type[Any]) -> Any | None:
        """The native object of this type, or None."""
        ...

    def close(self, timeout: float) -> None:
        """Let go of everything; producers and consumers are closed by then."""
        ...


class CheckingConnection(Connection, Protocol):
    """A connection that recognizes coordinates which its backend cannot have given out. Optional."""

    def is_possible(self, coordinates: Numbers) -> bool:
        """Return whether an id or a position can have these coordinates: as many numbers, none out of range. Pure."""
        ...


def checks_coordinates(connection: Connection) -> TypeGuard[CheckingConnection]:
    """Return whether this is a ``CheckingConnection``."""
    return getattr(connection, "is_possible", None) is not None


class Sending(Protocol):
    """One record on its way. The driver settles it exactly once, from any thread."""

    topic: str
    partition: int
    """The partition to send to; -1 where the driver partitions natively."""
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp: int | None

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """It is stored, under this id."""

    def failed(self, error: Error) -> None:
        """It is proven not to be stored."""

    def unknown(self, error: Error) -> None:
        """It may or may not be stored."""


class Run(Protocol):
    """Many records for one partition on their way, as columns; a column is None where no record has the field.

    The driver settles all of them at once, or each of ``sendings()``.
    """

    topic: str
    partition: int
    size: int

    @property
    def values(self) -> Sequence[bytes | None]:
        """The value of each; None for a tombstone."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None] | None:
        """The key of each."""
        ...

    @property
    def headers(self) -> Sequence[Headers] | None:
        """The headers of each, in the order in which they were given."""
        ...

    @property
    def timestamps(self) -> Sequence[int | None] | None:
        """The time of each, in milliseconds since 1970; None for the log's own."""
        ...

    @property
    def ends(self) -> Sequence[int]:
        """The bytes of each record and of those before it: of values, keys and headers. The last one is ``size``."""
        ...

    def __len__(self) -> int: ...

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Those of the columns value, key, headers and timestamp that are there as Arrow arrays.

        It is empty where records were sent as objects. Otherwise a column that is not there is one that no record has.
        Values and keys are binary or large binary, headers a list of structs of key and value, none of them null, and
        timestamps milliseconds in UTC. To ask for ``values`` and so on instead makes lists of them.
        """
        ...

    def sendings(self) -> Sequence[Sending]:
        """Each record by itself, to be settled by itself."""
        ...

    def stored(self, log: Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None = None) -> None:
        """All are stored, under these ids."""

    def failed(self, error: Error) -> None:
        """All are proven not to be stored."""

    def unknown(self, error: Error) -> None:
        """Any of them may or may not be stored."""


class ProducerDriver(Protocol):
    """A producer: takes records on their way, and settles each.

    ``RunProducerDriver`` and ``StoringProducerDriver`` say what it may have beside.
    """

    def send(self, sendings: Sequence[Sending]) -> None:
        """Take them over in this order, without waiting for the broker. Never called by two threads at once."""

    def pump(self, timeout: float) -> None:
        """Let what the broker reported reach the sendings: settle those that are stored or failed.

        Return as soon as something was settled, or nothing is on its way, at the latest after *timeout*; 0 only looks.
        The core calls it in any thread that waits for an outcome, again and again, for 0.1 s at most. A driver that
        settles in threads of its own waits here for one of them, or returns at once.
        """

    def flush(self, timeout: float) -> None:
        """Hasten what is on its way; need not wait for it."""

    def close(self, timeout: float) -> None:
        """Let go; what is still on its way is settled as unknown by the core."""


class RunProducerDriver(ProducerDriver, Protocol):
    """A producer that stores columns as they are. Optional: other drivers get ``run.sendings()`` in ``send``."""

    def send_run(self, run: Run) -> None:
        """Take over many records for one partition, as ``send`` does, and one thread at a time."""


class StoringProducerDriver(ProducerDriver, Protocol):
    """A producer that stores a record about as soon as it has taken it over. Optional."""

    def store(self, sending: Sending) -> None:
        """Store one record behind all that was sent before, and settle it before returning.

        The thread that waits for the record calls this instead of ``send``, whatever other threads do.
        """


def takes_runs(driver: ProducerDriver) -> TypeGuard[RunProducerDriver]:
    """Return whether this is a ``RunProducerDriver``."""
    return getattr(driver, "send_run", None) is not None


def stores_at_once(driver: ProducerDriver) -> TypeGuard[StoringProducerDriver]:
    """Return whether this is a ``StoringProducerDriver``."""
    return getattr(driver, "store", None) is not None


class StageDriver(Protocol):
    """Writes messages where nobody reads them, until an ``Ingest`` takes them in. One thread at a time."""

    def write(self, run: Run, timeout: float) -> None:
        """Add messages. They are not settled; what goes wrong is raised, and then the stage is discarded."""

    def finish(self, timeout: float) -> Staged:
        """Put all of it on disk, and say what it is. It outlives this process, its connection and the store's owner."""
        ...

    def discard(self) -> None:
        """Remove what was written; this cannot fail."""


class Listener(Protocol):
    """How a driver tells the core that partitions come and go; called inside ``poll`` or ``tend`` only."""

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        """These logs are held from now on; reading begins at these positions."""

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        """These logs are about to go; what is returned is to be stored before another member gets them."""
        ...

    def lost(self, logs: Sequence[Log]) -> None:
        """These logs are gone already; nothing can be stored."""


class ConsumerDriver(Protocol):
    """A consumer: reads the logs that it holds.

    ``SharedConsumerDriver``, ``PassingConsumerDriver`` and ``LossAwareConsumerDriver`` say what it may have beside.
    """

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Batches of at most so many messages in all, as soon as there are any; none when idle for so long.

        An empty batch may be returned to report a next position that passed no message.
        ``PositionLost`` names its log (``error.log``) and where it begins now (``error.low``).
        """
        ...

    def wake(self) -> None:
        """Make a running poll return soon. Any thread, at any time."""

    def tend(self, timeout: float) -> None:
        """Do what membership needs (heartbeats, hand-overs) and deliver nothing. Called when nobody receives."""

    def pause(self, logs: Sequence[Log]) -> None:
        """Fetch and return nothing of these logs until ``resume``. They stay this consumer's, where they stand."""

    def resume(self, logs: Sequence[Log]) -> None:
        """Go on with these logs, without losing or repeating a message."""

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Go on reading there. Nothing fetched before is returned after. With a group, the group's stored position
        has moved too when this returns: what lies before counts as acked, acks beyond are forgotten.
        """

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store these positions of the group, durably. May run while ``poll`` does, never while ``seek`` does."""

    def close(self, timeout: float) -> None:
        """Leave the group and let go. Everything was committed by then."""


class LossAwareConsumerDriver(ConsumerDriver, Protocol):
    """A consumer that knows without a poll that other members may have its logs by now. Optional."""

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        """The function that the core calls before each message that it hands out; None where there is nothing to ask.

        It must be quick, and wait for nothing. After False it returns False until a ``poll`` or ``tend`` has told the
        listener. The core asks once whether the driver has the attribute, and then reads it at each hand-out.
        """
        ...


class SharedConsumerDriver(ConsumerDriver, Protocol):
    """A consumer in the mode ``shared`` or ``key_shared``. Required of a backend that declares one of them.

    ``poll`` takes messages that no other member has, each with its attempt, and never more than it was asked for;
    ``seek`` frees what any member holds of a log; ``close`` gives back all that this member holds. ``commit`` is not
    called.
    """

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Store the outcomes of messages, durably. Those that this member does not hold, or no longer, are skipped."""


class PassingConsumerDriver(SharedConsumerDriver, Protocol):
    """A consumer in a shared mode that goes on behind a gap without freeing messages. Optional."""

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count all before these positions as acked, whichever member holds it: retention removed it.

        Everything else stays as it is. A driver without this gets a ``seek``.
        """


def knows_losses(driver: ConsumerDriver) -> TypeGuard[LossAwareConsumerDriver]:
    """Return whether this is a ``LossAwareConsumerDriver``."""
    return hasattr(driver, "still_holds")


def passes_over(driver: ConsumerDriver) -> TypeGuard[PassingConsumerDriver]:
    """Return whether this is a ``PassingConsumerDriver``."""
    return getattr(driver, "pass_over", None) is not None
