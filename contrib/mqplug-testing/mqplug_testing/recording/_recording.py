"""A recording: the data of its calls, their order and outcomes, and the file that keeps them.

A call has the messages that it sent, received or settled. A file has a line of JSON for each call.
"""

from __future__ import annotations

import json
import os
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path
from threading import Lock, current_thread
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import attrs

from mqplug import ConnectError, Corrupt, Error, Log, OutcomeUnknown, Position, Timeout, Watermarks
from mqplug.spi import GroupPosition, Numbers

if TYPE_CHECKING:
    from cattrs import Converter

Outcome = Literal["ok", "failed", "unknown"]
Payloads = Literal["digest", "value", "none"]


@attrs.frozen
class Sent:
    """The messages of one call that went to one partition, as columns of one length.

    ``rows`` are their indexes in the call. ``partition`` is -1 if the driver chose it. ``log`` is the log that stored
    them. The recorder's ``payloads`` selects what ``keys`` and ``values`` hold: digests, the bytes, or None.
    """

    topic: str
    partition: int
    log: Log | None
    rows: tuple[int, ...]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    outcomes: tuple[Outcome, ...]
    coordinates: tuple[Numbers | None, ...]


@attrs.frozen
class Received:
    """A batch as the driver delivered it: columns of one length, and the position after it."""

    log: Log
    coordinates: tuple[Numbers, ...]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    attempts: tuple[int, ...]
    next_position: Position


@attrs.frozen
class Settled:
    """The settled messages of one log in a shared group: acked or returned."""

    log: Log
    acked: tuple[Numbers, ...]
    returned: tuple[Numbers, ...]


@attrs.frozen(kw_only=True)
class Call:
    """One call, from ``began`` to ``ended`` (``time.monotonic``; None if it never ended).

    ``run`` identifies the recorder among others that write to the same file. ``number`` counts the calls as they began.
    ``member`` names the caller, such as ``client-1/consumer-3``. The outcome is unknown unless something proves that
    the call was done, or that it was not.
    """

    run: str
    number: int
    member: str
    thread: str
    operation: str
    began: float
    ended: float | None = None
    outcome: Outcome = "unknown"
    error: str | None = None
    topic: str | None = None
    group: str | None = None
    logs: tuple[Log, ...] = ()
    sent: tuple[Sent, ...] = ()
    received: tuple[Received, ...] = ()
    settled: tuple[Settled, ...] = ()
    positions: tuple[GroupPosition, ...] = ()
    watermarks: tuple[Watermarks, ...] = ()

    @property
    def size(self) -> int:
        """The call's share of the recorder's limit: one, plus one for each message."""
        return 1 + sum(len(sent.rows) for sent in self.sent) + sum(len(each.coordinates) for each in self.received)


def digest(payload: bytes) -> bytes:
    """Return an eight-byte hash of a payload, as recordings keep it."""
    return blake2b(payload, digest_size=8).digest()


def column(payloads: Sequence[bytes | None], kind: Payloads) -> tuple[bytes | None, ...]:
    """Return a column of payloads in the form that ``kind`` selects."""
    if kind == "value":
        return tuple(payloads)
    if kind == "none":
        return (None,) * len(payloads)
    return tuple(None if payload is None else digest(payload) for payload in payloads)


UNPROVEN_ERRORS: Final = (ConnectError, OutcomeUnknown, Timeout)


class CallStorage(Protocol):
    """A place that keeps calls. A call with the number of an earlier one replaces it."""

    def put(self, call: Call) -> None: ...
    def calls(self) -> Iterable[Call]: ...


class CallsInMemory:
    """Calls in memory, by number."""

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}

    def put(self, call: Call) -> None:
        self._calls[call.number] = call

    def calls(self) -> Iterable[Call]:
        return list(self._calls.values())


