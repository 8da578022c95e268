"""The recorder extension: records hook calls, and puts recording proxies around the drivers that they open.

A consumer's proxy records batches, positions and assignments, a producer's each message with its outcome, and a
transaction's also the positions that the commit stores.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import attrs

from mqplug import Batch, Error, Log, Position
from mqplug.spi import (
    Action,
    Connection,
    ConsumerDriver,
    ConsumerOptions,
    DescribeGroup,
    GroupMove,
    GroupPosition,
    Listener,
    Numbers,
    ProducerDriver,
    Sending,
    Settlement,
    TopicInfo,
    TransactionDriver,
    TransactionMark,
    Trim,
    action_name,
    hookimpl,
)
from mqplug.spi.proxies import (
    ConnectionProxy,
    ConsumerProxy,
    HookWrapper,
    ListenerProxy,
    ListenerRelay,
    ProducerProxy,
    SendingProxy,
    TransactionProxy,
)
from mqplug_testing.recording._recording import (
    Call,
    CallsInFile,
    CallsInMemory,
    Outcome,
    Payloads,
    Received,
    Recording,
    Sent,
    Settled,
    as_group_positions,
    column,
    error_summary,
    record_call,
)


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


@attrs.define(eq=False)
class Recorder:
    """An extension that records calls in memory, or appends them to the file at ``path``. Many clients may share it.

    ``payloads`` selects how keys and values are kept: as a "digest", as the "value" itself, or "none". After ``limit``
    calls and messages the recording is full: one last call reports that, and later calls are dropped.
    """

    path: str | None = attrs.field(default=None, converter=_text)
    payloads: Payloads = attrs.field(default="digest", validator=attrs.validators.in_(("digest", "value", "none")))
    limit: int = attrs.field(default=1_000_000, validator=attrs.validators.ge(1))
    _recording: Recording = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        storage = CallsInMemory() if self.path is None else CallsInFile(self.path)
        self._recording = Recording(storage, self.payloads, self.limit)

    def calls(self) -> list[Call]:
        """Return the calls of this recorder, in the order in which they began."""
        mine = (call for call in self._recording.storage.calls() if call.run == self._recording.run)
        return sorted(mine, key=lambda call: call.number)

    @property
    def full(self) -> bool:
        """Whether the limit was exceeded and calls were dropped."""
        return self._recording.full

    @hookimpl(wrapper=True)
    def mqplug_connect(self) -> HookWrapper:
        member = self._recording.member("client")
        with self._recording.call(member, "connect"):
            connection = yield
        return RecordedConnection(connection, self._recording, member)

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self, connection: Connection) -> HookWrapper:
        member = self._recording.member("producer", self._client(connection))
        with self._recording.call(member, "open_producer"):
            driver = yield
        return RecordedProducer(driver, self._recording, member)

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(
        self, connection: Connection, options: ConsumerOptions, listener: ListenerRelay
    ) -> HookWrapper:
        recording, member = self._recording, self._recording.member("consumer", self._client(connection))
        listener.insert(lambda inner: RecordedListener(inner, recording, member))
        start = as_group_positions(options.start) if isinstance(options.start, Mapping) else ()
        known = {"group": options.group, "logs": tuple(options.logs), "positions": start}
        with recording.call(member, "open_consumer", lasting=True, **known):
            driver = yield
        return RecordedConsumer(driver, recording, member)

    @hookimpl(wrapper=True)
    def mqplug_open_transactions(self, connection: Connection) -> HookWrapper:
        member = self._recording.member("transaction", self._client(connection))
        with self._recording.call(member, "open_transactions", lasting=True):
            driver = yield
        return RecordedTransactions(driver, self._recording, member)

    @hookimpl(wrapper=True)
    def mqplug_resolve_start(self, connection: Connection, logs: Sequence[Log]) -> HookWrapper:
        with self._recording.call(self._client(connection), "resolve_start", logs=tuple(logs)) as found:
            positions: Mapping[Log, Position] = yield
            found["positions"] = as_group_positions(positions)
            return positions

    @hookimpl(wrapper=True)
    def mqplug_move_group(
        self, connection: Connection, group: str, positions: Mapping[Log, GroupPosition]
    ) -> HookWrapper:
        known = {"group": group, "positions": tuple(positions.values())}
        with self._recording.call(self._client(connection), "move_group", lasting=True, **known):
            return (yield)

    @hookimpl(wrapper=True)
    def mqplug_watermarks(self, connection: Connection, logs: Sequence[Log]) -> HookWrapper:
        with self._recording.call(self._client(connection), "watermarks", logs=tuple(logs)) as found:
            marks = yield
            found["watermarks"] = tuple(marks.values())
            return marks

    @hookimpl(wrapper=True)
    def mqplug_bounds(self, connection: Connection, logs: Sequence[Log]) -> HookWrapper:
        with self._recording.call(self._client(connection), "bounds", logs=tuple(logs)):
            return (yield)

    @hookimpl(wrapper=True)
    def mqplug_administer(self, connection: Connection, action: Action) -> HookWrapper:
        operation = action_name(type(action))
        changes = not operation.startswith(("describe", "list"))
        with self._recording.call(self._client(connection), operation, lasting=changes, **_known(action)) as found:
            answer = yield
            found.update(_found(action, answer))
            return answer

    def _client(self, connection: object) -> str:
        """Return the client's name of a connection, which other extensions may have wrapped."""
        while isinstance(connection, ConnectionProxy):
            if isinstance(connection, RecordedConnection) and connection.recording is self._recording:
                return connection.member
            connection = connection.inner
        return "client"


