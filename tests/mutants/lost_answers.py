"""Backends whose answers are lost, come late, or are cut off; that stall; and whose topics others create again.

Memory stands for a server across a network.
"""

from __future__ import annotations

import time

from mqplug import ConnectError, OutcomeUnknown, Timeout
from mqplug.memory import Store
from mutants.base import Mutant, Proxy, Sender
from mutants.durability import Lasting


class Answers(Mutant):
    """Memory that stores records, and may withhold its answers. This one is sound."""

    scale = 0.05
    trouble = ""

    def __init__(self, name):
        super().__init__(name)
        self.late = []  # answers that are given when the network is back

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
        """Settle a send whose answer was lost."""
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
    """Reports a record without an answer as failed."""

    case = "FLT-17"

    def lost(self, sending):
        sending.failed(ConnectError("the server did not answer"))


class CallsTheUnknownStored(Answers):
    """Reports a record without an answer as stored, at an id that does not exist."""

    case = "FLT-19"

    def lost(self, sending):
        sending.stored(self.store.topic(sending.topic)[sending.partition].log, (10**6,))


class TakesTheAnswerOfAnother(Answers):
    """Takes a late answer for the answer to the next request."""

    case = "FLT-18"

    def heal(self):
        self.trouble = ""

    class Producer(Answers.Producer):
        def send(self, sendings):
            self.inner.send([Shifted(each, self.mutant) for each in sendings])


class Shifted(Proxy):
    """A record that gets the oldest pending answer."""

    def stored(self, log, coordinates, detail=()):
        late = self.mutant.late
        late.append((log, coordinates, detail))
        if self.mutant.trouble != "stall":
            self.inner.stored(*late.pop(0))


class SendsAgainAfterAReset(Answers):
    """Sends a record again after a reset, although it was stored."""

    case = "FLT-19"

    class Producer(Answers.Producer):
        def send(self, sendings):
            super().send(sendings)
            if self.mutant.trouble == "reset":
                super().send(sendings)


class StandsStill(Lasting):
    """Memory that can stall: calls then get no answer. This one is sound."""

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
    """Waits five seconds for an answer, whatever the timeout."""

    case = "TO-10"

    def poll(self, inner, most, timeout):
        if self.still:
            time.sleep(5)
        return inner.poll(most, timeout)


class GivesUpEarly(StandsStill):
    """Reports a timeout when half of the time is up."""

    case = "TO-10"

    def ask(self, timeout):
        time.sleep(timeout / 2)
        raise Timeout("no answer came in time")


class KeepsToTheOld(Mutant):
    """Keeps sending to the topic that a producer found first, even after its deletion."""

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
    """Gives messages in a topic that was created again ids of the previous one."""

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
