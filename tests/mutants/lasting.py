"""Backends whose brokers and stores do not come back as they were. Memory stands for what is on a disk."""

from __future__ import annotations

import logging

import attrs

from mqplug import AuthError, ConnectError
from mqplug.memory import Store
from mqplug.spi import hookimpl
from mutants.base import Mutant, Reading, rebuilt


class Lasting(Mutant):
    """Memory that says it is persistent, and whose outages do nothing at all. This one is sound."""

    pace = 0.2  # there is nothing to wait for

    def __init__(self, name):
        super().__init__(name)
        self.store = None

    def capabilities(self, sound):
        return attrs.evolve(sound, persistent=True)

    def hooks(self, connect):
        with connect() as client:
            self.store = client.unwrap(Store)
        down, up = self.go_down, self.come_up
        return {
            **super().hooks(connect), "kill": down, "start": up, "pause": down, "unpause": up,
            "cut_network": down, "heal_network": up, "tear_tail": self.tear,
        }  # fmt: skip

    def go_down(self):
        logging.getLogger("mqplug").warning("the broker is away")

    def come_up(self):
        pass

    def tear(self):
        """A torn write, as a sound store leaves it: the last batch is gone."""
        for rows in self.rows():
            for field in attrs.fields(type(rows)):
                del getattr(rows, field.name)[-5:]

    def rows(self):
        """What is stored, of each partition."""
        return [partition.rows for topic in self.store._topics.values() for partition in topic]


class LosesTheLast(Lasting):
    """What was stored last is gone after an outage."""

    sound = Lasting

    def come_up(self):
        self.tear()


class PausedLosesTheLast(LosesTheLast):
    case = "FLT-04"


class CutLosesTheLast(LosesTheLast):
    case = "FLT-05"


class SendsAgain(Lasting):
    """What was stored last is stored once more after an outage."""

    sound = Lasting

    def come_up(self):
        with self.store.changed:
            for topic in self.store._topics.values():
                for partition in topic:
                    partition.append(partition.rows.values[-1:], [None], [()], [None])


class IdempotentSendsAgain(SendsAgain):
    case = "PRO-16"


class KilledSendsAgain(SendsAgain):
    case = "FLT-10"


class SaysNothing(Lasting):
    case = "FLT-12"
    sound = Lasting

    def go_down(self):
        pass


class NeverStopsTalking(Lasting):
    case = "FLT-12"
    sound = Lasting

    def go_down(self):
        for _ in range(1000):
            super().go_down()


class ServesTheTorn(Lasting):
    case = "FLT-15"
    sound = Lasting

    def tear(self):
        for rows in self.rows():
            rows.values[-5:] = [b""] * 5


class Guarded(Mutant):
    """Memory that lets in whoever knows the name of the store. This one is sound."""

    refusal = AuthError

    def capabilities(self, sound):
        return attrs.evolve(sound, auth=True)

    @hookimpl
    def mqplug_connect(self, settings):
        if settings.name == "intruder":
            raise self.refusal("the name of the store is wrong")
        return super().mqplug_connect(settings)


class BlamesTheNetwork(Guarded):
    case = "ERR-05"
    sound = Guarded
    refusal = ConnectError


class CutsWhatIsCompressed(Mutant):
    case = "HP-13"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, values=[value and value[:50_000] for value in batch.values])
