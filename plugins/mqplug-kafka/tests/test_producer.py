"""Producers: limits, partitioning, order, sharing of a client, and transactions of other clients."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest
from kafka_driver import fill, new_name, take

import mqplug

pytestmark = pytest.mark.python


def test_what_is_none_and_what_is_empty_stay_apart(mq, topic):
    """Keys, values and header values keep None and empty apart; duplicate headers keep their order."""
    headers = (("a", b"1"), ("a", None), ("b", b""), ("a", b"2"))
    sent = [(b"", b"", headers), (None, None, ()), (b"k", None, ()), (None, b"", headers)]
    with mq.producer(topic) as out:
        for key, value, each in sent:
            out.send(value, key=key, headers=each)
    assert [(m.key, m.value, m.headers) for m in mq.read(topic)] == sent


@pytest.mark.parametrize("moment", [0, pytest.param(int(time.time() * 1000) + 7_200_000, id="in two hours")])
def test_times_that_kafka_cannot_keep_are_refused(mq, topic, moment):
    """A timestamp of 0 or in the far future fails as unsupported before it is sent; the other records are stored."""
    with mq.producer(topic) as out:
        with pytest.raises(mqplug.SendFailed) as caught:
            out.send_many([mqplug.Record(b"a"), mqplug.Record(b"b", timestamp=moment), mqplug.Record(b"c")])
        refused = caught.value.results[1]
    assert isinstance(refused, mqplug.Unsupported)
    assert refused.capability == "timestamps_producer"
    assert [m.value for m in mq.read(topic)] == [b"a", b"c"]


def test_the_largest_message_passes(mq, topic):
    """A payload of exactly the declared size is stored, also in a batch with others; one byte more is refused."""
    largest = mq.capabilities.message_max_bytes
    with mq.producer(topic) as out:
        out.send_many([b"x" * size for size in (100_000, largest, 100_000, largest, 10)])
        with pytest.raises(mqplug.MessageTooLarge):
            out.send(b"x" * (largest + 1))
    assert mq.watermarks(topic)[0].count == 5


def test_the_topics_own_limit_is_a_message_too_large(mq):
    """A record larger than the topic's own limit raises MessageTooLarge and is not stored."""
    name = new_name()
    mq.create_topic(name, options={"max.message.bytes": "10000"})
    with mq.producer(name) as out:
        with pytest.raises(mqplug.MessageTooLarge):
            out.send(b"x" * 20_000)
        out.send(b"small")
    assert [m.value for m in mq.read(name)] == [b"small"]


def test_keys_go_where_the_java_client_puts_them(mq):
    """The partitioners of librdkafka and of the core place keys alike, and an explicit partition wins."""
    name = new_name()
    mq.create_topic(name, partitions=5)
    keys = [b"", b"a", b"customer-17", "ключ".encode(), bytes(range(256)), b"x" * 1000]
    with mq.producer(name) as native, mq.producer(name, partitioner="round_robin") as ours:
        for key in keys:
            assert native.send(b"v", key=key).log is ours.send(b"v", key=key).log
            assert native.send(b"v", key=key, partition=3).log.partition == 3


def test_each_way_to_a_partition_keeps_its_order(mq):
    """Each partition stores records in the order of the sends, whether placed by key, by number or by turns."""
    name = new_name()
    mq.create_topic(name, partitions=3)
    draw = random.Random(7)
    with mq.producer(name) as out:
        for number in range(600):
            way = draw.choice([{"key": b"k%d" % draw.randrange(8)}, {"partition": draw.randrange(3)}, {}])
            out.submit(b"%d" % number, **way)
    found = [[int(m.value) for m in mq.read(name, partitions=[each])] for each in range(3)]
    assert found == [sorted(each) for each in found]
    assert sum(map(len, found)) == 600


@pytest.mark.disturbs
def test_producers_share_one_native_client(kafka_server, mq, topic):
    """All producers of a client share one of confluent-kafka; closing one does not wait for the others' records."""
    first, second = mq.producer(topic), mq.producer(topic, partitioner="round_robin")
    shared = mq.unwrap(confluent_kafka.Producer)
    second.send(b"before")
    kafka_server.pause()
    try:
        handle = first.submit(b"late")
        second.close(timeout=10)
        assert not handle.done
    finally:
        kafka_server.unpause()
    assert mq.unwrap(confluent_kafka.Producer) is shared
    assert handle.result().coordinates == (1,)
    first.close()
    assert mq.unwrap(confluent_kafka.Producer) is None
    with mq.producer(topic) as third:
        assert third.send(b"again").coordinates == (2,)


