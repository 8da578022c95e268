"""The base classes of the drivers that a backend's hooks return, and the protocols that the core passes to them.

A driver does I/O and maps the client's errors, once. The core does validation, acks, handles, back-pressure, epochs,
deadlines and the order of closing. Every ``timeout`` is in seconds, the rest of the core's deadline: when it runs out,
raise ``mqplug.Timeout``. The driver rules (docs/driver-rules.md) say who may call what, and when.

Derive ``Connection``, ``ProducerDriver``, ``ConsumerDriver``, ``TransactionDriver`` and ``StageDriver``, and override
what your backend can do. Abstract methods are required of every backend. The other methods have a default, which
either is right for a backend without that feature, or raises ``Unsupported``: a method of a capability is called only
if the backend declares the capability. An object that is not derived works if it has all members of the class.

The core implements ``Sending``, ``Run`` and ``Listener``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mqplug._model.batch import Batch
from mqplug._model.errors import Error, PluginError, Unsupported
from mqplug._model.id_text import Numbers
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.message import Headers
from mqplug._model.position import Position
from mqplug.spi._actions import ConsumerOptions, GroupMove, GroupPosition, Settlement, Staged, TransactionMark
from mqplug.spi._descriptor import Capabilities

if TYPE_CHECKING:
    import pyarrow

    from mqplug.spi.compiled import CompiledCollecting


class Connection(ABC):
    """A connection to a broker, or an open store."""

    capabilities: Capabilities
    """The descriptor's capabilities, with the limits that these settings imply."""

    @abstractmethod
    def after(self, message_id: MessageId) -> Position:
        """Return the position right after a message; pure.

        A message's own coordinates are the position right before it.
        """

    @abstractmethod
    def health(self, timeout: float) -> None:
        """Return if the backend answers; raise an error that says why not."""

    def close(self, timeout: float) -> None:
        """Release everything. All producers and consumers are closed by then."""
        return

    def unwrap(self, kind: type[Any]) -> Any | None:
        """Return the client's object of this type, or None."""
        return None

    def is_possible(self, coordinates: Numbers) -> bool:
        """Return whether an id or a position of this backend can have these coordinates: the right count of numbers,
        each within its range. Pure.
        """
        return True

    def advice(self, capability: str) -> str | None:
        """Return how to get a capability that these settings rule out, in a sentence without a full stop; None if
        nothing helps. Pure.
        """
        return None

    def notes(self) -> Sequence[str]:
        """Return what an operator should know about this connection, for ``mqplug doctor``: sentences without a full
        stop and without secrets. Pure.
        """
        return ()

    # Required with `advance`. All of it is pure: a position may lie beyond the end, and its topic may be gone.

    def owns(self, log: Log) -> bool:
        """Return whether a log is one of this cluster or store, of any topic. The core asks before the other two."""
        raise Unsupported("advance")

    def advance(self, position: Position, count: int) -> Position:
        """Return the position ``count`` messages further along: at most that many messages can lie between the two.

        It lies after *position* if ``count`` is more than 0, and is *position* if it is 0. If coordinates have an upper
        limit, it is the last possible position at most.
        """
        raise Unsupported("advance")

    def distance(self, start: Position, until: Position) -> int:
        """Return the largest number of messages that can lie between two positions of one log, ``start`` first."""
        raise Unsupported("advance")


