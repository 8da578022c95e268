"""Backends that alter topics wrongly."""

from __future__ import annotations

import threading

import attrs

from mqplug import Timeout
from mqplug.spi import AlterTopic
from mutants.base import Mutant
from mutants.durability import Lasting


class AltersTheRest(Mutant):
    """Resets settings that are not given to their defaults."""

    case = "TOP-22"

    def administer(self, connection, action):
        if isinstance(action, AlterTopic) and action.retention is None:
            action = attrs.evolve(action, retention=7 * 24 * 3600.0)
        return super().administer(connection, action)


class PassesOverOptions(Mutant):
    """Ignores unknown options."""

    case = "TOP-23"

    def administer(self, connection, action):
        if isinstance(action, AlterTopic):
            action = attrs.evolve(action, options={})
        return super().administer(connection, action)


class ComesBackUnaltered(Lasting):
    """Restores a topic's original settings after an outage."""

    case = "TOP-24"

    def __init__(self, name):
        super().__init__(name)
        self.created = {}

    def administer(self, connection, action):
        if isinstance(action, AlterTopic):
            self.created.setdefault(action.topic, connection.store.describe(action.topic))
        return super().administer(connection, action)

    def come_up(self):
        with self.store.changed:
            for topic, info in self.created.items():
                self.store.alter(topic, info.retention, info.retention_bytes)


class InsistsOnItsOwn(Mutant):
    """Raises Timeout for a change that another change follows at once."""

    case = "TOP-25"

    def __init__(self, name):
        super().__init__(name)
        self.both = threading.Barrier(2)

    def administer(self, connection, action):
        found = super().administer(connection, action)
        if isinstance(action, AlterTopic):
            try:
                self.both.wait(0.2)
            except threading.BrokenBarrierError:
                self.both.reset()
            if connection.store.describe(action.topic) != found:
                raise Timeout("the topic is not as it was altered")
        return found


class AltersTheDescription(Mutant):
    """Reports a new retention, and keeps messages as before."""

    case = "BIG-09"

    def administer(self, connection, action):
        if isinstance(action, AlterTopic):
            for partition in connection.store.topic(action.topic):
                partition.expire = bool
        return super().administer(connection, action)
