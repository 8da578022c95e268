"""The producer's states: accepted, handed over, and then stored, failed or unknown."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from core_waits import set_core_wait
from held_backend import HeldProducer, HeldRuns, held_client
from waiting import wait_until

import mqplug
from mqplug import Record
from mqplug.spi import Sending


@pytest.fixture
def held() -> Iterator[tuple[mqplug.Client, HeldProducer]]:
    """A client whose sends stay unsettled."""
    with held_client() as pair:
        yield pair


def test_a_send_that_times_out_is_unknown_and_goes_on(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A send that times out raises SendTimeout; its handle gets the late result."""
    mq, driver = held
    out = mq.producer("orders")
    with pytest.raises(mqplug.SendTimeout) as caught:
        out.send(b"late", timeout=0.05)
    handle = caught.value.handle
    assert handle is not None
    assert not handle.done
    driver.store_all(mq.partitions("orders")[0])
    assert handle.result(timeout=5).coordinates == (0,)


def test_flush_waits_for_what_was_sent_before(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A flush ends when all earlier sends are settled, and times out until then."""
    mq, driver = held
    out = mq.producer("orders")
    handle = out.submit(b"x")
    with pytest.raises(mqplug.Timeout):
        out.flush(timeout=0.05)
    driver.store_all(mq.partitions("orders")[0])
    out.flush(timeout=5)
    assert handle.done


def test_a_failure_that_nobody_looked_at_raises_at_flush(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A submitted message whose failure was not checked raises SendFailed once, at flush."""
    mq, driver = held
    out = mq.producer("orders")
    out.submit(b"x")
    driver.fail_all(mqplug.AccessDenied("no"))
    with pytest.raises(mqplug.SendFailed, match="1 submitted messages failed"):
        out.flush()
    out.flush()


def test_a_failure_that_was_looked_at_does_not_raise_again(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A failure that the caller got from the handle is not raised by flush."""
    mq, driver = held
    out = mq.producer("orders")
    handle = out.submit(b"x")
    driver.fail_all(mqplug.AccessDenied("no"))
    with pytest.raises(mqplug.AccessDenied):
        handle.result()
    out.flush()


def test_what_is_on_its_way_at_close_is_unknown(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A close that times out counts the unsettled messages, and makes their outcome unknown."""
    mq, _ = held
    out = mq.producer("orders")
    handles = [out.submit(b"x") for _ in range(3)]
    with pytest.raises(mqplug.CloseIncomplete, match="outcome of 3 messages is unknown"):
        out.close(timeout=0.05)
    with pytest.raises(mqplug.OutcomeUnknown):
        handles[0].result(timeout=0)


def test_a_full_queue_raises_or_blocks_as_asked(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """With when_full="raise" a full queue raises QueueFull at once; otherwise the submit waits for room."""
    mq, driver = held
    out = mq.producer("orders", queue_bytes=100)
    out.submit(b"x" * 80)
    with pytest.raises(mqplug.QueueFull):
        out.submit(b"y" * 80, when_full="raise")
    with pytest.raises(mqplug.QueueFull):
        out.submit(b"y" * 80, timeout=0.05)
    with ThreadPoolExecutor(1) as pool:
        blocked = pool.submit(out.submit, b"y" * 80)
        driver.store_all(mq.partitions("orders")[0])
        blocked.result(timeout=10)
    assert [sending.value for sending in driver.taken] == [b"y" * 80]


def test_threads_that_wait_together_all_get_their_result(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """Eight threads that send through one producer each get their own id."""
    mq, driver = held
    out = mq.producer("orders")
    log = mq.partitions("orders")[0]
    with ThreadPoolExecutor(8) as pool:
        sends = [pool.submit(out.send, b"%d" % number) for number in range(8)]
        while len(driver.taken) < 8:
            threading.Event().wait(0.005)
        driver.store_all(log)
        ids = [send.result(timeout=10) for send in sends]
    assert len(set(ids)) == 8


def test_a_batch_names_what_is_too_large_and_stores_the_rest() -> None:
    """One oversize record of a batch is the only one that fails."""
    with mqplug.connect("memory", message_max_bytes=10) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            with pytest.raises(mqplug.SendFailed) as caught:
                out.send_many([b"small", b"much too large for this", b"fine"])
            first, second, third = caught.value.results
            assert isinstance(second, mqplug.MessageTooLarge)
            assert [message.id for message in mq.read("orders")] == [first, third]


@pytest.mark.parametrize("record", [b"much too large", Record(b"much too large", key=b"k")])
def test_a_batch_of_which_all_is_too_large(record: Record | bytes) -> None:
    """A batch of only oversize records names each, and hands nothing over."""
    with mqplug.connect("memory", message_max_bytes=10) as mq:
        mq.create_topic("orders", partitions=2)
        with mq.producer("orders") as out, pytest.raises(mqplug.SendFailed) as caught:
            out.send_many([record, record])
    assert [type(each) for each in caught.value.results] == [mqplug.MessageTooLarge] * 2


@pytest.mark.parametrize(
    "records",
    [
        [b"plain", Record(b"ab", key=b"c"), Record(None, key=b"c")],
        [Record(b"ab", headers=[("h", b"v"), ("n", None)]), Record(b"cd", key=b"k", headers={"é": b""})],
        [Record(None), Record(b"ab")],
    ],
)
def test_a_batch_has_the_bytes_of_its_records(records: list[Record | bytes]) -> None:
    """Values, keys and headers count towards the size, names in UTF-8, in a batch as in single sends."""
    sizes = []
    for send in (lambda out: out.send_many(records), lambda out: [_send_alone(out, each) for each in records]):
        with mqplug.connect("memory") as mq:
            mq.create_topic("orders")
            with mq.producer("orders") as out:
                send(out)
                sizes.append(out.statistics().bytes)
    assert sizes[0] == sizes[1]


def _send_alone(out: mqplug.Producer, record: Record | bytes) -> None:
    if isinstance(record, bytes):
        out.send(record)
    else:
        out.send(record.value, key=record.key, headers=record.headers)


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({"value": "text"}, TypeError, "encode it first"),
        ({"value": bytearray(b"x")}, TypeError, "call bytes"),
        ({"value": b"x", "key": "k"}, TypeError, "key must be bytes"),
        ({"value": b"x", "headers": [("h", 1)]}, TypeError, "header 'h' must be bytes"),
        ({"value": b"x", "headers": [(b"h", b"v")]}, TypeError, "name must be a str"),
        ({"value": b"x", "headers": ["h"]}, TypeError, "a header must be a tuple"),
        ({"value": b"x", "timestamp": 1.5}, TypeError, "whole milliseconds"),
        ({"value": b"x", "timestamp": -1}, ValueError, "not a time"),
        ({"value": b"x", "partition": "0"}, TypeError, "whole number"),
        ({"value": b"x", "partition": 1}, ValueError, "no partition 1; expected 0 to 0"),
        ({"value": b"x", "timeout": -1}, ValueError, "at least 0"),
        ({"value": b"x", "timeout": "soon"}, TypeError, "number of seconds"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    fields: dict[str, object], kind: type[Exception], reason: str
) -> None:
    """A wrong type or number raises TypeError or ValueError with the expected one, and nothing is stored."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out, pytest.raises(kind, match=reason):
            out.send(**fields)  # type: ignore[arg-type]
        assert mq.watermarks("orders")[0].count == 0


def test_a_producer_without_a_topic_sends_to_any() -> None:
    """Without a topic of the producer each record names its own, and a record without one raises TypeError."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("a")
        mq.create_topic("b")
        with mq.producer() as out:
            out.send_many([Record(b"1", topic="a"), Record(b"2", topic="b"), Record(b"3", topic="a")])
            with pytest.raises(TypeError, match="topic="):
                out.send(b"4")
            with pytest.raises(mqplug.TopicNotFound):
                out.send(b"5", topic="c")
        assert [message.value for message in mq.read("a")] == [b"1", b"3"]


@pytest.mark.parametrize("wait", ["send", "result", "flush", "full"])
def test_ctrl_c_ends_whatever_waits(held: tuple[mqplug.Client, HeldProducer], wait: str) -> None:
    """Ctrl-C interrupts a send, a result, a flush, and a submit that waits for room within 0.2 seconds."""
    mq, _ = held
    out = mq.producer("orders", queue_messages=1)
    handle = None if wait == "send" else out.submit(b"x")
    calls = {"send": lambda: out.send(b"x"), "flush": out.flush, "full": lambda: out.submit(b"y")}
    main, pressed = threading.main_thread().ident, []

    def press() -> None:
        pressed.append(time.monotonic())
        signal.pthread_kill(main or 0, signal.SIGINT)

    timer = threading.Timer(0.1, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        (handle.result if wait == "result" and handle else calls[wait])()
    assert time.monotonic() - pressed[0] < 20  # instead of the 30 seconds of the timeout
    timer.join()


def test_a_timeout_of_zero_has_a_look() -> None:
    """result(0) serves pending reports, so that polling it comes to an end."""

    class Lazy(HeldRuns):
        def pump(self, timeout: float) -> None:
            log = mq.partitions("orders")[0]
            while self.units:
                self.units.pop().stored(log, (7,))  # type: ignore[arg-type]

    with held_client(Lazy()) as (mq, _):
        handle = mq.producer("orders").submit(b"x")
        assert not handle.done
        assert handle.result(timeout=0).coordinates == (7,)


def test_threads_share_a_producer() -> None:
    """Eight threads that submit, send and send batches through one producer lose nothing and keep their orders."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")

        def work(name: int) -> None:
            values = iter([b"%d-%d" % (name, number) for number in range(200)])
            for value in values:
                out.submit(value)
                out.send(next(values))
                out.send_many([next(values), Record(next(values), key=b"k")])

        with mq.producer("orders", queue_messages=50) as out, ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
            assert out.statistics().stored == 1600
        found = [message.value or b"" for message in mq.read("orders")]
    for name in range(8):
        assert [each for each in found if each.startswith(b"%d-" % name)] == [b"%d-%d" % (name, n) for n in range(200)]


def test_a_driver_that_breaks_leaves_the_outcome_unknown() -> None:
    """A driver's exception while it takes a record is a PluginError, and the record may or may not be stored."""

    class Broken(HeldProducer):
        def send(self, sendings: object) -> None:
            raise RuntimeError("no")

    with held_client(Broken()) as (mq, _):
        out = mq.producer("orders")
        for send in (lambda: out.send(b"x"), lambda: out.send_many([b"y", b"z"])):
            with pytest.raises(mqplug.PluginError, match="RuntimeError: no"):
                send()
        found = out.statistics()
        assert (found.unknown, found.waiting) == (3, 0)
        out.flush()  # the caller knows


class Direct(HeldProducer):
    """A driver that stores a record at once when its sender waits."""

    stores_at_once = True

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[bytes | None] = []

    def store(self, sending: Sending) -> None:
        self.stored.append(sending.value)
        if sending.value == b"broken":
            raise RuntimeError("no")
        sending.stored(mqplug.Log("held", "", "orders", 0), (len(self.stored),))


def test_a_driver_that_stores_at_once_is_asked_to() -> None:
    """If the driver can, a send stores its record; a submit, which waits for nothing, hands it over."""
    with held_client(Direct()) as (mq, driver):
        out = mq.producer("orders")
        assert out.send(b"sent").coordinates == (1,)
        out.submit(b"submitted")
        assert (driver.stored, [sending.value for sending in driver.taken]) == ([b"sent"], [b"submitted"])
        with pytest.raises(mqplug.PluginError, match="RuntimeError: no"):
            out.send(b"broken")
        found = out.statistics()
        assert (found.stored, found.unknown, found.waiting) == (1, 1, 1)


def test_what_a_driver_stores_at_once_is_bounded_and_counted() -> None:
    """A send that the driver stores at once waits for room, is counted, and is refused after close."""
    with held_client(Direct()) as (mq, driver):
        out = mq.producer("orders", queue_messages=1)
        handle = out.submit(b"in the way")
        with pytest.raises(mqplug.QueueFull):
            out.send(b"no room", timeout=0)
        driver.store_all(mqplug.Log("held", "", "orders", 0))
        handle.result(timeout=5)
        out.close()
        with pytest.raises(mqplug.Closed):
            out.send(b"too late")
        assert out.statistics().stored == 1
        assert driver.stored == []


def test_the_ids_of_a_batch_are_like_a_list() -> None:
    """The result of send_many equals a list of the same ids, can be indexed, sliced, sorted and pickled."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = out.send_many([b"a", b"b", b"c"])
            assert out.send_many([]) == []
            assert out.send_many(iter([b"d"])) != ids
        listed = [message.id for message in mq.read("orders")][:3]
        assert (ids, list(ids), ids[1], ids[-2:], len(ids)) == (listed, listed, listed[1], listed[1:], 3)
        assert listed == ids
        assert sorted(ids, reverse=True) == listed[::-1]
        assert pickle.loads(pickle.dumps(ids)) == listed
        assert repr(ids) == repr(listed)
        assert ids != listed[:2]
        with pytest.raises(TypeError, match="unhashable"):
            hash(ids)


def test_a_batch_for_many_places_has_its_ids_in_order() -> None:
    """A batch for several topics and partitions has one id for each record, in its order."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("a", partitions=3)
        mq.create_topic("b")
        records = [Record(b"%d" % n, topic="ab"[n % 2], partition=None if n % 2 else n % 3) for n in range(30)]
        with mq.producer() as out:
            ids = out.send_many(records)
        found = {message.id: message.value for topic in "ab" for message in mq.read(topic)}
        assert [found[each] for each in ids] == [record.value for record in records]


def test_statistics_count_messages_and_bytes() -> None:
    """The statistics count accepted messages by their outcome, and stay after close."""
    with held_client() as (mq, driver):
        out = mq.producer("orders")
        out.submit(b"12345", key=b"k", headers={"h": b"v"})
        driver.store_all(mq.partitions("orders")[0])
        out.submit(b"1")
        driver.fail_all(mqplug.AccessDenied("no"))
        out.submit(b"12")
        found = out.statistics()
        assert (found.stored, found.failed, found.unknown, found.waiting) == (1, 1, 0, 1)
        assert (found.accepted, found.bytes) == (3, 11)
        with pytest.raises(mqplug.CloseIncomplete):
            out.close(timeout=0)
        assert out.statistics().unknown == 1


@pytest.mark.parametrize(
    ("limits", "kind"),
    [({"queue_messages": 0}, ValueError), ({"queue_bytes": -1}, ValueError), ({"queue_messages": 1.0}, TypeError)],
)
def test_limits_that_cannot_be_meant(limits: dict[str, int], kind: type[Exception]) -> None:
    """A queue takes at least one message and one byte."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with pytest.raises(kind, match="queue_"):
            mq.producer("orders", **limits)


def test_a_full_queue_of_messages(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """The queue has a limit in messages too; a record that is settled in its middle makes room."""
    mq, driver = held
    out = mq.producer("orders", queue_messages=3)
    for number in range(3):
        out.submit(b"%d" % number)
    with pytest.raises(mqplug.QueueFull, match="3 messages"):
        out.submit(b"x", when_full="raise")
    driver.taken.pop(1).stored(mq.partitions("orders")[0], (0,))
    out.submit(b"y", when_full="raise")
    assert [sending.value for sending in driver.taken] == [b"0", b"2", b"y"]


class RefusesAll(HeldProducer):
    """A driver that fails everything at once."""

    def send(self, sendings: Sequence[Sending]) -> None:
        super().send(sendings)
        self.fail_all(mqplug.AccessDenied("no"))


def test_what_a_batch_raised_is_not_raised_again() -> None:
    """Failures that send_many raised are not raised by close, even if they came during the hand-over."""
    with held_client(RefusesAll()) as (mq, _):
        mq.create_topic("pairs", partitions=2)
        with mq.producer("pairs") as out:
            for _ in range(2):
                with pytest.raises(mqplug.SendFailed, match="4 of 4 messages failed"):
                    out.send_many([Record(b"x", partition=number % 2) for number in range(4)])
            assert len(out._session.queue._outcomes._unseen) == 2  # of the second batch: none pile up
            out.flush()


def test_a_batch_that_was_interrupted_is_told_at_flush(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """Failures of a batch whose wait Ctrl-C ended are raised by flush."""
    mq, driver = held
    out = mq.producer("orders")
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        out.send_many([b"x", b"y"])
    timer.join()
    driver.fail_all(mqplug.AccessDenied("no"))
    with pytest.raises(mqplug.SendFailed, match="2 submitted messages failed"):
        out.flush()
    out.flush()


def test_failures_that_nobody_looks_at_do_not_pile_up(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """The first ten thousand unseen failures are kept, and further ones are counted."""
    mq, driver = held
    out = mq.producer("orders")
    for _ in range(10_005):
        out.submit(b"x")
        driver.fail_all(mqplug.AccessDenied("no"))
    with pytest.raises(mqplug.SendFailed, match="10005 submitted messages failed") as caught:
        out.flush()
    assert len(caught.value.results) == 10_000


def test_all_who_wait_for_one_record_are_woken(
    held: tuple[mqplug.Client, HeldProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads that wait for the same handle wake when it is settled."""
    set_core_wait(monkeypatch, "wait for a driver", 60)
    mq, driver = held
    out = mq.producer("orders")
    handle = out.submit(b"one")
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(handle.result, 20) for _ in range(4)]
        wait_until(lambda: out._queue.pump._sleepers)  # one serves, the others sleep
        driver.store_all(mq.partitions("orders")[0])
        assert {each.result(timeout=10).coordinates for each in waiting} == {(0,)}


def test_ctrl_c_in_a_close_leaves_nothing_open(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """When Ctrl-C ends a close, unsettled records become unknown at once: nothing can wait for them any more."""
    mq, _ = held
    out = mq.producer("orders")
    handle = out.submit(b"x")
    main = threading.main_thread().ident or 0
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        out.close()
    timer.join()
    assert handle.done
    assert isinstance(handle.error, mqplug.OutcomeUnknown)


def test_a_close_tells_of_what_failed_beside_what_is_unknown(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """If close gives up on some messages, earlier failures that were not checked are the cause of its error."""
    mq, driver = held
    out = mq.producer("orders")
    out.submit(b"x")
    driver.fail_all(mqplug.AccessDenied("no"))
    out.submit(b"y")
    with pytest.raises(mqplug.CloseIncomplete, match="outcome of 1 messages") as caught:
        out.close(timeout=0)
    assert isinstance(caught.value.__cause__, mqplug.SendFailed)


def test_a_header_name_that_is_no_text_is_refused() -> None:
    """A lone surrogate, which no backend can store, raises ValueError in every way to send, and nothing is sent."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        headers = [("\ud800", b"")]
        with mq.producer("orders") as out:
            for send in (
                lambda: out.send(b"x", headers=headers),
                lambda: out.submit(b"x", headers=headers),
                lambda: out.send_many([Record(b"fine"), Record(b"x", headers=headers)]),
            ):
                with pytest.raises(ValueError, match=r"header's name must be text .* '\\ud800'"):
                    send()
        assert list(mq.read("orders")) == []
