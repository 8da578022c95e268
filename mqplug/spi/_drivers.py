"""The drivers that a backend's hooks return. No base class is needed: these are protocols.

A driver does I/O and maps native errors, once. The core does validation, acks, handles, back-pressure, epochs,
deadlines and the order of closing. Every ``timeout`` is in seconds, the rest of the core's deadline: when it runs out,
raise ``mqplug.Timeout``. The driver rules (docs/driver-rules.md) say who may call what, and when.

A backend implements ``Connection``, ``ProducerDriver`` and ``ConsumerDriver``, also ``SharedConsumerDriver``,
``StageDriver``, ``TransactionDriver`` and ``AdvancingConnection`` where it declares ``shared``, ``key_shared``,
``staged_ingest``, ``transactions`` or ``advance``. The core implements ``Sending``, ``Run`` and ``Listener``. A
protocol that is called optional has one more member, which makes a driver faster or more exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from mqplug._model.batch import Batch
from mqplug._model.errors import Error
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.message import Headers
from mqplug._model.position import Position
from mqplug._model.text import Numbers
from mqplug.spi._actions import ConsumerOptions, GroupMove, GroupPosition, Settlement, Staged, TransactionMark
from mqplug.spi._descriptor import Capabilities

if TYPE_CHECKING:
    import pyarrow


class Connection(Protocol):
    """A connection to a broker, or an open store."""

    @property
    def capabilities(self) -> Capabilities:
        """The descriptor's capabilities, with the limits that these settings imply."""
        ...

    def after(self, message_id: MessageId) -> Position:
        """Return the position just behind a message; pure.

        A message's own coordinates are the position just before it.
        """
        ...

    def health(self, timeout: float) -> None:
        """Return if the backend answers; raise an error that says why not."""
        ...

    def unwrap(self, kind: type[Any]) -> Any | None:
        """Return the native object of this type, or None."""
        ...

    def close(self, timeout: float) -> None:
        """Release everything; producers and consumers are closed by then."""
        ...


class CheckingConnection(Connection, Protocol):
    """A connection that recognizes coordinates which its backend cannot have given out. Optional."""

    def is_possible(self, coordinates: Numbers) -> bool:
        """Return whether an id or a position can have these coordinates: as many numbers, none out of range. Pure."""
        ...


class AdvisingConnection(Connection, Protocol):
    """A connection that knows how to get a capability that its settings rule out. Optional."""

    def advice(self, capability: str) -> str | None:
        """Return what to do for this capability, in a sentence without a full stop; None if nothing helps. Pure."""
        ...


class ExplainingConnection(Connection, Protocol):
    """A connection with something to tell an operator about the way it works. Optional."""

    def notes(self) -> Sequence[str]:
        """Return sentences without a full stop that ``mqplug doctor`` shows. They hold no secret. Pure."""
        ...


class AdvancingConnection(Connection, Protocol):
    """A connection that computes with positions. Required of a backend that declares ``advance``. All of it is pure:
    a position may lie beyond the end, and its topic may be gone.
    """

    def owns(self, log: Log) -> bool:
        """Return whether a log is one of this cluster or store, of any topic. The core asks before the other two."""
        ...

    def advance(self, position: Position, count: int) -> Position:
        """Return the position ``count`` messages further along: at most that many messages can lie between the two.

        It lies behind *position* where ``count`` is more than 0, and is *position* where it is 0. Where coordinates
        have an upper limit, it is the last possible position at most.
        """
        ...

    def distance(self, start: Position, until: Position) -> int:
        """Return how many messages can lie between two positions of one log at most. ``until`` lies behind
        ``start``.
        """
        ...


