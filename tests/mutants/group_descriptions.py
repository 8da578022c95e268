"""Groups that are described wrongly: their topics, their members, or their existence."""

from __future__ import annotations

from contextlib import contextmanager

import attrs

from mqplug import GroupDescription, GroupNotFound
from mqplug._client import groups
from mqplug.spi import DescribeGroupMembers, GroupPosition, Latest
from mutants.base import Mutant


class Describing(Mutant):
    """Memory whose descriptions of groups can be replaced. This one is sound."""

    def administer(self, connection, action):
        if not isinstance(action, DescribeGroupMembers):
            return super().administer(connection, action)
        return self.described(connection, action.group)

    def described(self, connection, group):
        return self.changed(connection, super().administer(connection, DescribeGroupMembers(group)))

    def changed(self, connection, found):
        return found


class DescribesWhoLeft(Describing):
    """Describes members that left as if they were live."""

    case = "GRP-26"

    def __init__(self, name):
        super().__init__(name)
        self.seen = {}

    def changed(self, connection, found):
        seen = self.seen.setdefault(found.name, {})
        seen.update({each.name: each for each in found.members})
        return attrs.evolve(found, members=tuple(seen.values()))


class DescribesAllAsHeld(Describing):
    """Describes each member with all partitions, in any mode."""

    case = "GRP-26"

    def changed(self, connection, found):
        logs = tuple(log for topic in found.topics for log in connection.store.describe(topic).logs)
        return attrs.evolve(found, members=tuple(attrs.evolve(each, logs=logs) for each in found.members))


class DescribesSharedAsHeldOnce(Describing):
    """Describes a partition as held by only one member, even in shared modes."""

    case = "GRP-27"

    def changed(self, connection, found):
        seen, members = set(), []
        for each in found.members:
            members.append(attrs.evolve(each, logs=tuple(log for log in each.logs if log not in seen)))
            seen |= set(each.logs)
        return attrs.evolve(found, members=tuple(members))


class DescribesOneTopic(Describing):
    case = "GRP-28"

    def changed(self, connection, found):
        return attrs.evolve(found, topics=found.topics[:1])


class DescribesAllTopics(Describing):
    case = "GRP-28"

    def changed(self, connection, found):
        return attrs.evolve(found, topics=tuple(connection.store.names()))


class DescribesTheUnknown(Describing):
    """Describes an unknown group as one without topics."""

    case = "GRP-29"

    def described(self, connection, group):
        try:
            return super().described(connection, group)
        except GroupNotFound:
            return GroupDescription(group, (), ())


class DescribingMakesAGroup(Describing):
    """Creates an unknown group when it is described, at the end of all topics."""

    case = "GRP-29"

    def described(self, connection, group):
        try:
            return super().described(connection, group)
        except GroupNotFound:
            logs = [log for name in connection.store.names() for log in connection.store.describe(name).logs]
            begin = connection.resolve(Latest(), logs)
            connection.move_group(group, {log: GroupPosition(at) for log, at in begin.items()})
            raise


class RenamesMembers(Describing):
    """Changes a member's name with each description."""

    case = "GRP-26"
    times = 0

    def changed(self, connection, found):
        self.times += 1
        named = tuple(attrs.evolve(each, name=f"{each.name}-{self.times}") for each in found.members)
        return attrs.evolve(found, members=named)


@contextmanager
def naming_none(*_):
    """Replace the naming of members with nothing."""
    yield


class NamesNoMembers(Mutant):
    """Names no members in the error of a group with members."""

    case = "GRP-30"
    patches = ((groups, "naming_members", naming_none),)
