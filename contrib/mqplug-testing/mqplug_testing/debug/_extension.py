"""The debug extension: puts checks around every driver, and checks the answers of hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mqplug import Bounds, Log, MessageId, Position, Watermarks
from mqplug.spi import (
    Action,
    AlterTopic,
    Connection,
    ConsumerDriver,
    ConsumerOptions,
    DescribeGroup,
    DescribeTopic,
    GroupPosition,
    ProducerDriver,
    TopicInfo,
    TransactionDriver,
    hookimpl,
)
from mqplug.spi.proxies import ConnectionProxy, HookWrapper, ListenerRelay
from mqplug_testing.debug._consumer import WatchedConsumer, WatchedListener
from mqplug_testing.debug._producer import WatchedProducer, WatchedTransactions
from mqplug_testing.debug._rules import Rules


class Debug:
    """An extension that watches the drivers of each client opened with it, and the core above them.

    A call that breaks a driver rule raises a ``PluginError`` that names the rule. ``client.unwrap(Rules).broken`` lists
    all broken rules.
    """

    @hookimpl(wrapper=True)
    def mqplug_connect(self) -> HookWrapper:
        connection: Connection | None = yield
        return None if connection is None else WatchedConnection(connection)

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self, connection: Connection) -> HookWrapper:
        driver: ProducerDriver | None = yield
        return None if driver is None else WatchedProducer(driver, _rules(connection))

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(
        self, connection: Connection, options: ConsumerOptions, listener: ListenerRelay
    ) -> HookWrapper:
        watched = WatchedListener(listener.inner, _rules(connection), options)
        listener.insert(lambda _: watched)
        driver: ConsumerDriver | None = yield
        return None if driver is None else WatchedConsumer(driver, watched, options)

    @hookimpl(wrapper=True)
    def mqplug_open_transactions(self, connection: Connection) -> HookWrapper:
        driver: TransactionDriver | None = yield
        return None if driver is None else WatchedTransactions(driver, _rules(connection))

    @hookimpl(wrapper=True)
    def mqplug_resolve_start(self, connection: Connection, logs: Sequence[Log]) -> HookWrapper:
        answer: Mapping[Log, Position] | None = yield
        rules = _rules(connection)
        for log, position in _answers(rules, answer, logs):
            rules.check_position("answers", log, position)
        return answer

    @hookimpl(wrapper=True)
    def mqplug_watermarks(self, connection: Connection, logs: Sequence[Log]) -> HookWrapper:
        answer: Mapping[Log, Watermarks] | None = yield
        rules = _rules(connection)
        for log, marks in _answers(rules, answer, logs):
            rules.check_position("answers", log, marks.low)
            rules.check_position("answers", log, marks.high)
            if marks.low > marks.high or marks.count < 0:
                rules.breach("answers", f"impossible watermarks of {log!r}: {marks!r}")
        return answer

    @hookimpl(wrapper=True)
    def mqplug_bounds(self, connection: Connection, logs: Sequence[Log]) -> HookWrapper:
        answer: Mapping[Log, Bounds] | None = yield
        rules = _rules(connection)
        for log, bounds in _answers(rules, answer, logs):
            first, last = bounds.first_id, bounds.last_id
            if first is None or last is None:
                fits = first is last
            else:
                fits = first.log == last.log == log and first.coordinates <= last.coordinates
                rules.check_possible(first.coordinates)
                rules.check_possible(last.coordinates)
            if not fits:
                rules.breach("answers", f"impossible bounds of {log!r}: {bounds!r}")
        return answer

    @hookimpl(wrapper=True)
    def mqplug_administer(self, connection: Connection, action: Action) -> HookWrapper:
        answer: Any = yield
        rules = _rules(connection)
        match action, answer:
            case DescribeGroup(), Mapping():
                _check_group(rules, action.logs, answer)
            case DescribeTopic() | AlterTopic(), TopicInfo():
                partitions = [log.partition for log in answer.logs if log.topic == action.topic]
                if answer.name != action.topic or partitions != list(range(len(answer.logs))):
                    rules.breach("answers", f"the description of topic {action.topic!r} does not fit it: {answer!r}")
        return answer


class WatchedConnection(ConnectionProxy):
    """A connection with checks of its positions, and that it is closed last."""

    def __init__(self, inner: Connection) -> None:
        super().__init__(inner)
        self._rules = Rules(inner)

    def after(self, message_id: MessageId) -> Position:
        position = self.inner.after(message_id)
        self._rules.check_position("behind", message_id.log, position)
        if position.coordinates <= message_id.coordinates:
            self._rules.breach("behind", f"{position!r} does not lie after {message_id!r}")
        return position

    def advance(self, position: Position, count: int) -> Position:
        further = self.inner.advance(position, count)
        self._rules.check_position("further", position.log, further)
        if further < position or (not count and further != position):
            self._rules.breach("further", f"{further!r} does not lie {count} messages after {position!r}")
        return further

    def distance(self, start: Position, until: Position) -> int:
        between = self.inner.distance(start, until)
        if between < 0:
            self._rules.breach("further", f"the distance from {start!r} to {until!r} is {between}, which is negative")
        return between

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self._rules if kind is Rules else self.inner.unwrap(kind)

    def close(self, timeout: float) -> None:
        self._rules.check_closing()
        self.inner.close(timeout)


def _rules(connection: Connection) -> Rules:
    """Return the rules of the watched connection, which other extensions may have wrapped."""
    rules = connection.unwrap(Rules)
    return rules if isinstance(rules, Rules) else Rules(connection)


def _answers(rules: Rules, answer: Mapping[Log, Any] | None, logs: Sequence[Log]) -> Sequence[tuple[Log, Any]]:
    """Return a hook's answer for each log. If no plugin answered (None), the core raises the error."""
    if answer is None:
        return []
    if set(answer) != set(logs):
        rules.breach("answers", f"asked about {list(logs)!r}, the hook answered for {list(answer)!r}")
    return list(answer.items())


def _check_group(rules: Rules, logs: Sequence[Log], answer: Mapping[Log, GroupPosition]) -> None:
    for log, stored in answer.items():
        if log not in logs:
            rules.breach("answers", f"the answer names {log!r}, which the core did not ask about")
        rules.check_group_position(log, stored)
