"""The findings of a check or repair."""

from __future__ import annotations

import attrs


@attrs.frozen
class Finding:
    """One defect of a store. If messages are missing, they are those from *start* up to *stop*, exclusive."""

    what: str
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    stop: int | None = None


@attrs.define
class SurveyReport:
    """The result of a survey. ``store`` is the store's id in the database."""

    store: str | None = None
    pages: int = 0
    messages: int = 0
    topics: int = 0
    groups: int = 0
    findings: list[Finding] = attrs.field(factory=list)

    @property
    def sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def add(self, what: str, topic: str | None = None, partition: int | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(what, topic, partition))