def _known(action: Action) -> dict[str, Any]:
    """Return the topic, group and positions that an action names."""
    known = {"topic": getattr(action, "topic", None), "group": getattr(action, "group", None)}
    return known | ({"positions": as_group_positions(action.before)} if isinstance(action, Trim) else {})


def _found(action: Action, answer: object) -> dict[str, Any]:
    """Return the logs and positions in the answer to an action."""
    if isinstance(answer, TopicInfo):
        return {"logs": answer.logs}
    if isinstance(action, DescribeGroup) and isinstance(answer, Mapping):
        return {"logs": tuple(answer), "positions": tuple(answer.values())}
    return {}


class RecordedConnection(ConnectionProxy):
    """A connection whose ``close`` is recorded."""

    def __init__(self, inner: Connection, recording: Recording, member: str) -> None:
        super().__init__(inner)
        self.recording = recording
        self.member = member

    def close(self, timeout: float) -> None:
        record_call(self.recording, self.member, "close", self.inner.close, timeout)


class RecordedConsumer(ConsumerProxy):
    """A consumer's driver whose calls are recorded, except ``wake``, ``tend``, and polls that return nothing."""

    def __init__(self, inner: ConsumerDriver, recording: Recording, member: str) -> None:
        super().__init__(inner)
        self._recording = recording
        self._member = member

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        call = self._recording.begin(self._member, "poll", lasting=False)
        try:
            batches = self.inner.poll(most, timeout)
        except BaseException as error:
            self._recording.end(call, "failed", lasting=False, error=error_summary(error))
            raise
        if batches:
            received = tuple(map(self._received, batches))
            self._recording.end(call, "ok", lasting=False, received=received)
        return batches

    def _received(self, batch: Batch) -> Received:
        kind = self._recording.payloads
        return Received(
            batch.log, tuple(batch.coordinates), column(batch.keys, kind), column(batch.values, kind),
            tuple(batch.attempts), batch.next_position,
        )  # fmt: skip

    def pause(self, logs: Sequence[Log]) -> None:
        with self._recording.call(self._member, "pause", logs=tuple(logs)):
            self.inner.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        with self._recording.call(self._member, "resume", logs=tuple(logs)):
            self.inner.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._recording.call(self._member, "seek", lasting=True, positions=as_group_positions(positions)):
            self.inner.seek(positions, timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        with self._recording.call(self._member, "commit", lasting=True, positions=tuple(positions.values())):
            self.inner.commit(positions, timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        known = tuple(
            Settled(log, tuple(each.acked), tuple(coordinates for coordinates, _ in each.returned))
            for log, each in settled.items()
        )
        with self._recording.call(self._member, "settle", lasting=True, settled=known):
            return super().settle(settled, timeout)

    def close(self, timeout: float) -> None:
        record_call(self._recording, self._member, "close", self.inner.close, timeout)


class RecordedListener(ListenerProxy):
    """A listener whose calls are recorded, with the positions that the core returns for revoked logs."""

    def __init__(self, inner: Listener, recording: Recording, member: str) -> None:
        super().__init__(inner)
        self._recording = recording
        self._member = member

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        with self._recording.call(self._member, "assigned", logs=tuple(positions), positions=tuple(positions.values())):
            self.inner.assigned(positions)

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        with self._recording.call(self._member, "revoked", logs=tuple(logs)) as found:
            states = self.inner.revoked(logs)
            found["positions"] = tuple(states.values())
            return states

    def lost(self, logs: Sequence[Log]) -> None:
        with self._recording.call(self._member, "lost", logs=tuple(logs)):
            self.inner.lost(logs)


class RecordedProducer(ProducerProxy):
    """A producer's driver whose calls are recorded. A ``send`` ends when the last of its messages is settled."""

    def __init__(self, inner: ProducerDriver, recording: Recording, member: str) -> None:
        super().__init__(inner)
        self._recording = recording
        self._member = member
        self._open: set[RecordedSend] = set()

    def send(self, sendings: Sequence[Sending]) -> None:
        batch = RecordedSend(self._recording, self._member, sendings, self._open)
        try:
            self.inner.send(batch.recorded)
        except BaseException as error:
            batch.end(error)
            raise

    def close(self, timeout: float) -> None:
        try:
            record_call(self._recording, self._member, "close", self.inner.close, timeout)
        finally:
            for batch in list(self._open):
                batch.end(None)


class RecordedSend:
    """The messages of one ``send`` in flight. The call is recorded before the core learns the last outcome."""

    def __init__(
        self, recording: Recording, member: str, sendings: Sequence[Sending], unfinished: set[RecordedSend]
    ) -> None:
        self._recording = recording
        self._keys = column([sending.key for sending in sendings], recording.payloads)
        self._values = column([sending.value for sending in sendings], recording.payloads)
        self._sendings = sendings
        self._outcomes: list[Outcome] = ["unknown"] * len(sendings)
        self._places: list[tuple[Log, Numbers] | None] = [None] * len(sendings)
        self._left = len(sendings)
        self._error: str | None = None
        self._lock = Lock()
        self._unfinished = unfinished
        unfinished.add(self)
        self._call: Call | None = recording.begin(member, "send", lasting=True, sent=self._sent())
        self.recorded = [Recorded(sending, self, row) for row, sending in enumerate(sendings)]

    def settle(self, row: int, outcome: Outcome, place: tuple[Log, Numbers] | None, error: Error | None) -> None:
        """Note the outcome of one message. The last one ends the call."""
        with self._lock:
            self._outcomes[row] = outcome
            self._places[row] = place
            self._error = self._error or (error_summary(error) if error is not None else None)
            self._left -= 1
            last = not self._left
        if last:
            self.end(None)

    def end(self, error: BaseException | None) -> None:
        """Record the call with the outcomes known now. Messages that are not settled stay unknown."""
        with self._lock:
            call, self._call = self._call, None
        self._unfinished.discard(self)
        if call is None:
            return
        outcomes = set(self._outcomes)
        outcome = outcomes.pop() if len(outcomes) == 1 else "unknown"
        text = error_summary(error) if error is not None else self._error
        self._recording.end(call, outcome, lasting=True, sent=self._sent(), error=text)

    def _sent(self) -> tuple[Sent, ...]:
        rows: dict[tuple[str, int, Log | None], list[int]] = {}
        for row, (sending, place) in enumerate(zip(self._sendings, self._places, strict=True)):
            rows.setdefault((sending.topic, sending.partition, place and place[0]), []).append(row)
        return tuple(self._group(*where, found) for where, found in rows.items())

    def _group(self, topic: str, partition: int, log: Log | None, rows: Sequence[int]) -> Sent:
        places = [self._places[row] for row in rows]
        return Sent(
            topic, partition, log, tuple(rows),
            tuple(self._keys[row] for row in rows),
            tuple(self._values[row] for row in rows),
            tuple(self._outcomes[row] for row in rows),
            tuple(place and place[1] for place in places),
        )  # fmt: skip


class Recorded(SendingProxy):
    """A message whose outcome is recorded."""

    __slots__ = ("_batch", "_row")

    def __init__(self, inner: Sending, batch: RecordedSend, row: int) -> None:
        super().__init__(inner)
        self._batch = batch
        self._row = row

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self._batch.settle(self._row, "ok", (log, coordinates), None)
        self.inner.stored(log, coordinates, detail)

    def failed(self, error: Error) -> None:
        self._batch.settle(self._row, "failed", None, error)
        self.inner.failed(error)

    def unknown(self, error: Error) -> None:
        self._batch.settle(self._row, "unknown", None, error)
        self.inner.unknown(error)


class RecordedTransactions(RecordedProducer, TransactionProxy):
    """A transaction's driver whose calls are recorded."""

    def __init__(self, inner: TransactionDriver, recording: Recording, member: str) -> None:
        super().__init__(inner, recording, member)

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        with self._recording.call(self._member, "begin_transaction", topic=None if mark is None else mark.topic):
            return self.inner.begin(mark, timeout)

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        known = {
            "group": moves[0].group if moves else None,
            "positions": tuple(position for move in moves for position in move.positions.values()),
        }
        with self._recording.call(self._member, "commit_transaction", lasting=True, **known):
            self.inner.commit(moves, timeout)

    def abort(self, timeout: float) -> None:
        record_call(self._recording, self._member, "abort_transaction", self.inner.abort, timeout)
