from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from rocksmq_stores import OpenStore, extent, new_log, nightly, put, values
from store_seam import BelowRetained, PageColumns, Store, TopicRetention, check_store, set_clock, statistics

import mqplug
from mqplug import Closed, ConfigError, MessageTooLarge, TopicExists, TopicNotFound
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.keys import TIME, log_key

pytestmark = pytest.mark.python


@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_round_trip(open_store: OpenStore, sync: str) -> None:
    """Stored messages are read again, in every mode, also after reopening the store."""
    store = open_store(sync=sync)
    log = new_log(store)
    assert [put(store, log, b"a", None), put(store, log, b""), put(store, log, b"c" * 300_000)] == [0, 2, 3]
    expected = [b"a", None, b"", b"c" * 300_000]
    assert values(store, log) == expected
    store.close()
    store = open_store(sync=sync)
    assert values(store, log) == expected
    assert put(store, log, b"more") == 4


def test_compression(open_store: OpenStore) -> None:
    """Tables are compressed as the setting says; tables of one setting are readable with any other."""
    sizes, before = {}, 0
    for compression in ("none", "lz4", "zstd"):
        store = open_store(compression=compression)
        put(store, new_log(store, compression), *[b"%08d the same words again and again" % n * 20 for n in range(5000)])
        store.close()  # which writes the tables
        store = open_store()
        sizes[compression] = statistics(store).tables - before
        before += sizes[compression]
        assert all(len(values(store, store.topics.get(name).logs[0])) == 5000 for name in sizes)
        store.close()
    assert sizes["zstd"] < sizes["lz4"] < sizes["none"] / 2


def test_logs_are_apart(store: Store) -> None:
    """Topics and partitions have separate messages."""
    first, second = store.topics.create("t", 2, TopicRetention(), 30).logs
    third = new_log(store, "t1")
    for number, log in enumerate((third, first, second)):
        put(store, log, b"%d" % number)
    assert [values(store, log) for log in (first, second, third)] == [[b"1"], [b"2"], [b"0"]]


def test_large_batches_become_pages(store: Store) -> None:
    """A batch is cut into pages of a thousand messages or 256 KiB."""
    log = new_log(store)
    many = [b"%d" % n for n in range(2500)]
    large = [b"x" * 100_000] * 5
    put(store, log, *many)
    put(store, log, *large)
    slices = store.read(log, 0, 10_000, 1 << 30)
    assert [len(part) for part in slices] == [1000, 1000, 500, 2, 2, 1]
    assert values(store, log) == [*many, *large]


def test_read_from_the_middle(store: Store) -> None:
    """A read begins at the offset and ends after the requested number of messages."""
    log = new_log(store)
    for start in range(0, 30, 10):
        put(store, log, *(b"%d" % n for n in range(start, start + 10)))
    slices = store.read(log, 7, 6)
    assert [value for part in slices for value in part.page.values()[part.start : part.stop]] == [
        b"%d" % n for n in range(7, 13)
    ]
    assert slices[-1].end == 13


def test_nothing_beyond_the_end(store: Store) -> None:
    """After the last message there is nothing, and then the next message."""
    log = new_log(store)
    put(store, log, b"a")
    assert store.read(log, 1) == store.read(log, 100) == []
    put(store, log, b"b")
    assert values(store, log, 1) == [b"b"]