def test_the_first_message_of_a_client_does_not_wait_for_the_next_half_second(kafka_server, topic):
    """A new client has the producer id that it needs as soon as it is connected, so its first send is not delayed."""

    def first_send():
        with mqplug.connect(kafka_server.url) as mq, mq.producer(topic) as out:
            began = time.monotonic()
            out.send(b"first")
            return time.monotonic() - began

    assert any(first_send() < 0.4 for _ in range(20))  # on a busy machine some are slower


def test_threads_with_a_producer_each_all_get_their_results(mq, topic):
    """Eight producers of one client, each in its own thread, get the ids of their own records."""

    def send(number):
        with mq.producer(topic) as out:
            return [out.send(b"%d" % number) for _ in range(50)]

    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        ids = [each for sent in pool.map(send, range(8)) for each in sent]
    assert len(set(ids)) == 400
    assert time.monotonic() - began < 90


@pytest.mark.parametrize("fields", [{}, {"key": b"k"}, {"headers": (("h", b"v"),)}, {"timestamp": 1_700_000_000_000}])
def test_single_sends_and_batches_keep_their_order(mq, topic, fields):
    """Single submits and batches, mixed, are stored in the order of the sends."""
    with mq.producer(topic) as out:
        for start in range(0, 60, 6):
            for number in range(start, start + 3):
                out.submit(b"%d" % number, **fields)
            out.send_many([mqplug.Record(b"%d" % number, **fields) for number in range(start + 3, start + 6)])
    messages = list(mq.read(topic))
    assert [m.value for m in messages] == [b"%d" % number for number in range(60)]
    assert {m.key for m in messages} == {fields.get("key")}


def test_keyless_records_of_a_batch_stick_together(mq):
    """Keyless records of one batch go to one partition, and those of the next batch to another."""
    name = new_name()
    mq.create_topic(name, partitions=3)
    with mq.producer(name) as out:
        batches = [{each.log.partition for each in out.send_many([b"x"] * 20)} for _ in range(3)]
    assert sorted(batches, key=min) == [{0}, {1}, {2}]


@pytest.mark.night
@pytest.mark.disturbs
def test_a_broker_that_dies_loses_nothing_acknowledged(kafka_server, mq, topic):
    """After kill -9 in the middle of a stream, every acknowledged message is stored once and in order."""
    with mq.producer(topic) as out:
        handles = [out.submit(b"%d" % number) for number in range(2000)]
        out.flush()
        handles += [out.submit(b"%d" % number) for number in range(2000, 4000)]
        kafka_server.kill()
        handles += [out.submit(b"%d" % number) for number in range(4000, 5000)]
        kafka_server.start()
        out.flush(timeout=60)
        ids = [handle.result() for handle in handles]
    assert [(m.id, m.value) for m in mq.read(topic)] == [(each, b"%d" % n) for n, each in enumerate(ids)]


def test_transactions_leave_no_hole_in_a_bounded_read(kafka_server, mq, topic):
    """A bounded read passes markers and aborted messages and ends; bounds and last() name real messages."""
    native = confluent_kafka.Producer({"bootstrap.servers": kafka_server.bootstrap, "transactional.id": topic})
    native.init_transactions(30)
    for value, commit in ((b"a", True), (b"lost", False), (b"b", True), (b"lost too", False)):
        native.begin_transaction()
        native.produce(topic, value)
        native.flush(30)
        native.commit_transaction(30) if commit else native.abort_transaction(30)
    messages = list(mq.read(topic))
    assert [m.value for m in messages] == [b"a", b"b"]
    marks = mq.watermarks(topic)[0]
    assert marks.high.coordinates == (8,)
    assert mq.bounds(topic)[0] == mqplug.Bounds(messages[0].id, messages[1].id)
    with mq.consumer(topic, start=mqplug.last(2)) as reader:
        assert [m.value for m in take(reader, 2)] == [b"a", b"b"]


def test_watermarks_count_what_an_open_transaction_stored(kafka_server, mq, topic):
    """Watermarks count uncommitted messages, because high is the log's end; they are read after the commit."""
    fill(mq, topic, 3)
    native = confluent_kafka.Producer({"bootstrap.servers": kafka_server.bootstrap, "transactional.id": topic})
    native.init_transactions(30)
    native.begin_transaction()
    native.produce(topic, b"pending")
    native.flush(30)
    assert mq.watermarks(topic)[0].count == 4
    native.commit_transaction(30)
    assert [m.value for m in mq.read(topic)][3:] == [b"pending"]