class ProducerDriver(Protocol):
    """A producer: accepts records, and settles each."""

    def send(self, sendings: Sequence[Sending]) -> None:
        """Accept records in this order, without waiting for the broker. Never called by two threads at once."""

    def pump(self, timeout: float) -> None:
        """Let what the broker reported reach the sendings: settle those that are stored or failed.

        Return when something was settled or nothing is in flight, at the latest after *timeout*; 0 only looks. The core
        calls it in any thread that waits for an outcome, again and again, for 0.1 s at most. A driver that settles in
        threads of its own waits here for one of them, or returns at once.
        """

    def flush(self, timeout: float) -> None:
        """Speed up what is in flight, without having to wait for it."""

    def close(self, timeout: float) -> None:
        """Release everything. The core settles what is still in flight as unknown."""


class Sending(Protocol):
    """One record in flight. The driver settles it exactly once, from any thread."""

    topic: str
    partition: int
    """The partition to send to; -1 where the driver partitions natively."""
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp: int | None

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """Settle it as stored, under this id."""

    def failed(self, error: Error) -> None:
        """Settle it as proven not to be stored."""

    def unknown(self, error: Error) -> None:
        """Settle it as possibly stored."""


class Run(Protocol):
    """Many records in flight for one partition, as columns; a column is None where no record has the field.

    The driver settles all of them at once, or each of ``sendings()``.
    """

    topic: str
    partition: int
    size: int

    @property
    def values(self) -> Sequence[bytes | None]:
        """The value of each record; None for a tombstone."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None] | None:
        """The key of each record."""
        ...

    @property
    def headers(self) -> Sequence[Headers] | None:
        """The headers of each record, in the order in which they were given."""
        ...

    @property
    def timestamps(self) -> Sequence[int | None] | None:
        """The time of each record, in milliseconds since 1970; None for the log's own."""
        ...

    @property
    def ends(self) -> Sequence[int]:
        """The running total of bytes of values, keys and headers, up to and including each record. The last one is
        ``size``.
        """
        ...

    def __len__(self) -> int: ...

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return those of the columns value, key, headers and timestamp that are there as Arrow arrays.

        It is empty where records were sent as objects. Otherwise a column that is not there is one that no record has.
        Values and keys are binary or large binary, headers a list of structs of key and value, none of them null, and
        timestamps milliseconds in UTC. Reading ``values`` and so on instead builds lists.
        """
        ...

    def sendings(self) -> Sequence[Sending]:
        """Return each record by itself, to be settled by itself."""
        ...

    def stored(self, log: Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None = None) -> None:
        """Settle all as stored, under these ids."""

    def failed(self, error: Error) -> None:
        """Settle all as proven not to be stored."""

    def unknown(self, error: Error) -> None:
        """Settle all as possibly stored."""


class RunProducerDriver(ProducerDriver, Protocol):
    """A producer that stores columns as they are. Optional: other drivers get ``run.sendings()`` in ``send``."""

    def send_run(self, run: Run) -> None:
        """Accept many records for one partition, as ``send`` does, and one thread at a time."""


class CollectingProducerDriver(RunProducerDriver, Protocol):
    """A producer that is cheaper to call with many records. Optional.

    The core collects the records that no sender waits for, and hands over those of a partition as one run: when nothing
    is on its way (unless the driver has ``store``), when there are many, after ``linger_s``, and before anything that
    is sent later and not collected.
    """

    linger_s: float
    """Seconds for which records may be collected."""


class StoringProducerDriver(ProducerDriver, Protocol):
    """A producer that stores a record almost as soon as it accepts it. Optional."""

    def store(self, sending: Sending) -> None:
        """Store one record behind all that was sent before, and settle it before returning.

        The thread that waits for the record calls this instead of ``send``, whatever other threads do.
        """


class TransactionDriver(ProducerDriver, Protocol):
    """The holder of a transaction name: a producer whose records no reader sees before ``commit``. Required of a
    backend that declares ``transactions``. It may be a ``RunProducerDriver`` or a ``CollectingProducerDriver``.

    There is one transaction at a time, and records are sent within it. An accepted record is settled by ``commit`` (as
    stored) or by ``abort`` (as failed), a refused one as failed at once. ``commit`` raises ``Fenced`` once another
    client has taken the name over, ``begin`` too where it can know. Its records fail with it, too.
    """

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        """Begin a transaction. Return the mark with this number, or a higher one, if it was committed before, in this
        topic, under this name: then no record is sent, and ``commit`` leaves the mark as it is.

        After a commit of unknown outcome, learn the outcome first, and abort what is still open.
        """
        ...

    def annotate(self, note: str) -> None:
        """Store this note with the mark of the open transaction. Called before ``commit``, unless it is repeated."""

    def hand_over(self, timeout: float) -> None:
        """Settle the accepted records as stored that can be delivered before the commit, so that nothing is kept of
        them. If one cannot be, raise why: the transaction is aborted then. Do nothing if records are kept until the
        commit.
        """

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        """Commit the records, the positions and the mark, all or nothing. Then settle the records.

        If certainly nothing was committed, abort, settle the records as failed, and raise why: any ``Error`` but
        ``OutcomeUnknown`` and ``Timeout``; ``NotAssigned`` where a member no longer holds its logs. Otherwise settle
        them as unknown, and raise ``OutcomeUnknown``.
        """

    def abort(self, timeout: float) -> None:
        """Drop the transaction, and settle its records as failed. Without an open one, do nothing.

        Whatever this raises, the records are settled, and nothing of them will be committed.
        """


class ConsumerDriver(Protocol):
    """A consumer: reads the logs that it holds."""

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches of at most ``most`` messages in all as soon as there are any; none when *timeout* has passed
        without.

        An empty batch may be returned to report a next position that passed no message. ``PositionLost`` names its log
        (``error.log``) and where it begins now (``error.low``).
        """
        ...

    def wake(self) -> None:
        """Make a running poll return early. Any thread, at any time."""

    def tend(self, timeout: float) -> None:
        """Maintain membership (heartbeats, hand-overs) and deliver nothing. Called while nothing is received."""

    def pause(self, logs: Sequence[Log]) -> None:
        """Fetch and return nothing of these logs until ``resume``. This consumer keeps them, and their positions."""

    def resume(self, logs: Sequence[Log]) -> None:
        """Continue with these logs, without losing or repeating a message."""

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Continue reading there. Nothing fetched before is returned after. With a group, the group's stored position
        has moved too when this returns: everything before counts as acked, acks beyond are forgotten.
        """

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store these positions of the group, durably. May run while ``poll`` does, never while ``seek`` does."""

    def close(self, timeout: float) -> None:
        """Leave the group and release everything. Everything was committed by then."""


