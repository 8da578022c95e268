"""The transactions of a world: which steps were committed, and under which numbers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mqplug import NotCommitted, OutcomeUnknown
from mqplug_testing.model.rules import Outcome, check, refused, value_of
from mqplug_testing.model.topics import Sent, Topic, Topics


@attrs.frozen
class Mark:
    """The highest committed number of a name in a topic, and its note."""

    number: int
    note: str


class Transactions:
    """All transactions by name."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._marks: dict[tuple[str, Topic], Mark] = {}

    def begun(self, name: str, topic: str, number: int | None, outcome: Outcome) -> bool:
        """Judge the beginning of a step by its ``repeated`` and its note. Return whether it is repeated."""
        repeated, note = value_of(outcome, "repeated")
        known = self._marks.get((name, self._topics.current[topic]))
        wanted = number is not None and known is not None and number <= known.number
        check(repeated is wanted, "repeated", f"repeated={wanted}", f"repeated={repeated}")
        if wanted and known is not None:
            check(note == known.note, "note", repr(known.note), repr(note))
        return wanted

    def committed(self, name: str, topic: str, mark: Mark | None, outcome: Outcome) -> None:
        """Judge ``commit`` of a step that is not repeated."""
        value_of(outcome, "atomic")
        if mark is not None:
            self._marks[name, self._topics.current[topic]] = mark

    def results(
        self, topic: str, records: Sequence[Sent], outcomes: Sequence[Outcome], between: tuple[int, int], end: str
    ) -> None:
        """Judge the results of the handles of a step, which was ``"committed"``, ``"aborted"`` or ``"repeated"``."""
        if end != "committed":
            for outcome in outcomes:
                if end == "aborted":
                    refused(outcome, "not-committed", NotCommitted)
                else:
                    refused(outcome, "repeated", OutcomeUnknown)
            return
        ids = [value_of(outcome, "atomic") for outcome in outcomes]
        self._topics.committed(topic, records, ids, between)