def test_readers_stop_at_what_is_safe(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``always`` a message can be read once it is on disk, and not before."""
    store = open_store(sync="always")
    log = new_log(store)
    pages = store.engine.pages
    begun, go_on, sync = threading.Event(), threading.Event(), pages.sync

    def held_sync() -> None:
        begun.set()
        assert go_on.wait(20)
        sync()

    monkeypatch.setattr(pages, "sync", held_sync)
    stored = threading.Event()
    assert store.append(log, PageColumns([1], [b"a"]), lambda _offset, _error: stored.set()) == 0
    assert begun.wait(20)
    assert (values(store, log), extent(store, log), stored.is_set()) == ([], (0, 0), False)
    go_on.set()
    assert stored.wait(20)
    assert (values(store, log), extent(store, log)) == ([b"a"], (0, 1))


def test_one_sync_for_many(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages stored while a sync runs share the next one."""
    store = open_store(sync="always")
    log = new_log(store)
    pages = store.engine.pages
    begun, go_on, syncs, sync = threading.Event(), threading.Event(), [], pages.sync

    def held_sync() -> None:
        syncs.append(1)
        begun.set()
        assert go_on.wait(20)
        sync()

    monkeypatch.setattr(pages, "sync", held_sync)
    left = threading.Semaphore(0)
    for number in range(50):
        store.append(log, PageColumns([1], [b"%d" % number]), lambda _offset, _error: left.release())
        assert begun.wait(20)
    go_on.set()
    for _ in range(50):
        assert left.acquire(timeout=20)
    assert len(syncs) == 2
    assert len(values(store, log)) == 50


def test_many_threads(open_store: OpenStore) -> None:
    """Threads that store at the same time lose nothing, and each one's messages stay in order."""
    store = open_store(sync="always")
    log = new_log(store)

    def write(name: int) -> None:
        for number in range(50):
            put(store, log, b"%d %d" % (name, number))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = [tuple(map(int, value.split())) for value in values(store, log) if value]
    assert len(found) == 400
    for name in range(8):
        assert [number for writer, number in found if writer == name] == list(range(50))


def test_offsets_are_never_used_again(open_store: OpenStore) -> None:
    """After everything was trimmed and the store reopened, offsets continue."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a", b"b", b"c")
    store.trim(log, 3)
    assert extent(store, log) == (3, 3)
    store.close()
    store = open_store(sync="os")
    assert extent(store, log) == (3, 3)
    assert put(store, log, b"d") == 3


def test_log_numbers_are_never_used_again(open_store: OpenStore) -> None:
    """A topic with an old name has new logs, and begins empty."""
    store = open_store(sync="os")
    old = new_log(store)
    put(store, old, b"old")
    store.delete_topic("orders")
    store.close()
    store = open_store(sync="os")
    new = new_log(store)
    assert new != old
    assert values(store, new) == []
    with pytest.raises(TopicNotFound):
        store.read(old, 0)


def test_trim(store: Store) -> None:
    """A trim removes exactly the messages before the offset, also in the middle of a page."""
    log = new_log(store)
    put(store, log, b"a", b"b", b"c")
    put(store, log, b"d")
    store.trim(log, 1)
    assert (extent(store, log), values(store, log, 1)) == ((1, 4), [b"b", b"c", b"d"])
    with pytest.raises(BelowRetained) as trimmed:
        store.read(log, 0)
    assert trimmed.value.low == 1
    store.trim(log, 3)
    store.trim(log, 2)
    assert (extent(store, log), store.bounds(log)) == ((3, 4), (3, 3))
    store.trim(log, 99)
    assert (extent(store, log), store.bounds(log)) == ((4, 4), None)


def test_topics(open_store: OpenStore) -> None:
    """Topics can be created once, found, enlarged and deleted."""
    store = open_store(sync="os")
    first = store.topics.create("a", 2, TopicRetention(), 30)
    with pytest.raises(TopicExists):
        store.topics.create("a", 2, TopicRetention(), 30)
    assert store.topics.grow("a", 3, 30).logs[:2] == first.logs
    with pytest.raises(ValueError, match="already has 3 partitions"):
        store.topics.grow("a", 1, 30)
    store.topics.retain("a", {"size": 5}, 30)
    store.topics.retain("a", {"milliseconds": None}, 30)
    store.topics.create("b", 1, TopicRetention(), 30)
    store.delete_topic("b")
    with pytest.raises(TopicNotFound):
        store.delete_topic("b")
    store.close()
    store = open_store(sync="os")
    assert store.topics.names() == ["a"]
    assert (len(store.topics.get("a").logs), store.topics.get("a").retention) == (3, TopicRetention(None, 5))


def test_wait(store: Store) -> None:
    """A waiting reader is woken by a new message, and times out without one."""
    log = new_log(store)
    assert not store.wait({log: 0}, 0.01)
    timer = threading.Timer(0.05, put, (store, log, b"a"))
    timer.start()
    assert store.wait({log: 0}, 20)
    timer.join()
    assert store.wait({log: 0}, 0)


def test_waiting_for_a_deleted_topic(store: Store) -> None:
    """Deleting a topic ends the wait for its messages with an error."""
    log = new_log(store)
    timer = threading.Timer(0.05, store.delete_topic, ("orders",))
    timer.start()
    with pytest.raises(TopicNotFound):
        store.wait({log: 0}, 20)
    timer.join()


def test_closed(store: Store) -> None:
    """A closed store refuses everything, and can be closed again."""
    log = new_log(store)
    store.close()
    store.close()
    for call in (
        lambda: put(store, log, b"a"),
        lambda: store.read(log, 0),
        lambda: store.watermarks([log]),
        lambda: store.topics.create("b", 1, TopicRetention(), 1),
        lambda: store.groups.position("g", log),
    ):
        with pytest.raises(Closed):
            call()


def test_closed_while_it_compacts(open_store: OpenStore) -> None:
    """A close that cancels a compaction raises nothing; writes that are in no table by then are in the log."""
    store = open_store()
    log = new_log(store)
    put(store, log, *[b"x" * 1000] * 2000)
    store.engine.pages.cancel()
    store.close(30)
    again = open_store()
    assert len(values(again, log)) == 2000


def test_cancelled_while_it_is_opened_again(open_store: OpenStore) -> None:
    """A close that cancels compactions while another thread reopens the database raises nothing."""
    pages = open_store().engine.pages
    opening = threading.Thread(target=lambda: [pages.reopen() for _ in range(30)])
    opening.start()
    while opening.is_alive():
        pages.cancel()
    opening.join()


def test_too_large(store: Store) -> None:
    """A batch that fits into no page is refused before anything is stored."""
    log = new_log(store)
    half = bytes(600 << 20)
    with pytest.raises(MessageTooLarge):
        put(store, log, half, half)
    assert extent(store, log) == (0, 0)


def test_settings_are_checked(path: Path) -> None:
    """An unknown mode raises an error with the valid ones."""
    with pytest.raises(ConfigError, match="'always', 'interval', 'os'"):
        mqplug.connect("rocksmq", path=str(path), sync="sometimes")


def test_one_page_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up by time reads the page that has the message, and no later page."""
    log = new_log(store)
    for time in range(100):
        put(store, log, *[b"x" * 100] * 10, time=time)
    read, found = store.engine.pages.read, []

    def count(*arguments: Any) -> list[tuple[int, bytes]]:
        found.extend(pages := read(*arguments))
        return pages

    monkeypatch.setattr(store.engine.pages, "read", count)
    assert store.first_at(log, 50) == 500
    assert [base for base, _ in found] == [500]


def test_entries_of_the_time_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up by time starts at an entry of the time index at most 10 ms before; not every message has an entry."""
    log = new_log(store)
    set_clock(monkeypatch, 5000)
    for time in range(100):
        put(store, log, *[b"x" * 100] * 10, time=time)
    assert len(store.engine.pages.scan(log_key(log, TIME))) == 10
    read, started = store.engine.pages.read, []

    def note(segment: int, offset: int, *more: Any) -> list[tuple[int, bytes]]:
        started.append(offset)
        return read(segment, offset, *more)

    monkeypatch.setattr(store.engine.pages, "read", note)
    for time in range(100):
        started.clear()
        assert store.first_at(log, time) == time * 10
        assert started[0] == time // 10 * 100


def test_a_send_writes_two_values(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A send writes its page, and its log's record, which also counts the change."""
    log = new_log(store)
    put(store, log, b"a")
    written: list[bytes] = []
    put_page, put_value = Changes.put_page, Changes.put
    set_clock(monkeypatch, store.topics.log(log).marked_at)
    monkeypatch.setattr(Changes, "put_page", lambda *each: written.append(b"page") or put_page(*each))
    monkeypatch.setattr(Changes, "put", lambda *each: written.append(each[1]) or put_value(*each))
    put(store, log, b"b")
    assert written == [b"page", log_key(log)]


def test_first_at(store: Store) -> None:
    """The first message at or after a time is found in log order, whatever the order of the times."""
    log = new_log(store)
    times = [50, 10, 70, 20, 20, 90, 5]
    for time in times:
        put(store, log, b"x", time=time)
    put(store, log, *[b"y"] * 3, time=95)
    times += [95] * 3
    for wanted in range(101):
        expected = next((index for index, time in enumerate(times) if time >= wanted), len(times))
        assert store.first_at(log, wanted) == expected
    store.trim(log, 3)
    for wanted in range(101):
        expected = next((i for i, time in enumerate(times) if i >= 3 and time >= wanted), len(times))
        assert store.first_at(log, wanted) == expected


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 8))])
def test_first_at_for_clocks_that_go_back(path: Path, open_store: OpenStore, seed: int) -> None:
    """A look-up by time is exact for clocks that stand still, jump and go back, after trims, and after reopening."""
    chance = random.Random(seed)
    store = open_store(sync="os")
    log, now, low = new_log(store, milliseconds=None), 100_000, 0
    times: list[int] = []
    for _ in range(6):
        for _ in range(60):
            now += chance.choice((0, 0, 1, 1, 3, 9, 10, 11, 40, -12, -60))
            stamps = [now + chance.randrange(4) for _ in range(chance.choice((1, 1, 1, 3)))]
            store.append(log, PageColumns(stamps, [b"x" * chance.choice((10, 10, 100_000))] * len(stamps)))
            times += stamps
        for wanted in (chance.randrange(min(times) - 2, max(times) + 14) for _ in range(200)):
            expected = next((i for i, time in enumerate(times) if i >= low and time >= wanted), len(times))
            assert store.first_at(log, wanted) == expected
        if chance.random() < 0.5:
            low = chance.randrange(low, len(times))
            store.trim(log, low)
        if chance.random() < 0.5:
            store.close(10)
            assert check_store(path).sound
            store = open_store(sync="os")