class Recording:
    """The calls of one recorder. Thread-safe. Beyond ``limit``, a last call reports that; later ones are dropped."""

    def __init__(self, storage: CallStorage, payloads: Payloads, limit: int) -> None:
        self.storage = storage
        self.payloads: Payloads = payloads
        self.run = uuid.uuid4().hex[:8]
        self.full = False
        self._limit = limit
        self._left = limit
        self._numbers = count(1)
        self._members = count(1)
        self._lock = Lock()

    def member(self, kind: str, of: str = "") -> str:
        """Return a name for a new client, producer or consumer."""
        return f"{of}{'/' if of else ''}{kind}-{next(self._members)}"

    def begin(self, member: str, operation: str, *, lasting: bool, **known: Any) -> Call:
        """Begin a call now. A ``lasting`` one is kept at once, in case it never ends."""
        call = Call(
            run=self.run, number=next(self._numbers), member=member, thread=current_thread().name,
            operation=operation, began=time.monotonic(), **known,
        )  # fmt: skip
        if lasting:
            self._put(call, call.size)
        return call

    def end(self, call: Call, outcome: Outcome, *, lasting: bool, **found: Any) -> None:
        """End a call now."""
        ended = attrs.evolve(call, ended=time.monotonic(), outcome=outcome, **found)
        self._put(ended, ended.size - call.size if lasting else ended.size)

    @contextmanager
    def call(self, member: str, operation: str, *, lasting: bool = False, **known: Any) -> Iterator[dict[str, Any]]:
        """Record the block as one call. The block adds the call's results to the dictionary."""
        call = self.begin(member, operation, lasting=lasting, **known)
        found: dict[str, Any] = {}
        try:
            yield found
        except BaseException as error:
            outcome: Outcome = "unknown" if lasting and not _proves_no_change(error) else "failed"
            self.end(call, outcome, lasting=lasting, error=error_summary(error), **found)
            raise
        self.end(call, "ok", lasting=lasting, **found)

    def _put(self, call: Call, size: int) -> None:
        with self._lock:
            if self.full:
                return
            self._left -= size
            if self._left < 0:
                self.full = True
                call = attrs.evolve(
                    Call(run=call.run, number=next(self._numbers), member=call.member, thread=call.thread,
                         operation="recording", began=call.began, ended=time.monotonic()),
                    outcome="failed", error=f"full: more than {self._limit} calls and messages",
                )  # fmt: skip
            self.storage.put(call)


def _proves_no_change(error: BaseException) -> bool:
    """Return whether this error proves that the call changed nothing."""
    return isinstance(error, Error | TypeError | ValueError) and not isinstance(error, UNPROVEN_ERRORS)


def error_summary(error: BaseException) -> str:
    """Return the type and the message of an error."""
    return f"{type(error).__name__}: {error}"


def as_group_positions(positions: Mapping[Log, Position]) -> tuple[GroupPosition, ...]:
    """Return plain positions as group positions, the form that calls hold."""
    return tuple(map(GroupPosition, positions.values()))


def record_call(
    recording: Recording, member: str, operation: str, call: Callable[[float], None], timeout: float
) -> None:
    """Make a call without an answer, and record it."""
    with recording.call(member, operation, lasting=True):
        call(timeout)


class CallsInFile:
    """The calls in a file, appended one by one. Each line is written at once, and so survives a kill of the process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.close = weakref.finalize(self, os.close, self._file)

    def put(self, call: Call) -> None:
        """Append a call. A later line of the same call replaces an earlier one."""
        line = json.dumps(_converter().unstructure(call), separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")

    def calls(self) -> Iterator[Call]:
        """Return all calls in the file."""
        return read(self._path)


def read(path: str | os.PathLike[str]) -> Iterator[Call]:
    """Return the calls of a recording, in the order in which they began.

    Calls that a killed process had not ended have the outcome unknown. A last line that it did not finish is skipped.
    """
    last: dict[tuple[str, int], Call] = {}
    for number, line in enumerate(Path(path).read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        call = _call(path, number, line)
        last[call.run, call.number] = call
    yield from sorted(last.values(), key=lambda call: (call.began, call.number))


def _call(path: str | os.PathLike[str], number: int, line: bytes) -> Call:
    try:
        return _converter().structure(json.loads(line), Call)
    except Exception as error:
        raise Corrupt(
            f"line {number} of {os.fspath(path)!r} is not a recorded call",
            fix="Read a file that a Recorder of this version wrote",
        ) from error


@cache
def _converter() -> Converter:
    from cattrs.preconf.json import make_converter

    def log(value: Any, kind: type[Log]) -> Log:
        return Log(*value)

    def position(value: Any, kind: type[Position]) -> Position:
        return Position(Log(*value[0]), tuple(value[1]))

    made = make_converter(omit_if_default=True)
    made.register_unstructure_hook(Log, lambda each: each.__reduce__()[1])
    made.register_structure_hook(Log, log)
    made.register_unstructure_hook(Position, lambda each: (each.log.__reduce__()[1], each.coordinates))
    made.register_structure_hook(Position, position)
    return made