class Listener(Protocol):
    """The core's side of assignments: a driver reports here which logs it gets and loses, inside ``poll`` or ``tend``
    only.
    """

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        """Hold these logs from now on; reading begins at these positions."""

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        """Prepare to lose these logs. Return the positions to store before another member gets the logs."""
        ...

    def lost(self, logs: Sequence[Log]) -> None:
        """Forget these logs, which are gone already: nothing can be stored."""


class SharedConsumerDriver(ConsumerDriver, Protocol):
    """A consumer in the mode ``shared`` or ``key_shared``. Required of a backend that declares one of them.

    ``poll`` takes messages that no other member has, each with its attempt, and never more than it was asked for;
    ``seek`` frees what any member holds of a log; ``close`` gives back all that this member holds. ``commit`` is not
    called.
    """

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        """Store the outcomes of messages, durably. Those that this member does not hold, or no longer, are skipped.

        A message that it had for longer than ``max_processing`` counts if no other member has got it since. Return how
        many were acked and skipped because another has; None where that is not known.
        """


class TimedConsumerDriver(SharedConsumerDriver, Protocol):
    """A consumer in a shared mode that the core tells at once that a message was acked. Required where ``ack_timeout``
    is declared, unless the driver knows in another way.
    """

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Let this member keep a message, of which ``max_processing`` does not count from now on: it was acked, and the
        next ``settle`` has it. Any thread, at any time, even after ``close``. It does not wait, and never fails.
        """


class PassingConsumerDriver(SharedConsumerDriver, Protocol):
    """A consumer in a shared mode that goes on behind a gap without freeing messages. Optional."""

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count everything before these positions as acked, whichever member has it: retention removed it.

        Everything else stays as it is. A driver without this gets a ``seek``.
        """


