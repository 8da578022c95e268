"""What groups are called, who is in them, and what describing them may answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mqplug import GroupDescription, GroupNotFound, Log
from mqplug_testing.model.consumers import ConsumerModel, Consumers
from mqplug_testing.model.groups import Groups
from mqplug_testing.model.rules import Outcome, check, refused, value_of
from mqplug_testing.model.topics import Topics


class Descriptions:
    """The descriptions of groups. A consumer may become a member only when it first receives."""

    def __init__(self, topics: Topics, groups: Groups, consumers: Consumers) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._names: dict[str, tuple[frozenset[str], frozenset[str]]] = {}  # by group: who was open, and their names

    def described(self, group: str, outcome: Outcome) -> None:
        """Judge ``describe_group``."""
        stored = {self._named(log.log) for log in self._groups.stored.get(group, {}) if not log.deleted} - {None}
        members = self._members(group)
        read = {self._topics.current[topic].name for each in members for topic in each.topics}
        if not stored and outcome.error is not None:
            check(not any(each.readings for each in members), "no-group", "a description", outcome)
            refused(outcome, "no-group", GroupNotFound)
            return
        check(stored or members, "no-group", "GroupNotFound", outcome)
        found: GroupDescription = value_of(outcome, "describe-group")
        check(stored <= set(found.topics) <= stored | read, "describe-group", sorted(map(str, stored)), found.topics)
        if found.members is not None:
            self._check_members(group, members, found)

    def _named(self, log: Log) -> str | None:
        return log.topic if self._topics.of(log) is not None else None

    def _members(self, group: str) -> list[ConsumerModel]:
        return [each for each in self._consumers.open.values() if each.group == group]

    def _check_members(self, group: str, members: Sequence[ConsumerModel], found: GroupDescription) -> None:
        described = found.members or ()
        sure = [each for each in members if each.readings]
        right = len(sure) <= len(described) <= len(members)
        check(right, "describe-group", f"{len(sure)} to {len(members)} members", described)
        read = {self._topics.current[topic].name for each in members for topic in each.topics}
        told = [set(each.logs) for each in described if each.logs is not None]
        strange = {log.topic for logs in told for log in logs} - read
        check(not strange, "describe-group", sorted(read), described)
        if self._topics.able.assignment_events and len(told) == len(described):
            for each in sure:
                gone = any(reading.log.deleted for reading in each.readings.values())  # partitions may have been added
                right = any(set(each.readings) <= logs if gone else set(each.readings) == logs for logs in told)
                check(right, "describe-group", sorted(map(repr, each.readings)), described)
        if len(described) == len(members) == len(sure):
            self._check_names(group, frozenset(each.name for each in members), [each.name for each in described])

    def _check_names(self, group: str, members: frozenset[str], names: Collection[str]) -> None:
        check(len(set(names)) == len(names), "member-name", "different names", names)
        before = self._names.get(group)
        self._names[group] = members, frozenset(names)
        if before is not None:
            stayed = len(members & before[0])
            check(len(before[1] & set(names)) >= stayed, "member-name", f"{stayed} of {sorted(before[1])}", names)

    def listed(self, topic: str, outcome: Outcome) -> None:
        """Judge ``groups`` of a topic: pairs of names and numbers of members."""
        there = self._groups.listed(topic, Outcome([name for name, _ in outcome.value or ()], outcome.error))
        if not there:
            return
        for group, count in outcome.value:
            members = self._members(group)
            sure = sum(bool(each.readings) and topic in each.topics for each in members)
            right = count is None or sure <= count <= len(members)
            check(right, "members", f"{sure} to {len(members)} members of {group}", count)

    def named(self, outcome: Outcome, described: Outcome) -> None:
        """Check that the error for a group with members names them, if a description does."""
        error = outcome.error
        members = getattr(described.value, "members", None) or ()
        seen = {each.name for each in getattr(error, "members", ())}
        missed = [each.name for each in members if each.name not in seen]
        check(not missed or described.error, "busy", f"an error with {[each.name for each in members]}", seen)
        check(not members or members[0].name in str(error), "busy", "a text with their names", outcome)
