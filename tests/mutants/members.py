"""Groups whose members are confused, or treated wrongly."""

from __future__ import annotations

import attrs

from mqplug import LATEST, Consumer, Unsupported
from mqplug._consume.topic_following import TopicFollower
from mqplug._model.names import Matching
from mqplug.memory._consumer import MemorySharedConsumer
from mqplug.spi import AddPartitions, DeleteGroup, Earliest
from mutants.base import Mutant, Proxy


class LeavesAGroup(Mutant):
    """Leaves a group after a read without one."""

    case = "CON-14"

    def open(self, connection, options, listener):
        if options.group is None:
            connection.start_group("reader-1", attrs.evolve(options, group="reader-1", start=Earliest()))
        return super().open(connection, options, listener)


class TakingAgain(Proxy):
    """A member, even the only one, that gives up its partitions when nothing comes, and takes them again."""

    left: float  # times

    def poll(self, most, timeout):
        batches = self.inner.poll(most, timeout)
        if self.left and timeout and not batches and self.inner._positions and self.seated:
            self.left -= 1
            self.take_again(timeout)
        return batches

    @property
    def seated(self):
        """Whether it reads in order: members that share logs hold no positions."""
        return getattr(self.inner, "_seat", None) is not None and not isinstance(self.inner, MemorySharedConsumer)

    def take_again(self, timeout):
        """Give up what it holds, and take it again from the stored positions."""
        held = self.inner._positions
        logs = list(held)
        self.inner.commit(self.inner._listener.revoked(logs), timeout)
        self.inner._drop(logs)
        positions = self.inner._stored(logs)
        held |= {log: each.position.coordinates for log, each in positions.items()}
        self.inner._listener.assigned(positions)


class NeverRests(Mutant):
    """Hands partitions over again and again, although no member comes or goes."""

    case = "ACK-20"

    class Consumer(TakingAgain):
        left = float("inf")


class NeverPauses(Mutant):
    case = "CON-16"
    patches = ((Consumer, "pause", lambda consumer, *partitions, **where: None),)


class SkipsWhilePaused(Mutant):
    case = "CON-16"

    class Consumer(Proxy):
        def resume(self, logs):
            self.inner.resume(logs)
            for log in logs:
                self.inner._positions[log] = self.inner._store.partition(log).high


class InAnotherMode(Mutant):
    """Opens consumers of one mode in another."""

    asked = given = ""

    def open(self, connection, options, listener):
        mode = self.given if options.mode == self.asked else options.mode
        return super().open(connection, attrs.evolve(options, mode=mode), listener)


class LetsEverybodyIn(InAnotherMode):
    case = "GRP-11"
    asked, given = "exclusive", "ordered"


class FirstTakesAll(Mutant):
    case = "GRP-13"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            return self.inner.poll(most, timeout) if self.mutant.consumers[0] is self.inner else []


class OneAtATime(Mutant):
    """Makes members that share a log wait until no message is leased."""

    case = "GRP-13"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            tables = [self.inner._table(log) for log in self.inner._positions]
            busy = any(each.member is not None for table in tables for each in table._open.values())
            return [] if busy else self.inner.poll(most, timeout)


class DeletesNoGroup(Mutant):
    case = "GRP-17"

    def administer(self, connection, action):
        return True if isinstance(action, DeleteGroup) else super().administer(connection, action)


class AddedUnseen(Mutant):
    """Hides added partitions from a group: its ``start=`` decides where it reads them."""

    case = "GRP-20"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        if isinstance(action, AddPartitions):
            for group in connection.store._groups.values():
                group.forget(found.logs[1:])
        return found


class GrowsAnew(Mutant):
    """Creates the topic again to add partitions."""

    case = "TOP-12"

    def administer(self, connection, action):
        if isinstance(action, AddPartitions):
            with connection.store.changed:
                connection.store.delete(action.topic)
                return connection.store.create(action.topic, action.partitions)
        return super().administer(connection, action)


class LiesAboutGrowing(Mutant):
    case = "LIF-13"

    def administer(self, connection, action):
        if isinstance(action, AddPartitions):
            raise Unsupported("add_partitions")
        return super().administer(connection, action)


class KeysAnywhere(InAnotherMode):
    case = "KEY-10"
    asked, given = "key_shared", "shared"


LOOK = TopicFollower.look


def looks_at_the_end(follower):
    """Read new topics from their end."""
    resolve = follower._session.backend.resolve
    follower._session.backend.resolve = lambda start, *rest: resolve(LATEST, *rest)
    try:
        return LOOK(follower)
    finally:
        del follower._session.backend.resolve


class JoinsAtTheEnd(Mutant):
    case = "CON-21"
    patches = ((TopicFollower, "look", looks_at_the_end),)


class MatchesBeginnings(Mutant):
    case = "CON-21"
    patches = ((Matching, "matches", lambda matching, topic: matching._compiled.match(topic) is not None),)


class NeverLooksAgain(Mutant):
    case = "CON-22"
    patches = ((TopicFollower, "look", lambda follower: False),)


class DropsAllForANewTopic(Mutant):
    """Revokes everything from a member when its topics change."""

    case = "CON-22"

    class Consumer(Proxy):
        def follow(self, options, timeout):
            self.inner._listener.lost(list(self.inner._positions))
            self.inner._drop(list(self.inner._positions))
            self.inner._seat.release(list(self.inner._seat.held))
            self.inner.follow(options, timeout)
