"""Backends whose answers are lost, come late, or are cut off; that stand still; and whose topics others make again.

Memory stands for a server behind a network.
"""

from __future__ import annotations

import time

from mqplug import ConnectError, OutcomeUnknown, Timeout
from mqplug.memory import Store
from mutants.base import Mutant, Proxy, Sender
from mutants.durability import Lasting


class Answers(Mutant):
    """Memory that stores what it is told, and may keep to itself that it did. This one is sound."""

    scale = 0.05
    trouble = ""

    def __init__(self, name):
        super().__init__(name)
        self.late = []  # what is told when the network is back

    def hooks(self, connect):
        with connect() as client:
            self.store = client.unwrap(Store)
        return {
            **super().hooks(connect), "heal_network": self.heal, "drop_replies": lambda: self.begin("drop"),
            "stall_replies": lambda: self.begin("stall"), "reset_replies": lambda: self.begin("reset"),
        }  # fmt: skip

    def begin(self, trouble):
        self.trouble = trouble

    def heal(self):
        self.trouble = ""
        while self.late:
            self.late.pop(0)()

    def lost(self, sending):
        """The answer to a send got lost."""
        sending.unknown(OutcomeUnknown("no answer came"))

    class Producer(Sender):
        def send(self, sendings):
            self.inner.send([Unheard(each, self.mutant) if self.mutant.trouble else each for each in sendings])


class Unheard(Proxy):
    """A record whose answer does not come."""

    def stored(self, log, coordinates, detail=()):
        if self.mutant.trouble == "stall":
            self.mutant.late.append(lambda: self.inner.stored(log, coordinates, detail))
        else:
            self.mutant.lost(self.inner)


Answers.sound = Answers


class CallsTheUnknownFailed(Answers):
    """Who gets no answer says that nothing was stored."""

    case = "FLT-17"

    def lost(self, sending):
        sending.failed(ConnectError("the server did not answer"))


class CallsTheUnknownStored(Answers):
    """What is cut off is called stored where it would have been next."""

    case = "FLT-19"

    def lost(self, sending):
        sending.stored(self.store.topic(sending.topic)[sending.partition].log, (10**6,))


class TakesTheAnswerOfAnother(Answers):
    """An answer that came late is taken for that to the next question."""

    case = "FLT-18"

    def heal(self):
        self.trouble = ""

    class Producer(Answers.Producer):
        def send(self, sendings):
            self.inner.send([Shifted(each, self.mutant) for each in sendings])


class Shifted(Proxy):
    """A record that gets the oldest answer there is."""

    def stored(self, log, coordinates, detail=()):
        late = self.mutant.late
        late.append((log, coordinates, detail))
        if self.mutant.trouble != "stall":
            self.inner.stored(*late.pop(0))


class SendsAgainAfterAReset(Answers):
    """What was cut off is sent once more, although it was stored."""

    case = "FLT-19"

    class Producer(Answers.Producer):
        def send(self, sendings):
            super().send(sendings)
            if self.mutant.trouble == "reset":
                super().send(sendings)


class StandsStill(Lasting):
    """Memory that can stand still: then whoever asks waits in vain. This one is sound."""

    still = False

    def go_down(self):
        self.still = True

    def come_up(self):
        self.still = False

    class Connection(Proxy):
        def health(self, timeout):
            if self.mutant.still:
                self.mutant.ask(timeout)

    def ask(self, timeout):
        time.sleep(timeout)

    class Consumer(Proxy):
        def poll(self, most, timeout):
            return self.mutant.poll(self.inner, most, timeout)

    def poll(self, inner, most, timeout):
        return inner.poll(most, timeout)


StandsStill.sound = StandsStill


class AsksForFiveSeconds(StandsStill):
    """It waits for an answer as long as it always does, whatever the timeout."""

    case = "TO-10"

    def poll(self, inner, most, timeout):
        if self.still:
            time.sleep(5)
        return inner.poll(most, timeout)


class GivesUpEarly(StandsStill):
    """It says that the time is up when half of it is."""

    case = "TO-10"

    def ask(self, timeout):
        time.sleep(timeout / 2)
        raise Timeout("no answer came in time")


class KeepsToTheOld(Mutant):
    """A producer sends to the topic that it met first, also when that is gone."""

    case = "TOP-20"

    class Producer(Sender):
        def __init__(self, inner, mutant):
            super().__init__(inner, mutant)
            self.met = {}

        def send(self, sendings):
            store = self.inner._store
            for sending in sendings:
                where = sending.topic, sending.partition
                partition = self.met.get(where) or self.met.setdefault(where, store.topic(where[0])[where[1]])
                with store.changed:
                    places, details = partition.append(
                        [sending.value], [sending.key], [sending.headers], [sending.timestamp]
                    )
                    store.changed.notify_all()
                sending.stored(partition.log, places[0], details[0])


class StoresInTheDeleted(KeepsToTheOld):
    case = "TOP-19"


class NamesTheOld(Mutant):
    """What is stored in a topic that was made again gets ids of the one before."""

    case = "TOP-21"

    class Producer(Sender):
        def send(self, sendings):
            self.inner.send([Misnamed(each, self.mutant) for each in sendings])

    def __init__(self, name):
        super().__init__(name)
        self.logs = {}


class Misnamed(Proxy):
    def stored(self, log, coordinates, detail=()):
        first = self.mutant.logs.setdefault((log.topic, log.partition), log)
        self.inner.stored(first, coordinates, detail)