class ProducerDriver(ABC):
    """A producer: accepts records, and settles each."""

    linger_s: float | None = None
    """For how many seconds the core may collect records, where many in one call are cheaper; None: not at all.

    The core collects the records that no sender waits for, and passes those of a partition on as one run: when nothing
    is in flight (unless ``stores_at_once``), when there are many, after these seconds, and before any record that is
    sent later and not collected.
    """

    collecting: CompiledCollecting | None = None
    """The compiled part's classes that collect records, if there are any."""

    stores_at_once: bool = False
    """Whether a thread that waits for the outcome of its record calls ``store`` instead of ``send``."""

    @abstractmethod
    def send(self, sendings: Sequence[Sending]) -> None:
        """Accept records in this order, without waiting for the broker. Never called by two threads at once."""

    def send_run(self, run: Run) -> None:
        """Accept many records for one partition, as ``send`` does. The default sends them one by one.

        A driver that stores columns as they are overrides this.
        """
        self.send(run.sendings())

    def store(self, sending: Sending) -> None:
        """Store one record after all that were sent before, and settle it before returning.

        Called if ``stores_at_once``, whatever other threads do.
        """
        raise _missing(self, "store")

    def pump(self, timeout: float) -> None:
        """Settle the records that the broker has reported as stored or failed.

        Return when something was settled or nothing is in flight, at the latest after *timeout*; 0 only looks. The core
        calls it in any thread that waits for an outcome, again and again, for 0.1 s at most. A driver that settles in
        threads of its own waits here for one of them, or returns at once.
        """
        return

    def flush(self, timeout: float) -> None:
        """Speed up the records in flight. It need not wait for them."""
        return

    def close(self, timeout: float) -> None:
        """Release everything. The core settles the records still in flight as unknown."""
        return


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


def _missing(driver: object, method: str) -> PluginError:
    return PluginError(f"{type(driver).__name__} has no {method}", fix="The backend's author must implement it")


class TransactionDriver(ProducerDriver):
    """The holder of a transaction name: a producer whose records no reader sees before ``commit``. Required with
    ``transactions``. It never stores at once.

    There is one transaction at a time, and records are sent within it. An accepted record is settled by ``commit`` (as
    stored) or by ``abort`` (as failed), a refused one as failed at once. ``commit`` raises ``Fenced`` once another
    client has taken the name over, ``begin`` too where it can know. Its records fail with it, too.
    """

    @abstractmethod
    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        """Begin a transaction. Return the mark with this number, or a higher one, if it was committed before, in this
        topic, under this name: then no record is sent, and ``commit`` leaves the mark as it is.

        After a commit of unknown outcome, learn the outcome first, and abort what is still open.
        """

    @abstractmethod
    def annotate(self, note: str) -> None:
        """Store this note with the mark of the open transaction. Called before ``commit``, unless it is repeated."""

    def hand_over(self, timeout: float) -> None:
        """Settle the accepted records as stored that can be delivered before the commit, so that nothing is kept of
        them. If one cannot be, raise why: the transaction is aborted then.

        The default does nothing, for drivers that keep records until the commit.
        """
        return

    @abstractmethod
    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        """Commit the records, the positions and the mark, all or nothing. Then settle the records.

        If certainly nothing was committed, abort, settle the records as failed, and raise why: any ``Error`` but
        ``OutcomeUnknown`` and ``Timeout``; ``NotAssigned`` where a member no longer holds its logs. Otherwise settle
        them as unknown, and raise ``OutcomeUnknown``.
        """

    @abstractmethod
    def abort(self, timeout: float) -> None:
        """Drop the transaction, and settle its records as failed. Without an open one, do nothing.

        Whatever this raises, the records are settled, and nothing of them will be committed.
        """


