"""Logs that are partly staged and ingested, compared with a list of all messages."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from bulk_loads import staged, take
from rocksmq_stores import OpenStore, new_log, nightly, put, values
from store_seam import Store, check_store, rebuild


class Model:
    """A log with its messages: their values and times."""

    def __init__(self, store: Store, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = store
        self.log = new_log(store)
        self.messages: list[tuple[bytes, int]] = []
        self.low = 0
        self.batches = 0

    def fresh(self) -> list[bytes]:
        """Return some new values."""
        return [b"%d" % (len(self.messages) + number) for number in range(self.random.randint(1, 5))]

    def append(self) -> None:
        """Append a page."""
        page, time = self.fresh(), self.random.randint(1, 2000)
        put(self.store, self.log, *page, time=time)
        self.messages += [(value, time) for value in page]

    def ingest(self) -> None:
        """Ingest one or two files of several pages."""
        parts = []
        for _ in range(self.random.randint(1, 2)):
            time = self.random.randint(1, 2000)
            pages = []
            for _ in range(self.random.randint(1, 4)):
                pages.append(self.fresh())
                self.messages += [(value, time) for value in pages[-1]]
            parts.append(staged(self.store, *pages, time=time))
        before = len(self.messages) - sum(part.messages for part in parts)
        assert take(self.store, *parts, number=self.batches).placed == {self.log: (before, len(self.messages))}
        self.batches += 1

    def trim(self) -> None:
        """Drop some messages."""
        self.low = self.random.randint(self.low, min(len(self.messages), self.low + 10))
        self.store.trim(self.log, self.low, 10)

    def verify(self) -> None:
        """Check that all retained messages are found, from any offset."""
        store, kept = self.store, self.messages[self.low :]
        assert store.watermarks([self.log])[0][:2] == (self.low, len(self.messages))
        for offset in range(self.low, len(self.messages), 3):
            assert values(store, self.log, offset) == [value for value, _ in self.messages[offset:]]
        assert store.bounds(self.log) == ((self.low, len(self.messages) - 1) if kept else None)
        for time in (0, 500, 1000, 1999, 3000):
            later = [offset for offset, (_, at) in enumerate(kept, self.low) if at >= time]
            assert store.first_at(self.log, time) == (later[0] if later else len(self.messages))
        for count in (1, 7):
            assert store.nth_last(self.log, count) == max(self.low, len(self.messages) - count)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 12))])
def test_grafted_log(path: Path, open_store: OpenStore, seed: int) -> None:
    """After any sequence of sends, ingests and trims, reads, look-ups, reopening and checks agree."""
    store = open_store(sync="os")
    model = Model(store, seed)
    for _ in range(8):
        for _ in range(8):
            model.random.choice([model.append, model.ingest, model.ingest, model.trim])()
        model.verify()
        model.store.close(10)
        report = check_store(path)
        assert (report.findings, report.messages) == ([], len(model.messages) - model.low)
        model.store = open_store(sync="os")
        model.verify()


@pytest.mark.parametrize("seed", [0, *nightly(1, 2)])
def test_rebuilt_log(path: Path, open_store: OpenStore, seed: int) -> None:
    """A repair stores ingested messages in the log's own segment, message for message."""
    model = Model(open_store(sync="os"), seed)
    for _ in range(10):
        for action in (model.append, model.ingest, model.trim):
            action()
        model.trim()
    model.store.close(10)
    assert rebuild(path, backup=False).report.findings == []
    model.store = open_store(sync="os")
    assert not model.store.topics.log(model.log).has_ingested_runs
    model.verify()
