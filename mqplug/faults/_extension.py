"""The extension: faults around every hook, and around every driver that a hook opens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from mqplug._model.log import Log
from mqplug._plugins.backend import action_name
from mqplug.faults._calls import after_call, before_call, close
from mqplug.faults._consumer import FaultyConsumer
from mqplug.faults._producer import FaultyProducer
from mqplug.faults._rules import Dice, Happened, Rule, TopicPartition
from mqplug.spi import Action, Connection, ConsumerDriver, ConsumerOptions, GroupPosition, ProducerDriver, hookimpl
from mqplug.spi.proxies import ConnectionProxy, HookWrapper


@attrs.define(eq=False)
class Faults:
    """Does what its rules say. The first rule that strikes an event wins; the same seed decides the same way.

    Set ``active`` to False to leave everything alone for a while. ``happened`` is what was done so far.
    """

    rules: Sequence[Rule] = ()
    seed: int = 0
    _dice: Dice = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._dice = Dice(self.rules, self.seed)

    @property
    def happened(self) -> list[Happened]:
        """What was done, in order."""
        return list(self._dice.happened)

    @property
    def active(self) -> bool:
        """Whether anything is done at all."""
        return self._dice.active

    @active.setter
    def active(self, active: bool) -> None:
        self._dice.active = active

    @hookimpl(wrapper=True)
    def mqplug_connect(self, timeout: float) -> HookWrapper:
        connection = yield from self._around("connect", (), timeout)
        return FaultyConnection(connection, self._dice)

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self, timeout: float) -> HookWrapper:
        driver: ProducerDriver = yield from self._around("open_producer", (), timeout)
        return FaultyProducer(driver, self._dice)

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self, options: ConsumerOptions, timeout: float) -> HookWrapper:
        places = _places(options.logs)
        driver: ConsumerDriver = yield from self._around("open_consumer", places, timeout)
        return FaultyConsumer(driver, self._dice, places)

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
        rule = self._dice.throw(operation, places)
        before_call(rule, timeout)
        answer = yield
        after_call(rule)
        return answer


class FaultyConnection(ConnectionProxy):
    """A connection that may not be well, and may not close well."""

    def __init__(self, inner: Connection, dice: Dice) -> None:
        super().__init__(inner)
        self._dice = dice

    def health(self, timeout: float) -> None:
        self.inner.health(before_call(self._dice.throw("health"), timeout))

    def close(self, timeout: float) -> None:
        close(self._dice.throw("close"), self.inner.close, timeout)


def _places(logs: Iterable[Log]) -> list[TopicPartition]:
    return [(log.topic, log.partition) for log in logs]
