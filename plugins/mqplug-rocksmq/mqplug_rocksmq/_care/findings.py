"""What is wrong with a store, in words and numbers."""

from __future__ import annotations

import attrs


@attrs.frozen
class Finding:
    """One thing that is wrong; where messages cannot be read, those are *start* up to, and without, *stop*."""

    what: str
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    stop: int | None = None


@attrs.define
class SurveyReport:
    """What a look at a store found. ``store`` is the store's name, as the database says."""

    store: str | None = None
    pages: int = 0
    messages: int = 0
    topics: int = 0
    groups: int = 0
    findings: list[Finding] = attrs.field(factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def add(self, what: str, topic: str | None = None, partition: int | None = None) -> None:
        """Note what is wrong."""
        self.findings.append(Finding(what, topic, partition))
