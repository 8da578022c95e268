"""CC: many who write, read and trim at once, and the history that they leave."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

import pytest

from mqplug import EARLIEST, Consumer, Message, MessageId, Position, PositionLost, Record
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_order import WAYS

case = Registry()

WRITERS: Final = 16
READERS: Final = 4
ROUNDS: Final = 6


@case("CC-11", hooks=("trim_before",), timeout=180)
def test_trimmed_while_read(bench: Bench) -> None:
    """While a topic is trimmed a reader gets every message that is there, or ``PositionLost``; never wrong data."""
    topic, ids = bench.filled(50)
    reader, found = bench.reader(topic, prefetch_bytes=1_000), list[Message]()
    with ThreadPoolExecutor(1) as pool:
        trimming = pool.submit(_send_and_trim, bench, topic, ids)

        def at_the_end() -> bool:
            try:
                found.extend(reader.receive_many(7, bench.waiting.poll))
            except PositionLost:
                reader.seek(EARLIEST)
            return trimming.done() and bool(found) and found[-1].id == ids[-1]

        bench.wait(at_the_end, "the reader came to the end", within=100)
        trimming.result()
    numbers = {message_id: number for number, message_id in enumerate(ids)}
    bench.equal([message.value for message in found], [b"%d" % numbers[message.id] for message in found])
    places = [numbers[message.id] for message in found]
    bench.that(all(one < other for one, other in pairwise(places)), f"never back: {places}")
    low = bench.marks(topic).low
    left = [message_id for message_id in ids if low.precedes(message_id)]
    bench.equal([message.id for message in found][-len(left) :], left, "all that is left came")
    if bench.client.capabilities.trim:
        _told_of_each_gap(bench)


def _told_of_each_gap(bench: Bench) -> None:
    """The reader is overtaken a little at a time: nothing that it missed goes by without ``PositionLost``."""
    topic = bench.topic()
    ids = list(bench.filler(topic).send_many([Record(bytes(500), partition=0) for _ in range(400)]))
    numbers = {message_id: number for number, message_id in enumerate(ids)}
    reader, runs = bench.reader(topic, prefetch_bytes=2_000), list[list[int]]([[]])

    def trim() -> None:
        for first in range(2, 380, 2):
            bench.client.trim(topic, {0: Position(ids[first].log, ids[first].coordinates)})

    with ThreadPoolExecutor(1) as pool:
        trimming = pool.submit(trim)
        while not runs[-1] or runs[-1][-1] != len(ids) - 1:
            try:
                batch = reader.receive_many(1, bench.patience)
                bench.that(batch, "the reader goes on")
                runs[-1] += [numbers[message.id] for message in batch]
            except PositionLost:
                reader.seek(EARLIEST)
                runs.append([])
        trimming.result()
    gaps = [(one, other) for run in runs for one, other in pairwise(run) if other != one + 1]
    bench.equal(gaps, [], "between these the reader was told nothing")


def _send_and_trim(bench: Bench, topic: str, ids: list[MessageId]) -> None:
    """Again and again: what is there goes, and new messages come."""
    for _ in range(ROUNDS):
        bench.roll(topic)
        new = bench.fill(topic, 50, begin=len(ids))
        ids += new
        bench.trim(topic, Position(new[0].log, new[0].coordinates))


@case("CC-12", timeout=900)
def test_soak(bench: Bench) -> None:
    """Sixteen writers and four readers at once: nothing is lost, invented, doubled or out of order for any of them."""
    topic, each = bench.topic(), bench.sized(quick=20, full=200, soak=5_000)
    readers = [bench.reader(topic) for _ in range(READERS)]
    with ThreadPoolExecutor(WRITERS + READERS) as pool:
        reading = [pool.submit(_read, bench, reader, WRITERS * each) for reader in readers]
        names = [b"w%d" % number for number in range(WRITERS)]
        writing = [pool.submit(WAYS[n % len(WAYS)], bench, topic, name, each) for n, name in enumerate(names)]
        sent = [future.result() for future in writing]
        seen = [future.result() for future in reading]
    stored = sorted(pair for mine in sent for pair in mine)
    for found in seen:
        bench.equal(found, stored)
    for mine in sent:
        bench.equal([message_id for message_id, _ in mine], sorted(message_id for message_id, _ in mine))
    bench.equal([(message.id, message.value) for message in bench.read(topic)], stored, "and so it stays")


def _read(bench: Bench, reader: Consumer, count: int) -> list[tuple[MessageId, bytes | None]]:
    """The next so many messages; what comes beyond them shows in the end."""
    found: list[tuple[MessageId, bytes | None]] = []
    while len(found) < count:
        batch = reader.receive_many(100, bench.patience)
        if not batch:
            pytest.fail(f"of {count} messages only {len(found)} came in time")
        found += [(message.id, message.value) for message in batch]
    return found
