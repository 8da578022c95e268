from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksmq_stores import Member, administer, eventually, line, native, nightly, python

import mqplug
from mqplug.spi import CreateTopic, DescribeTopic

pytestmark = pytest.mark.python

OWNER = """
import mqplug
with mqplug.connect("rocksmq", path=str(path)) as mq:
    mq.create_topic("orders", partitions=2)
    with mq.producer("orders") as out:
        for number in range(10):
            out.send(b"%d" % number, key=b"k%d" % number, headers=[("h", b"x")], timestamp=1000 + number)
        with mq.consumer("orders", group="billing") as orders:
            orders.ack(orders.receive(timeout=10))
        print("ready", flush=True)
        for command in sys.stdin:
            out.send(command.strip().encode(), partition=0)
"""


@pytest.fixture(params=["always", *nightly("interval", "os")])
def mq(request: pytest.FixtureRequest, path: Path) -> Iterator[mqplug.Client]:
    """A client, in each mode."""
    with mqplug.connect("rocksmq", path=str(path), sync=request.param) as client:
        yield client


@pytest.fixture
def reader(path: Path) -> Iterator[tuple[mqplug.Client, Any]]:
    """A client of a store that another process owns."""
    with python(OWNER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as client:
            yield client, owner


@pytest.mark.parametrize("kept", [0, 1])
def test_a_producer_outlives_a_smaller_topic_of_its_name(mq: mqplug.Client, path: Path, kept: int) -> None:
    """A send to a partition that the recreated topic does not have raises ``TopicNotFound``."""
    mq.create_topic("orders", partitions=2)
    with mqplug.connect(f"rocksmq://{path}?sync={native(mq).settings.sync}") as other, mq.producer("orders") as out:
        out.send(b"before", partition=kept)
        other.delete_topic("orders")
        other.create_topic("orders")
        with pytest.raises(mqplug.TopicNotFound):
            out.send(b"lost", partition=1)
        assert out.send(b"after", partition=0).log is other.partitions("orders")[0]


def test_clients_share_one_store(mq: mqplug.Client, path: Path) -> None:
    """Messages that one client of a process sends are received by another at once."""
    mq.create_topic("orders")
    sync = native(mq).settings.sync
    with (
        mqplug.connect(f"rocksmq://{path}?sync={sync}") as other,
        other.consumer("orders", start=mqplug.LATEST) as orders,
        mq.producer("orders") as out,
    ):
        sent = out.send(b"hello")
        message = orders.receive(timeout=20)
        assert message is not None
        assert (message.id, message.value) == (sent, b"hello")


def test_submitted_messages_go_by_themselves(mq: mqplug.Client) -> None:
    """A message that no caller waits for is stored at once, and in order."""
    mq.create_topic("orders")
    with mq.producer("orders") as out, mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        handles = [out.submit(b"%d" % number) for number in range(2500)]
        values: list[bytes | None] = []
        while len(values) < 2500:
            batch = orders.receive_many(1000, timeout=20)
            assert len(batch)
            values += batch.values
        assert values == [b"%d" % number for number in range(2500)]
        assert [handle.result(20).coordinates for handle in handles] == [(number,) for number in range(2500)]


def test_many_submits_share_pages(mq: mqplug.Client) -> None:
    """A sender that does not wait fills pages, in every mode."""
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        for number in range(5000):
            out.submit(b"%d" % number)
        out.flush()
    log = native(mq).topics.get("orders").logs[0]
    assert len(native(mq).read(log, 0, 5000, 1 << 30)) < 500


def test_a_send_comes_behind_what_was_submitted(mq: mqplug.Client) -> None:
    """A send that waits does not overtake earlier sends that do not wait, and a batch overtakes neither."""
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        for number in range(0, 400, 4):
            out.submit(b"%d" % number)
            out.submit(b"%d" % (number + 1))
            assert out.send(b"%d" % (number + 2)).coordinates == (number + 2,)
            out.send_many([b"%d" % (number + 3)])
    assert [message.value for message in mq.read("orders")] == [b"%d" % number for number in range(400)]


def test_threads_that_send_and_submit(mq: mqplug.Client) -> None:
    """Each thread's messages are stored once, in order, under the reported ids."""
    mq.create_topic("orders")
    found: dict[mqplug.MessageId, bytes] = {}

    def work(name: int) -> None:
        for number in range(200):
            value = b"%d %d" % (name, number)
            if number % 3:
                found[out.send(value)] = value
            else:
                found[out.submit(value).result(20)] = value

    with mq.producer("orders") as out:
        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert {message.id: message.value for message in mq.read("orders")} == found
    for name in range(8):
        mine = [int(value.split()[1]) for _, value in sorted(found.items()) if value.startswith(b"%d " % name)]
        assert mine == list(range(200))


def test_small_steps_through_a_page(mq: mqplug.Client) -> None:
    """Receiving a few messages at a time returns all of them once, with their ids."""
    mq.create_topic("orders")
    with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
        ids = out.send_many([b"%d" % number for number in range(100)])
        received = [message.id for _ in range(34) for message in orders.receive_many(3, timeout=20)]
        assert received == ids
        orders.seek(ids[50])
        assert orders.receive_many(3, timeout=20).values == [b"50", b"51", b"52"]


@pytest.mark.parametrize(("partitions", "most"), [(1, 4000), (10, 1000)])
def test_pages_are_read_together(path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, most: int) -> None:
    """Several pages of a few logs are read together and handed out one by one; of many logs, one page of each."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("orders", partitions=partitions)
        with mq.producer("orders") as out:
            for _ in range(8):
                out.send_many([mqplug.Record(b"x" * 100, partition=0) for _ in range(1000)])
        store, asked = native(mq), []
        read = store.read
        monkeypatch.setattr(store, "read", lambda *given: asked.append(given[2]) or read(*given))
        with mq.consumer("orders", start=mqplug.EARLIEST, until=mqplug.LATEST) as orders:
            assert [len(batch) for batch in orders.batches()] == [1000] * 8
        assert max(asked) == most


def test_as_many_as_asked_for(path: Path) -> None:
    """A caller that asks for more than a page has gets several pages as one batch, also in part and as Arrow."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = [each for _ in range(6) for each in out.send_many([b"%d" % number for number in range(1000)])]
        with mq.consumer("orders", start=mqplug.EARLIEST, until=mqplug.LATEST) as orders:
            batch = orders.receive_many(4000, timeout=20)
            assert batch.ids == ids[:4000]
            assert batch.values == [b"%d" % number for number in range(1000)] * 4
            assert batch.next_position == mqplug.Position(batch.log, (4000,))
            assert batch.to_arrow(["offset"]).column("offset").to_pylist() == list(range(4000))
            part = batch[998:3002]
            assert (part.ids, part.to_arrow()) == (ids[998:3002], part.detached().to_arrow())
            orders.seek(ids[500])
            sizes = [len(batch) for batch in orders.batches(2000)]
            assert (sizes[0], sum(sizes), max(sizes)) == (2000, 5500, 2000)
            orders.seek(mqplug.EARLIEST)
            assert [len(batch) for batch in orders.batches(1_000_000)] == [6000]


def test_pages_are_not_cut_to_fill_a_poll(path: Path) -> None:
    """A page that was read ahead is handed out whole by the next poll, not cut to fill up another log's batch."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("orders", partitions=2)
        with mq.producer("orders") as out:
            for partition in [0, 1] * 12:
                out.send_many([mqplug.Record(b"x", partition=partition)] * 600)
        with mq.consumer("orders", start=mqplug.EARLIEST, until=mqplug.LATEST) as orders:
            sizes = [len(batch) for batch in orders.batches()]
            assert sum(sizes) == 14_400
            assert sizes.count(600) >= 12


@pytest.mark.parametrize("most", [1, 7, 1000, 1500, 4000])
def test_batches_of_pages_that_were_read(path: Path, most: int) -> None:
    """Fetched pages become batches up to the given size, without gaps, as whole pages where they fit."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = [each for _ in range(3) for each in out.send_many([b"%d" % number for number in range(1000)])]
        log = ids[0].log
        driver = Member(mq, "orders", None, start={log: mqplug.Position(log, (500,))}).driver
        batches: list[mqplug.Batch] = []
        while sum(map(len, batches)) < 2500:
            batches += driver.poll(most, 5)
        assert [each for batch in batches for each in batch.ids] == ids[500:]
        wanted = [b"%d" % (each.coordinates[0] % 1000) for each in ids[500:]]
        assert [value for batch in batches for value in batch.values] == wanted
        ends = [batch.next_position.coordinates[0] for batch in batches]
        assert ends == [each[-1].id.coordinates[0] + 1 for each in batches]
        assert max(map(len, batches)) <= most
        if most > 1000:
            assert [end % 1000 for end in ends] == [0] * len(ends)


def test_who_seeks_is_not_read_ahead_for(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a seek, no more is read than one poll returns; later reads are read ahead."""
    mq.create_topic("orders")
    store, asked = native(mq), []
    read = store.read

    def count(number: int, offset: int, most: int) -> Any:
        asked.append((offset, most))
        return read(number, offset, most)

    with mq.producer("orders") as out, mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        for _ in range(30):
            ids = out.send_many([b"x"] * 100)
        monkeypatch.setattr(store, "read", count)
        for wanted in (ids[0], ids[5]):
            asked.clear()
            orders.seek(wanted)
            assert [len(orders.receive_many(3, 20)) for _ in range(2)] == [3, 3]
            assert asked[0] == (wanted.coordinates[0], 1000)
        orders.seek(mqplug.EARLIEST)
        assert sum(len(orders.receive_many(100, 20)) for _ in range(30)) == 3000
        assert max(most for _, most in asked) > 1000


def test_arrow_agrees_with_lists(mq: mqplug.Client) -> None:
    """A batch as Arrow has the content of its lists, however it was cut."""
    mq.create_topic("orders")
    with mq.producer("orders") as out, mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        for number in range(3):
            record = mqplug.Record(b"%d" % number, key=b"k" if number else None, headers=[("h", None)] * number)
            out.send_many([record] * 10)
        batch = orders.receive_many(1000, timeout=20)
        for part in (batch, batch[3:7], batch[::3], batch[:0], batch[2:][1:]):
            plain, arrow = part.detached(), part.to_arrow()
            assert arrow.equals(plain.to_arrow())


def test_empty_content_as_arrow(mq: mqplug.Client) -> None:
    """Pages with empty columns are valid Arrow too: empty values, keys and names, and tombstones."""
    mq.create_topic("orders")
    empty = mqplug.Record(b"", key=b"", headers=[("", b""), ("", None)])
    with mq.producer("orders") as out, mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        for records in ([empty] * 3, [mqplug.Record(None)] * 3, [mqplug.Record(None), empty]):
            out.send_many(records)
            batch = orders.receive_many(10, timeout=20)
            batch.to_arrow().validate(full=True)
            assert batch.to_arrow().equals(batch.detached().to_arrow())


def test_partitions_share_a_consumer(mq: mqplug.Client) -> None:
    """No partition starves while another has many messages."""
    mq.create_topic("orders", partitions=3)
    with mq.producer("orders") as out, mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        for partition in range(3):
            for _ in range(3):
                out.send_many([mqplug.Record(b"x", partition=partition)] * 1000)
        seen = [orders.receive_many(1000, timeout=20).log.partition for _ in range(3)]
        assert sorted(seen) == [0, 1, 2]


def test_deleting_a_topic_ends_its_consumers(mq: mqplug.Client) -> None:
    """A consumer that waits on a topic that is deleted gets a typed error."""
    mq.create_topic("orders")
    with mq.consumer("orders", start=mqplug.LATEST) as orders:
        timer = threading.Timer(0.05, mq.delete_topic, ("orders",))
        timer.start()
        with pytest.raises(mqplug.TopicNotFound):
            orders.receive(timeout=20)
        timer.join()


def test_groups_survive(path: Path) -> None:
    """A group continues at its position, gaps included, after the store was closed."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send_many([b"%d" % number for number in range(6)])
        with mq.consumer("orders", group="g") as orders:
            messages = [orders.receive(timeout=20) for _ in range(6)]
            for number in (0, 1, 3, 5):
                message = messages[number]
                assert message is not None
                orders.ack(message)
    with mqplug.connect("rocksmq", path=str(path)) as mq, mq.consumer("orders", group="g") as orders:
        again = [orders.receive(timeout=20) for _ in range(2)]
        assert [message.value for message in again if message] == [b"2", b"4"]


def test_a_full_disk(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A send without disk space raises, as does each later one, until there is space again."""
    mq.create_topic("orders")

    def full(_: object) -> None:
        raise mqplug.StorageFull("no room")

    with mq.producer("orders") as out:
        out.send(b"fits")
        with monkeypatch.context() as patched:
            patched.setattr(native(mq).engine.pages, "write", full)
            patched.setattr(native(mq).engine.disk_space, "to_send", lambda: False)
            for _ in range(2):
                with pytest.raises(mqplug.StorageFull, match=r"no room|is full"):
                    out.send(b"does not")
        eventually(lambda: sent(out, b"fits again"))
    assert [message.value for message in mq.read("orders")] == [b"fits", b"fits again"]


def sent(out: mqplug.Producer, value: bytes) -> bool:
    """Return whether there was space for a message."""
    try:
        out.send(value)
    except mqplug.StorageFull:
        return False
    return True


def test_a_failing_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk cannot confirm a message, the outcome is unknown, and no more sends are accepted."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")

        def fail() -> None:
            raise mqplug.Error("I/O error")

        with mq.producer("orders") as out:
            out.send(b"safe")
            monkeypatch.setattr(native(mq).engine.pages, "sync", fail)
            with pytest.raises(mqplug.OutcomeUnknown):
                out.send(b"unknown")
            with pytest.raises(mqplug.Closed, match="its disk failed"):
                out.send(b"refused")


def test_reading_what_another_process_owns(reader: tuple[mqplug.Client, Any]) -> None:
    """A second process reads messages, watermarks, lag and bounds by the same path, and is woken by new messages."""
    mq, owner = reader
    assert mq.topics() == ["orders"]
    assert sum(each.count for each in mq.watermarks("orders").values()) == 10
    assert sum(mq.lag("orders", group="billing").values()) == 9
    with mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        messages = [orders.receive(timeout=20) for _ in range(10)]
        assert sorted(message.value or b"" for message in messages if message) == [b"%d" % n for n in range(10)]
        assert {(message.headers, message.key == b"k" + (message.value or b"")) for message in messages if message} == {
            ((("h", b"x"),), True)
        }
        assert orders.receive(timeout=0) is None
        owner.stdin.write("new\n")
        owner.stdin.flush()
        message = orders.receive(timeout=20)
        assert message is not None
        assert message.value == b"new"
        orders.seek(mqplug.at_time(1000))
        assert orders.receive(timeout=20) is not None


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({}, "path"),
        ({"path": ""}, "path"),
        ({"path": "x", "sync": "sometimes"}, "sync"),
        ({"path": "x", "sync_interval": 0}, "sync_interval"),
        ({"path": "x", "message_max_bytes": 0}, "message_max_bytes"),
        ({"path": "x", "pth": "y"}, "pth"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], named: str) -> None:
    """An invalid setting is named before anything is opened."""
    with pytest.raises(mqplug.ConfigError, match=named):
        mqplug.connect("rocksmq", **wrong)


def test_a_url_with_a_host_is_refused() -> None:
    """A URL with a host is refused, with the right spelling."""
    with pytest.raises(mqplug.ConfigError, match="three slashes"):
        mqplug.connect("rocksmq://relative/path")


def test_a_path_that_is_no_directory(tmp_path: Path) -> None:
    """A path that cannot be a store raises a typed error that names it."""
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(mqplug.ConfigError, match="file is a file"):
        mqplug.connect("rocksmq", path=str(file))
    assert file.read_text() == "mine"


def test_an_owner_that_hangs(path: Path, reader: tuple[mqplug.Client, Any]) -> None:
    """A second process waits for an unresponsive owner no longer than its timeout."""
    _, owner = reader
    owner.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, owner.pid, os.WSTOPPED | os.WNOWAIT)  # until all of its threads have stopped
    try:
        with pytest.raises(mqplug.Timeout):  # the owner is stopped until then
            mqplug.connect("rocksmq", path=str(path), timeout=0.5)
    finally:
        owner.send_signal(signal.SIGCONT)


def test_topic_options(mq: mqplug.Client) -> None:
    """Retention can be limited in time and size, and is reported; there are no other options."""
    short = administer(mq, CreateTopic("short", retention=60, retention_bytes=1 << 20))
    assert (short.retention, short.retention_bytes) == (60, 1 << 20)
    assert administer(mq, CreateTopic("usual")).retention == 7 * 24 * 3600
    administer(mq, CreateTopic("for-ever", retention=float("inf")))
    assert administer(mq, DescribeTopic("for-ever")).retention == float("inf")
    with pytest.raises(mqplug.ConfigError, match="colour"):
        mq.create_topic("odd", options={"colour": 1})
    with pytest.raises(ValueError, match="retention_bytes"):
        administer(mq, CreateTopic("odd", retention_bytes=-1))


def test_no_thread_is_left(path: Path) -> None:
    """When the last client is closed, its threads are gone."""
    before = set(threading.enumerate())  # some threads of an earlier test may end only during this one
    for sync in ("always", "interval", "os"):
        with mqplug.connect("rocksmq", path=str(path / sync), sync=sync) as mq:
            mq.create_topic("orders")
            with mq.producer("orders") as out:
                out.submit(b"x")
    eventually(lambda: before.issuperset(threading.enumerate()))
