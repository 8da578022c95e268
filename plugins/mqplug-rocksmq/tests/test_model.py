from __future__ import annotations

import random

import pytest
from rocksmq_stores import OpenStore, extent, nightly, values
from store_seam import BelowRetained, PageColumns, Store, TopicRetention


class Model:
    """The content of a log, as a plain list."""

    def __init__(self) -> None:
        self.low = 0
        self.stored: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = []

    def first_at(self, time: int) -> int:
        found = (index for index in range(self.low, len(self.stored)) if self.stored[index][0] >= time)
        return next(found, len(self.stored))


def some_bytes(chance: random.Random) -> bytes | None:
    """Return bytes of many lengths, or None."""
    return None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 7, 100, 5000)))


def some_messages(chance: random.Random) -> PageColumns:
    """Return a batch in which any of the columns may be absent."""
    count = chance.choice((1, 1, 2, 10, 1500))
    headers = [
        tuple((chance.choice(("a", "é", "")), some_bytes(chance)) for _ in range(chance.randrange(3)))
        for _ in range(count)
    ]
    return PageColumns(
        [chance.randrange(1000) for _ in range(count)],
        [some_bytes(chance) for _ in range(count)],
        None if chance.random() < 0.3 else [some_bytes(chance) for _ in range(count)],
        None if chance.random() < 0.5 else headers,
    )


def append(store: Store, log: int, model: Model, chance: random.Random) -> None:
    """Store a batch."""
    columns = some_messages(chance)
    assert store.append(log, columns) == len(model.stored)
    count = len(columns.times)
    headers = [tuple(row) for row in columns.headers or [()] * count]
    model.stored += zip(columns.times, columns.keys or [None] * count, columns.values or (), headers, strict=True)


def trim(store: Store, log: int, model: Model, chance: random.Random) -> None:
    """Drop some of the oldest messages."""
    offset = chance.randrange(model.low, len(model.stored) + 1)
    store.trim(log, offset)
    model.low = offset


def look(store: Store, log: int, model: Model, chance: random.Random) -> None:
    """Read from any offset."""
    assert extent(store, log) == (model.low, len(model.stored))
    offset = chance.randrange(len(model.stored) + 3)
    if offset < model.low:
        with pytest.raises(BelowRetained):
            store.read(log, offset)
        return
    found = []
    for part in store.read(log, offset, chance.choice((1, 3, 5000)), chance.choice((1, 1 << 20))):
        page, count = part.page, part.page.count
        rows = zip(page.times(), page.keys(), page.values(), page.headers() or [()] * count, strict=True)
        found += list(rows)[part.start : part.stop]
    assert found == model.stored[offset : offset + len(found)]
    assert found or offset >= len(model.stored)


def search(store: Store, log: int, model: Model, chance: random.Random) -> None:
    """Look up a time, and both ends."""
    time = chance.randrange(1005)
    assert store.first_at(log, time) == model.first_at(time)
    empty = model.low == len(model.stored)
    assert store.bounds(log) == (None if empty else (model.low, len(model.stored) - 1))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 8))])
def test_a_store_is_a_list(open_store: OpenStore, seed: int) -> None:
    """After any sequence of appends, trims, look-ups and reopening, a log behaves like a list."""
    chance = random.Random(seed)
    store = open_store(sync="os")
    logs = store.topics.create("orders", 2, TopicRetention(None), 30).logs
    models = {log: Model() for log in logs}
    for _ in range(120):
        log = chance.choice(logs)
        step = chance.choices((append, look, search, trim, None), (5, 8, 6, 2, 1))[0]
        if step is None:
            store.close()
            store = open_store(sync="os")
        else:
            step(store, log, models[log], chance)
    for log, model in models.items():
        assert values(store, log, model.low) == [value for _, _, value, _ in model.stored[model.low :]]
