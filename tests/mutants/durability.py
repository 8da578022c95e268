"""Backends whose brokers and stores do not come back as they were. Memory stands for the content of a disk."""

from __future__ import annotations

import logging
import time

import attrs

from mqplug import AuthError, ConnectError, TopicNotFound
from mqplug.memory import Store
from mqplug.spi import hookimpl
from mutants.base import Mutant, Proxy, Reading, Sender, rebuilt


class Lasting(Mutant):
    """Memory that claims to be persistent, and whose outages have no effect. This one is sound."""

    scale = 0.05  # there is nothing to wait for

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
        """Tear the last write as a sound store does: the last batch is gone."""
        for rows in self.rows():
            for field in attrs.fields(type(rows)):
                del getattr(rows, field.name)[-5:]

    def rows(self):
        """Return the stored rows of each partition."""
        return [partition.rows for topic in self.store._topics.values() for partition in topic]


class LosesTheLast(Lasting):
    """Loses the last stored messages in an outage."""

    case = "FLT-05"

    def come_up(self):
        self.tear()


class SendsAgain(Lasting):
    """Stores the last stored message again after an outage."""

    case = "FLT-10"

    def come_up(self):
        with self.store.changed:
            for topic in self.store._topics.values():
                for partition in topic:
                    partition.append(partition.rows.values[-1:], [None], [()], [None])


class SaysNothing(Lasting):
    case = "FLT-12"

    def go_down(self):
        pass


class NeverStopsTalking(Lasting):
    case = "FLT-12"

    def go_down(self):
        for _ in range(1000):
            super().go_down()


class ServesTheTorn(Lasting):
    case = "FLT-15"

    def tear(self):
        for rows in self.rows():
            rows.values[-5:] = [b""] * 5


Lasting.sound = Lasting


class Guarded(Mutant):
    """Memory that admits any client except the store named intruder. This one is sound."""

    refusal = AuthError

    def capabilities(self, sound):
        return attrs.evolve(sound, auth=True)

    @hookimpl
    def mqplug_connect(self, settings):
        if settings.name == "intruder":
            raise self.refusal("the name of the store is wrong")
        return super().mqplug_connect(settings)


Guarded.sound = Guarded


class BlamesTheNetwork(Guarded):
    case = "ERR-05"
    refusal = ConnectError


class CutsWhatIsCompressed(Mutant):
    case = "HP-13"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, values=[value and value[:50_000] for value in batch.values])


class Away(Lasting):
    """Memory that is unreachable during an outage. This one is sound."""

    away = False

    def go_down(self):
        super().go_down()
        self.away = True

    def come_up(self):
        self.away = False

    def look(self):
        """Run the check with which each call begins."""
        if self.away:
            raise ConnectError("the broker is away", fix="Wait until it is back")

    def administer(self, connection, action):
        self.look()
        return super().administer(connection, action)

    @hookimpl
    def mqplug_open_consumer(self, connection, options, listener):
        self.look()
        return super().mqplug_open_consumer(connection, options, listener)

    @hookimpl
    def mqplug_watermarks(self, connection, logs, since):
        self.look()
        return super().mqplug_watermarks(connection, logs, since)

    @hookimpl
    def mqplug_bounds(self, connection, logs):
        self.look()
        return super().mqplug_bounds(connection, logs)

    class Connection(Proxy):
        def health(self, timeout):
            self.mutant.look()

    class Consumer(Proxy):
        def poll(self, most, timeout):
            if not self.mutant.away:
                return self.inner.poll(most, timeout)
            time.sleep(timeout)
            return []

        def commit(self, positions, timeout):
            self.mutant.look()
            self.inner.commit(positions, timeout)

    class Producer(Sender):
        def send(self, sendings):
            if not self.mutant.away:
                self.inner.send(sendings)
                return
            for sending in sendings:
                sending.failed(ConnectError("the broker is away", fix="Wait until it is back"))


Away.sound = Away


class HangsWhileAway(Away):
    """Waits for the broker for as long as the outage lasts."""

    case = "FLT-13"

    def look(self):
        if self.away:
            time.sleep(30)
        super().look()


class SaysThatNothingIsThere(Away):
    case = "TO-05"

    def look(self):
        if self.away:
            raise TopicNotFound("there is no topic any more")


class AnswersFromNowhere(Away):
    """Answers during an outage."""

    case = "TO-05"

    def look(self):
        pass


class ClosesWhenItIsBack(Away):
    case = "CLS-04"

    class Consumer(Away.Consumer):
        def close(self, timeout):
            if self.mutant.away:
                time.sleep(30)
            self.inner.close(timeout)


class ForgetsWhereItWas(Away):
    """Makes consumers begin anew after an outage."""

    case = "FLT-14"

    def come_up(self):
        super().come_up()
        for each in self.consumers:
            each._positions.update(dict.fromkeys(each._positions, (0,)))


class PassesOverTheFirst(Away):
    """Skips the first message after an outage."""

    case = "FLT-03"

    def come_up(self):
        super().come_up()
        for each in self.consumers:
            each._positions.update({log: (at[0] + 1,) for log, at in each._positions.items()})


class AcksAreGone(Away):
    """Repeats messages after an outage that were acked before it."""

    case = "FLT-02"

    def come_up(self):
        super().come_up()
        for each in self.consumers:
            if each._group is not None:
                each._positions.update(dict.fromkeys(each._positions, (0,)))