class LossAwareConsumerDriver(ConsumerDriver, Protocol):
    """A consumer that knows without a poll that other members may have its logs by now. Optional."""

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        """The function that the core calls before each message that it hands out; None where there is nothing to ask.

        It returns at once. After False it returns False until a ``poll`` or ``tend`` has called the listener. The core
        checks once, when the driver is opened, whether there is such an attribute, and then reads it at each hand-out.
        """
        ...


class TransactionalConsumerDriver(ConsumerDriver, Protocol):
    """A consumer whose group's positions a transaction can store. Required of a backend that declares ``transactions``,
    for members that hold logs for themselves.
    """

    def membership(self) -> Any:
        """Return what proves to a transaction that this member still holds its logs. Opaque to the core, and used in
        this process only, at once. ``NotAssigned`` if it is no member any more.
        """
        ...


class FollowingConsumerDriver(ConsumerDriver, Protocol):
    """A consumer whose logs can change while it is open. Required of a backend that declares ``topic_patterns``."""

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read the logs of these options from now on, which are otherwise those that this was opened with.

        Logs that it reads already go on as they are. ``options.start`` applies to the others, as at opening. Logs that
        are not named any more, whose topics may be gone, are given up.
        """


class StageDriver(Protocol):
    """A stage: writes messages where nothing reads them, until an ``Ingest`` takes them in. One thread at a time."""

    def write(self, run: Run, timeout: float) -> None:
        """Add messages. They are not settled: an error is raised, and then the core discards the stage."""

    def finish(self, timeout: float) -> Staged:
        """Put everything on disk, and return its description, which outlives this process, its connection and the
        store's owner.
        """
        ...

    def discard(self) -> None:
        """Remove everything that was written; this cannot fail."""


def gives_advice(connection: Connection) -> TypeGuard[AdvisingConnection]:
    """Return whether this is an ``AdvisingConnection``."""
    return getattr(connection, "advice", None) is not None


def explains_itself(connection: Connection) -> TypeGuard[ExplainingConnection]:
    """Return whether this is an ``ExplainingConnection``."""
    return getattr(connection, "notes", None) is not None


def checks_coordinates(connection: Connection) -> TypeGuard[CheckingConnection]:
    """Return whether this is a ``CheckingConnection``."""
    return getattr(connection, "is_possible", None) is not None


def takes_runs(driver: ProducerDriver) -> TypeGuard[RunProducerDriver]:
    """Return whether this is a ``RunProducerDriver``."""
    return getattr(driver, "send_run", None) is not None


def collects(driver: ProducerDriver) -> TypeGuard[CollectingProducerDriver]:
    """Return whether this is a ``CollectingProducerDriver``."""
    return takes_runs(driver) and getattr(driver, "linger_s", None) is not None


def stores_at_once(driver: ProducerDriver) -> TypeGuard[StoringProducerDriver]:
    """Return whether this is a ``StoringProducerDriver``."""
    return getattr(driver, "store", None) is not None


def passes_over(driver: ConsumerDriver) -> TypeGuard[PassingConsumerDriver]:
    """Return whether this is a ``PassingConsumerDriver``."""
    return getattr(driver, "pass_over", None) is not None


def stops_clocks(driver: ConsumerDriver) -> TypeGuard[TimedConsumerDriver]:
    """Return whether this is a ``TimedConsumerDriver``."""
    return getattr(driver, "stop_clock", None) is not None


def follows(driver: ConsumerDriver) -> TypeGuard[FollowingConsumerDriver]:
    """Return whether this is a ``FollowingConsumerDriver``."""
    return getattr(driver, "follow", None) is not None


def knows_losses(driver: ConsumerDriver) -> TypeGuard[LossAwareConsumerDriver]:
    """Return whether this is a ``LossAwareConsumerDriver``."""
    return hasattr(driver, "still_holds")
