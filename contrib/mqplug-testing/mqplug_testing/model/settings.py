"""The settings of topics, as far as they are known."""

from __future__ import annotations

import attrs

import mqplug
from mqplug import TopicNotFound
from mqplug_testing.model import rules
from mqplug_testing.model.rules import Outcome, check, value_of
from mqplug_testing.model.topics import Topic, Topics


@attrs.frozen
class Settings:
    """The retention of a topic. What is None was not given, or is not reported."""

    retention: float | None
    retention_bytes: int | None


class TopicSettings:
    """The settings of each topic when it was last described or altered."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[Topic, Settings] = {}

    def described(self, topic: str, outcome: Outcome) -> None:
        """Judge ``describe``."""
        if not self._topics.exists(topic):
            rules.refused(outcome, "missing", TopicNotFound)
            return
        seen: Settings = value_of(outcome, "describe")
        wanted = self._known.setdefault(self._topics.current[topic], seen)
        check(seen == wanted, "altered", wanted, seen)

    def altered(self, topic: str, before: Outcome, given: Settings, outcome: Outcome) -> None:
        """Judge ``alter_topic``, given how the topic was described before."""
        self.described(topic, before)
        if not self._topics.exists(topic):
            rules.refused(outcome, "missing", TopicNotFound)
            return
        there = self._topics.current[topic]
        old, seen = self._known[there], value_of(outcome, "alter")
        retention = old.retention if given.retention is None else given.retention
        size = old.retention_bytes if given.retention_bytes is None else given.retention_bytes
        check(seen == Settings(retention, size), "alter", Settings(retention, size), seen)
        self._known[there] = seen

    def refused(self, topic: str, error: str, outcome: Outcome) -> None:
        """Judge ``alter_topic`` with wrong arguments, which raises the error of this name."""
        kind = getattr(mqplug, error, None) or {"TypeError": TypeError, "ValueError": ValueError}[error]
        kinds = (kind,) if self._topics.exists(topic) else (kind, TopicNotFound)
        rules.refused(outcome, "not-altered", *kinds)
