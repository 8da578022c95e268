"""What this process knows of Kafka's compiled part, and faults in the check of its first messages."""

from __future__ import annotations

from mqplug_kafka._cluster import compiled_part
from mqplug_kafka._consume import compiled_source
from mqplug_kafka._consume.compiled_source import CompiledRows, CompiledSource

PART = compiled_part.PART


def forget_checks(monkeypatch):
    """Forget what this process has found out about the compiled part."""
    monkeypatch.setattr(PART, "_proven", set())
    monkeypatch.setattr(PART, "_refused", {})
    monkeypatch.setattr(PART, "_logged", set())


def proven():
    """Return the uses that were checked and found right."""
    return PART._proven


def refused():
    """Return the uses that were refused."""
    return set(PART._refused)


def need_no_sender(monkeypatch):
    """Let ``native="required"`` depend only on whether the compiled part reads."""
    monkeypatch.setitem(compiled_part.NEEDED, "sends", "Reader")


def count_fetched(monkeypatch):
    """Return a list that gets the number of messages in each run that the compiled part fetches."""
    counts = []

    class Counting(CompiledSource):
        def fetch(self, most, timeout, only):
            fetched = super().fetch(most, timeout, only)
            counts.extend(len(rows) for _, rows in fetched.runs)
            return fetched

    monkeypatch.setattr("mqplug_kafka._consume.reader.CompiledSource", Counting)
    return counts


def change_runs(monkeypatch, changed):
    """Read each run of the compiled part as ``changed(run)``."""
    monkeypatch.setattr(compiled_source, "CompiledRows", lambda run: CompiledRows(changed(run)))


def change_answers(monkeypatch, changed, *, within=None):
    """Answer with ``changed(answered, check, timeout)`` whether a check is done, if given within these seconds."""
    answered = compiled_source._SecondReading.is_done
    monkeypatch.setattr(
        compiled_source._SecondReading, "is_done", lambda check, timeout: changed(answered, check, timeout)
    )
    if within is not None:
        monkeypatch.setattr(compiled_source, "ANSWER_S", within)
