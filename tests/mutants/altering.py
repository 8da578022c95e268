"""Backends that alter topics wrongly."""

from __future__ import annotations

import threading

import attrs

from mqplug import Timeout
from mqplug.spi import AlterTopic
from mutants.base import Mutant
from mutants.durability import Lasting


class AltersTheRest(Mutant):
    """What is not given goes back to the default."""

    case = "TOP-22"

    def administer(self, connection, action):
        if isinstance(action, AlterTopic) and action.retention is None:
            action = attrs.evolve(action, retention=7 * 24 * 3600.0)
        return super().administer(connection, action)


class PassesOverOptions(Mutant):
    """An option that is not known is no error."""

    case = "TOP-23"

    def administer(self, connection, action):
        if isinstance(action, AlterTopic):
            action = attrs.evolve(action, options={})
        return super().administer(connection, action)


class ComesBackUnaltered(Lasting):
    """A topic comes back from an outage as it was created."""

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
    """A change that another one follows at once counts as not made."""

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
    """A new retention is told, and what is there is kept as before."""

    case = "BIG-09"

    def administer(self, connection, action):
        if isinstance(action, AlterTopic):
            for partition in connection.store.topic(action.topic):
                partition.expire = bool
        return super().administer(connection, action)
