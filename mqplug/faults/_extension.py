"""The extension: faults around every hook, and around every driver that a hook opens."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import attrs

from mqplug._model.log import Log
from mqplug._plugins.backend import action_name
from mqplug.faults._calls import after, before, close
from mqplug.faults._consumer import FaultyConsumer
from mqplug.faults._producer import FaultyProducer
from mqplug.faults._rules import Dice, Happened, Place, Rule
from mqplug.spi import Action, Connection, ConsumerDriver, ConsumerOptions, GroupPosition, ProducerDriver, hookimpl
from mqplug.spi.proxies import ConnectionProxy

Wrapped = Generator[None, Any, Any]


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
    def mqplug_connect(self, timeout: float) -> Wrapped:
        connection = yield from self._around("connect", (), timeout)
        return FaultyConnection(connection, self._dice)

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self, timeout: float) -> Wrapped:
        driver: ProducerDriver = yield from self._around("open_producer", (), timeout)
        return FaultyProducer(driver, self._dice)

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self, options: ConsumerOptions, timeout: float) -> Wrapped:
        places = _places(options.logs)
        driver: ConsumerDriver = yield from self._around("open_consumer", places, timeout)
        return FaultyConsumer(driver, self._dice, places)

    @hookimpl(wrapper=True)
    def mqplug_resolve_start(self, logs: Sequence[Log], timeout: float) -> Wrapped:
        return (yield from self._around("resolve_start", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_move_group(self, positions: Mapping[Log, GroupPosition], timeout: float) -> Wrapped:
        return (yield from self._around("move_group", _places(positions), timeout))

    @hookimpl(wrapper=True)
    def mqplug_watermarks(self, logs: Sequence[Log], timeout: float) -> Wrapped:
        return (yield from self._around("watermarks", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_bounds(self, logs: Sequence[Log], timeout: float) -> Wrapped:
        return (yield from self._around("bounds", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_administer(self, action: Action, timeout: float) -> Wrapped:
        topic = getattr(action, "topic", None)
        places: list[Place] = [(topic, None)] if topic is not None else _places(getattr(action, "before", ()))
        return (yield from self._around(action_name(type(action)), places, timeout))

    def _around(self, operation: str, places: Sequence[Place], timeout: float) -> Wrapped:
        rule = self._dice.throw(operation, places)
        before(rule, timeout)
        answer = yield
        after(rule)
        return answer


class FaultyConnection(ConnectionProxy):
    """A connection that may not be well, and may not close well."""

    def __init__(self, inner: Connection, dice: Dice) -> None:
        super().__init__(inner)
        self._dice = dice

    def health(self, timeout: float) -> None:
        self.inner.health(before(self._dice.throw("health"), timeout))

    def close(self, timeout: float) -> None:
        close(self._dice.throw("close"), self.inner.close, timeout)


def _places(logs: Iterable[Log]) -> list[Place]:
    return [(log.topic, log.partition) for log in logs]
