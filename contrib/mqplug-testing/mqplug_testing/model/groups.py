"""The groups of a world: their stored positions, and what queries about them may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from mqplug import ConsumerBusy, GroupNotFound, InvalidMessageId, PositionLost, TopicNotFound
from mqplug.spi import GroupPosition
from mqplug_testing.model.logs import AnyStart, LogModel, Places
from mqplug_testing.model.readings import Snapshot
from mqplug_testing.model.rules import Outcome, check, refused, value_of
from mqplug_testing.model.topics import Topic, Topics, far_beyond, named_log


class Groups:
    """All groups by name. In each log, a group has the states that may be stored: acks may be stored at any time."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.stored: dict[str, dict[LogModel, list[Snapshot]]] = {}
        self.members: dict[str, set[str]] = {}
        self.added: set[LogModel] = set()  # added partitions, where a backend may place its groups at once or later

    def latest(self, group: str, log: LogModel) -> Snapshot | None:
        """Return the last state of a group in a log, if it has one."""
        states = self.stored.get(group, {}).get(log)
        return states[-1] if states else None

    def begins(self, group: str, log: LogModel) -> list[Snapshot]:
        """Return the states of which a new member finds one."""
        return self.stored[group][log]

    def store(self, group: str, log: LogModel, *states: Snapshot) -> None:
        """Note that one of these states is stored."""
        self.stored.setdefault(group, {})[log] = list(states)

    def may_store(self, group: str, log: LogModel, state: Snapshot) -> None:
        """Note that a state may be stored from now on."""
        self.stored[group].setdefault(log, []).append(state)

    def begin(self, group: str, logs: Mapping[LogModel, Places]) -> None:
        """Place a group in the logs where it has no position yet."""
        for log, places in logs.items():
            if self.latest(group, log) is None:
                (point,) = places.points
                self.store(group, log, Snapshot(point, frozenset(), places.beyond))

    def grown(self, topic: Topic, logs: Sequence[LogModel]) -> None:
        """Note that a topic has new partitions, which its groups read from the beginning."""
        self.added |= set(logs)
        for group in self.stored:
            if self._of_topic(group, topic):
                self.begin(group, {log: Places(points=frozenset({log.low})) for log in logs})

    def has_position(self, group: str, topic: Topic) -> bool:
        """Return whether a group has a position in a topic."""
        return bool(self._of_topic(group, topic))

    def _of_topic(self, group: str, topic: Topic) -> dict[LogModel, list[Snapshot]]:
        there = self.stored.get(group, {})
        return {log: there[log] for log in topic.logs if log in there}

    # queries -----------------------------------------------------------------------------------------------

    def positions(self, group: str, topic: str, outcome: Outcome) -> None:
        """Judge ``positions``."""
        known = self._asked(group, topic, outcome)
        if known is None:
            return
        found = value_of(outcome, "positions")
        numbers = {log.log.partition for log in known}
        needed = {log.log.partition for log in known if log not in self.added}
        check(needed <= set(found) <= numbers, "positions", f"partitions {sorted(numbers)}", found)
        for log, states in known.items():
            if log.log.partition not in found:
                continue
            seen = self._seen(log, found[log.log.partition])
            rest = [number for number, state in enumerate(states) if self._alike(state, seen, log)]
            check(rest, "positions", self._shown(log, states), repr(found[log.log.partition]))
            del states[: rest[0]]

    def _asked(self, group: str, topic: str, outcome: Outcome) -> dict[LogModel, list[Snapshot]] | None:
        if not self._topics.exists(topic):
            refused(outcome, "missing", TopicNotFound)
            return None
        known = self._of_topic(group, self._topics.current[topic])
        if not known:
            refused(outcome, "positions", GroupNotFound)
            return None
        return known

    def _seen(self, log: LogModel, found: GroupPosition) -> Snapshot:
        check(found.position.log is log.log, "positions", f"a position in {log.log!r}", repr(found))
        acked = {
            row
            for first, last in found.acked
            for row, each in enumerate(log.stored)
            if first <= each.id.coordinates <= last
        }
        return Snapshot(log.point(found.position), frozenset(acked), found.position)

    def _alike(self, state: Snapshot, seen: Snapshot, log: LogModel) -> bool:
        if self._topics.able.ack_granularity == "message":
            return state.same(seen, log)
        point = seen.first_unacked(log)
        return point <= state.first_unacked(log) and seen.acked <= state.acked | set(range(state.point))

    def _shown(self, log: LogModel, states: Sequence[Snapshot]) -> str:
        points = [state.first_unacked(log) for state in states]
        later = [len(state.acked_after(point)) for state, point in zip(states, points, strict=True)]
        texts = [
            f"before {log.name(point)}, and {count} acked after it" for point, count in zip(points, later, strict=True)
        ]
        return " or ".join(dict.fromkeys(texts))

    def lag(self, group: str, topic: str, outcome: Outcome) -> None:
        """Judge ``lag``."""
        known = self._asked(group, topic, outcome)
        if known is None:
            return
        found = value_of(outcome, "lag")
        for log in self._topics.current[topic].logs:
            lag = found[log.log.partition]
            allowed = {count for state in known.get(log, [Snapshot(log.low)]) for count in self._lags(log, state)}
            right = lag in allowed if self._topics.able.count_exact else lag > 0 or 0 in allowed
            check(right, "lag", " or ".join(map(str, sorted(allowed))), lag)

    def _lags(self, log: LogModel, state: Snapshot) -> set[int]:
        """Return the lags that a state may have: with or without the acked messages after its position."""
        point = max(log.low, log.passed(state.point, state.beyond))
        return {log.end - point, log.end - state.first_unacked(log)}

    def listed(self, topic: str, outcome: Outcome) -> bool:
        """Judge the names of ``groups``: those that have a position. Return whether there is such a topic."""
        if not self._topics.exists(topic):
            refused(outcome, "missing", TopicNotFound)
            return False
        wanted = sorted(each for each in self.stored if self._of_topic(each, self._topics.current[topic]))
        seen = value_of(outcome, "no-trace")
        check(seen == wanted, "no-trace", wanted, seen)
        return True

    # changes -----------------------------------------------------------------------------------------------

    def reset(self, group: str, topic: str, to: AnyStart, lenient: bool, outcome: Outcome, *, read: bool) -> None:
        """Judge ``reset_group``. It may move a group with members if none of them reads the topic."""
        if not self._topics.exists(topic):
            refused(outcome, "missing", TopicNotFound)
            return
        there = self._topics.current[topic]
        logs = there.logs
        if (named := named_log(to)) is not None:
            if (log := there.log_of(named)) is None:
                refused(outcome, "deleted", InvalidMessageId, PositionLost)
                return
            logs = [log]
        places = {log: log.places(to, lenient=lenient) for log in logs}
        if outcome.error is not None:
            if far_beyond(to, logs) and isinstance(outcome.error, InvalidMessageId):
                return
            lost = [log for log, each in places.items() if each.lost or each.may_be_lost]
            if lost and isinstance(outcome.error, PositionLost):
                lost[0].check_lost(outcome, "lost")
                return
            if self.members.get(group):
                refused(outcome, "busy", ConsumerBusy)
                return
        value_of(outcome, "reset")
        check(not read, "busy", "ConsumerBusy", "success")
        for log, each in places.items():
            check(not each.lost, "lost", "PositionLost", "success")
            (point,) = each.points
            self.store(group, log, Snapshot(point, frozenset(), each.beyond))
        self.begin(group, {log: Places(points=frozenset({log.low})) for log in there.logs})

    def copied(self, group: str, other: str, topic: str, outcome: Outcome) -> None:
        """Judge ``reset_group`` with ``missing="next"`` to the positions of another group."""
        value_of(outcome, "copied")
        for log, states in self._of_topic(group, self._topics.current[topic]).items():
            self.store(other, log, *(attrs.evolve(each, point=max(each.point, log.low)) for each in states))

    def deleted(self, group: str, outcome: Outcome) -> None:
        """Judge ``delete_group``. A member whose topics are all deleted may count as none."""
        left = any(not log.deleted for log in self.stored.get(group, {}))
        if self.members.get(group) and left:
            refused(outcome, "busy", ConsumerBusy)
        elif self.members.get(group) and outcome.error is not None:
            refused(outcome, "busy", ConsumerBusy, GroupNotFound)
        elif outcome.error is not None:
            refused(outcome, "delete-group", GroupNotFound)
            check(not left, "delete-group", "success", outcome)
        else:
            self.stored.pop(group, None)
