"""The faults extension: puts faults around every hook, and around every driver that a hook opens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from mqplug import Log
from mqplug.spi import (
    Action,
    Connection,
    ConsumerDriver,
    ConsumerOptions,
    GroupPosition,
    ProducerDriver,
    TopicInfo,
    TransactionDriver,
    action_name,
    hookimpl,
)
from mqplug.spi.proxies import ConnectionProxy, HookWrapper
from mqplug_testing.faults._calls import after_call, before_call, close
from mqplug_testing.faults._consumer import FaultyConsumer
from mqplug_testing.faults._producer import FaultyProducer
from mqplug_testing.faults._rules import FaultPicker, Happened, Rule, TopicPartition
from mqplug_testing.faults._transactions import FaultyTransactions


@attrs.define(eq=False)
class Faults:
    """An extension that injects faults by its rules. The first rule that strikes an event wins.

    The same seed makes the same decisions for the same events. Set ``active`` to False to pause the faults.
    ``happened`` lists the injected faults.
    """

    rules: Sequence[Rule] = ()
    seed: int = 0
    _picker: FaultPicker = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._picker = FaultPicker(self.rules, self.seed)

    @property
    def happened(self) -> list[Happened]:
        """The injected faults, in order."""
        return list(self._picker.happened)

    @property
    def active(self) -> bool:
        """Whether faults are injected."""
        return self._picker.active

    @active.setter
    def active(self, active: bool) -> None:
        self._picker.active = active

    @hookimpl(wrapper=True)
    def mqplug_connect(self, timeout: float) -> HookWrapper:
        connection = yield from self._around("connect", (), timeout)
        return FaultyConnection(connection, self._picker)

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self, timeout: float) -> HookWrapper:
        driver: ProducerDriver = yield from self._around("open_producer", (), timeout)
        return FaultyProducer(driver, self._picker)

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self, options: ConsumerOptions, timeout: float) -> HookWrapper:
        places = _places(options.logs)
        driver: ConsumerDriver = yield from self._around("open_consumer", places, timeout)
        return FaultyConsumer(driver, self._picker, places)

    @hookimpl(wrapper=True)
    def mqplug_open_stage(self, topic: TopicInfo, timeout: float) -> HookWrapper:
        return (yield from self._around("open_stage", _places(topic.logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_open_transactions(self, timeout: float) -> HookWrapper:
        driver: TransactionDriver = yield from self._around("open_transactions", (), timeout)
        return FaultyTransactions(driver, self._picker)

    @hookimpl(wrapper=True)
    def mqplug_resolve_start(self, logs: Sequence[Log], timeout: float) -> HookWrapper:
        return (yield from self._around("resolve_start", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_move_group(self, positions: Mapping[Log, GroupPosition], timeout: float) -> HookWrapper:
        return (yield from self._around("move_group", _places(positions), timeout))

    @hookimpl(wrapper=True)
    def mqplug_watermarks(self, logs: Sequence[Log], timeout: float) -> HookWrapper:
        return (yield from self._around("watermarks", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_bounds(self, logs: Sequence[Log], timeout: float) -> HookWrapper:
        return (yield from self._around("bounds", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_administer(self, action: Action, timeout: float) -> HookWrapper:
        topic = getattr(action, "topic", None)
        places: list[TopicPartition] = [(topic, None)] if topic is not None else _places(getattr(action, "before", ()))
        return (yield from self._around(action_name(type(action)), places, timeout))

    def _around(self, operation: str, places: Sequence[TopicPartition], timeout: float) -> HookWrapper:
        rule = self._picker.pick(operation, places)
        before_call(rule, timeout)
        answer = yield
        after_call(rule)
        return answer


class FaultyConnection(ConnectionProxy):
    """A connection whose ``health`` and ``close`` may fail or come late."""

    def __init__(self, inner: Connection, picker: FaultPicker) -> None:
        super().__init__(inner)
        self._picker = picker

    def health(self, timeout: float) -> None:
        self.inner.health(before_call(self._picker.pick("health"), timeout))

    def close(self, timeout: float) -> None:
        close(self._picker.pick("close"), self.inner.close, timeout)


def _places(logs: Iterable[Log]) -> list[TopicPartition]:
    return [(log.topic, log.partition) for log in logs]
