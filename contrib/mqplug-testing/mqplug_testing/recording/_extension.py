"""The recorder extension: records hook calls, and puts recording proxies around the drivers that they open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mqplug import Log, Position
from mqplug.spi import (
    Action,
    Connection,
    ConsumerOptions,
    DescribeGroup,
    GroupPosition,
    TopicInfo,
    Trim,
    action_name,
    hookimpl,
)
from mqplug.spi.proxies import ConnectionProxy, HookWrapper, ListenerRelay
from mqplug_testing.recording._calls import Call, Payloads
from mqplug_testing.recording._consuming import RecordedConsumer, RecordedListener
from mqplug_testing.recording._file import CallsInFile
from mqplug_testing.recording._recording import CallsInMemory, Recording, as_group_positions, record_call
from mqplug_testing.recording._sending import RecordedProducer
from mqplug_testing.recording._transactions import RecordedTransactions


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


@attrs.define(eq=False)
class Recorder:
    """An extension that records calls in memory, or appends them to the file at ``path``. Many clients may share it.

    ``payloads`` selects what is kept of keys and values: a "digest", the "value" itself, or "none". After ``limit``
    calls and messages the recording is full: one last call says so, and later calls are dropped.
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