class Offer(ABC):
    """Messages that a member of a shared group may take one by one, in their order, as long as no other member does."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @abstractmethod
    def take(self) -> bool:
        """Take the next message for this member, as a ``poll`` would. Return False if the next ``poll`` must decide.

        Any thread, at any time, even after ``close``. It returns at once, and never fails. After False the core takes
        nothing more of this offer, and polls.
        """

    @abstractmethod
    def has_taken(self, row: int) -> bool:
        """Return whether the member has this message, because an interrupted ``take`` took it."""


class ConsumerDriver(ABC):
    """A consumer: reads the logs that it holds.

    ``poll`` is enough to read from the start to the end. ``seek``, ``pause`` and ``resume`` are part of the contract of
    every backend; ``commit`` and ``tend`` are needed with ``groups``; the methods after them with the capability that
    their docstring names.
    """

    poll_messages: int = 1000
    """How many messages the core asks for at least, so that it polls seldom. Few, if what a member has in hand is
    delivered again after a hand-over. In the shared modes, the core asks for what its caller wants.
    """

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        """A function that the core calls before each delivery; None if only a poll finds out that logs were lost.

        For members whose logs other members may have before the next poll. It returns at once. After False it returns
        False until a ``poll`` or ``tend`` has called the listener.
        """
        return None

    @abstractmethod
    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches of at most ``most`` messages in all as soon as there are any; none if none came within
        *timeout*.

        An empty batch may be returned to report a next position that passed no message. ``PositionLost`` names its log
        (``error.log``) and where it begins now (``error.low``).
        """

    def offer(self, most: int) -> Offer | None:
        """Return up to ``most`` messages that ``poll`` would take next, without taking them; None if there are none.

        For callers in the shared modes that receive one message at a time. The core calls it in place of ``poll`` while
        messages come. It returns at once, and never fails: if something is wrong, the next ``poll`` raises it. The
        default offers nothing.
        """
        return None

    def wake(self) -> None:
        """Make a running poll return early. Any thread, at any time. By default, it runs to its end: 0.1 s at most."""
        return

    def close(self, timeout: float) -> None:
        """Leave the group and release everything. Everything was committed by then."""
        return

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Continue reading there. Nothing fetched before is returned after. With a group, the group's stored position
        has moved too when this returns: everything before counts as acked, acks beyond are forgotten.
        """
        raise _missing(self, "seek")

    def pause(self, logs: Sequence[Log]) -> None:
        """Fetch and return nothing of these logs until ``resume``. This consumer keeps them, and their positions.

        The core pauses a log for its user, and while messages of it wait to be handed out.
        """
        raise _missing(self, "pause")

    def resume(self, logs: Sequence[Log]) -> None:
        """Continue with these logs, without losing or repeating a message."""
        return

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store these positions of the group, durably. May run while ``poll`` does, never while ``seek`` does."""
        raise Unsupported("groups")

    def tend(self, timeout: float) -> None:
        """Maintain membership (heartbeats, hand-overs) and deliver nothing. Called while nothing is received."""
        return

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        """Store the outcomes of messages, durably. Required with ``shared`` and ``key_shared``, where it is called
        instead of ``commit``.

        In these modes, ``poll`` takes messages that no other member has, each with its attempt, and never more than it
        was asked for; ``seek`` frees what any member holds of a log; ``close`` gives back all that this member holds.
        Messages that this member does not hold, or no longer, are skipped. A message that it had for longer than
        ``max_processing`` counts if no other member has got it since. Return how many were acked and skipped because
        another has; None where that is not known.
        """
        raise Unsupported("shared")

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Stop ``max_processing`` of a message: it was acked, and the next ``settle`` has it. Required with
        ``ack_timeout`` in the shared modes, unless the driver knows in another way.

        Any thread, at any time, even after ``close``. It does not wait, and never fails.
        """
        return

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count everything before these positions as acked, whichever member has it: retention removed it. Called in
        the shared modes.

        Everything else stays as it is. The default seeks, which also frees the messages that members have.
        """
        self.seek(positions, timeout)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read the logs of these options from now on, which are otherwise those that this was opened with. Required
        with ``topic_patterns``.

        Logs that it reads already continue as they are. ``options.start`` applies to the others, as at opening. Logs
        that are not named any more, whose topics may be gone, are given up.
        """
        raise Unsupported("topic_patterns")

    def membership(self) -> Any:
        """Return what proves to a transaction that this member still holds its logs. Required with ``transactions``,
        for members that hold logs for themselves.

        Opaque to the core, and used in this process only, at once. ``NotAssigned`` if it is no member any more.
        """
        raise Unsupported("transactions")


class StageDriver(ABC):
    """A stage: writes messages where nothing reads them, until an ``Ingest`` takes them in. Required with
    ``staged_ingest``. One thread at a time.
    """

    @abstractmethod
    def write(self, run: Run, timeout: float) -> None:
        """Add messages. They are not settled: an error is raised, and then the core discards the stage."""

    @abstractmethod
    def finish(self, timeout: float) -> Staged:
        """Put everything on disk, and return its description, which outlives this process, its connection and the
        store's owner.
        """

    @abstractmethod
    def discard(self) -> None:
        """Remove everything that was written; this cannot fail."""


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
