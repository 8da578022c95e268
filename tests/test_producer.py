"""The producer's states: accepted, handed over, and then stored, failed or unknown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from held_backend import HeldProducer, held_client

import mqplug
from mqplug import Record


@pytest.fixture
def held() -> Iterator[tuple[mqplug.Client, HeldProducer]]:
    """A client whose sends stay on their way."""
    with held_client() as pair:
        yield pair


def test_a_send_that_times_out_is_unknown_and_goes_on(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A send whose timeout runs out raises SendTimeout; its handle gets the late result."""
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
    """A flush ends when the earlier sends are settled, and times out while they are not."""
    mq, driver = held
    out = mq.producer("orders")
    handle = out.submit(b"x")
    with pytest.raises(mqplug.Timeout):
        out.flush(timeout=0.05)
    driver.store_all(mq.partitions("orders")[0])
    out.flush(timeout=5)
    assert handle.done


def test_a_failure_that_nobody_looked_at_raises_at_flush(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A submitted message that failed unseen raises SendFailed once, at flush."""
    mq, driver = held
    out = mq.producer("orders")
    out.submit(b"x")
    driver.fail_all(mqplug.AccessDenied("no"))
    with pytest.raises(mqplug.SendFailed, match="1 submitted messages failed"):
        out.flush()
    out.flush()


def test_a_failure_that_was_looked_at_does_not_raise_again(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A failure that the caller saw through the handle is not raised by flush."""
    mq, driver = held
    out = mq.producer("orders")
    handle = out.submit(b"x")
    driver.fail_all(mqplug.AccessDenied("no"))
    with pytest.raises(mqplug.AccessDenied):
        handle.result()
    out.flush()


def test_what_is_on_its_way_at_close_is_unknown(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """A close that runs out of time counts the unsettled messages, and makes their outcome unknown."""
    mq, _ = held
    out = mq.producer("orders")
    handles = [out.submit(b"x") for _ in range(3)]
    with pytest.raises(mqplug.CloseIncomplete, match="outcome of 3 messages is unknown"):
        out.close(timeout=0.05)
    with pytest.raises(mqplug.OutcomeUnknown):
        handles[0].result(timeout=0)


def test_a_full_queue_raises_or_blocks_as_asked(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """With when_full="raise" a full queue is QueueFull at once; otherwise the submit waits for room."""
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
    assert [sending.record.value for sending in driver.taken] == [b"y" * 80]


def test_threads_that_wait_together_all_get_their_result(held: tuple[mqplug.Client, HeldProducer]) -> None:
    """Eight threads that send through one producer each get an id of their own."""
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


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({"value": "text"}, TypeError, "encode it first"),
        ({"value": bytearray(b"x")}, TypeError, "call bytes"),
        ({"value": b"x", "key": "k"}, TypeError, "key is bytes"),
        ({"value": b"x", "headers": [("h", 1)]}, TypeError, "header 'h' is bytes"),
        ({"value": b"x", "headers": [(b"h", b"v")]}, TypeError, "name is a str"),
        ({"value": b"x", "headers": ["h"]}, TypeError, "a header is a pair"),
        ({"value": b"x", "timestamp": 1.5}, TypeError, "whole milliseconds"),
        ({"value": b"x", "timestamp": -1}, ValueError, "not a time"),
        ({"value": b"x", "partition": "0"}, TypeError, "whole number"),
        ({"value": b"x", "partition": 1}, ValueError, "partitions 0 to 0"),
        ({"value": b"x", "timeout": -1}, ValueError, "at least 0"),
        ({"value": b"x", "timeout": "soon"}, TypeError, "number of seconds"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    fields: dict[str, object], kind: type[Exception], reason: str
) -> None:
    """A wrong type or number is a TypeError or ValueError that says what is wanted, and nothing is stored."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out, pytest.raises(kind, match=reason):
            out.send(**fields)  # type: ignore[arg-type]
        assert mq.watermarks("orders")[0].count == 0


def test_a_producer_without_a_topic_sends_to_any() -> None:
    """Records name their topics when the producer has none, and one that names none is a TypeError."""
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


def test_murmur2_is_kafkas() -> None:
    """Murmur2 gives the values of Kafka's own unit tests."""
    from mqplug._partitioners import murmur2

    vectors = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    assert {key: (murmur2(key) ^ 0x80000000) - 0x80000000 for key in vectors} == vectors
