"""Batches that a broker refuses: only the records at fault fail, and the others keep their order."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future
from contextlib import suppress

import confluent_kafka
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from kafka_driver import new_name, time_limit

import mqplug

SMALL_TOPIC = {"max.message.bytes": "200000"}
COMPACTED_TOPIC = {"cleanup.policy": "compact"}


@pytest.fixture
def topic_with(mq):
    """Return a function that creates a topic with these options."""

    def make(options, partitions=1):
        name = new_name()
        mq.create_topic(name, partitions=partitions, options=options)
        return name

    return make


@pytest.fixture
def unhurried(kafka_server):
    """A client that puts all records of one send in one batch, so that none is sent after a refused one."""
    with mqplug.connect(kafka_server.url, librdkafka={"linger.ms": "500"}) as client:
        yield client


@pytest.fixture
def may_not_read_configuration(monkeypatch):
    """Refuse each request for the configuration of a topic."""

    def describe_configs(self, resources, **_):
        refused = confluent_kafka.KafkaError(confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED)
        futures = {each: Future() for each in resources}
        for each in futures.values():
            each.set_exception(confluent_kafka.KafkaException(refused))
        return futures

    monkeypatch.setattr(confluent_kafka.admin.AdminClient, "describe_configs", describe_configs)


def values(mq, topic):
    """Return the stored values, in the order of the log."""
    return [message.value for message in mq.read(topic)]


def numbered(count, size=128):
    """Return values of this size, each with its number."""
    return [b"%0*d" % (size, number) for number in range(count)]


def test_small_records_fit_a_topic_of_small_batches(mq, topic_with):
    """Any number of small records fits a topic whose largest batch is smaller than the client's."""
    topic = topic_with(SMALL_TOPIC)
    with mq.producer(topic) as out:
        ids = out.send_many(numbered(5000))
    assert [each.coordinates for each in ids] == [(number,) for number in range(5000)]
    assert values(mq, topic) == numbered(5000)


def test_without_the_right_to_read_the_limit_it_is_found(may_not_read_configuration, unhurried, mq, topic_with):
    """A client without the right to read the topic's limit sends refused records again in smaller batches."""
    topic = topic_with({"max.message.bytes": "20000"})
    with unhurried.producer(topic) as out:
        first = out.send_many(numbered(2000))
        second = out.send_many(numbered(2000))
    assert [each.coordinates[0] for each in [*first, *second]] == list(range(4000))
    assert values(mq, topic) == numbered(2000) * 2


def test_a_limit_that_is_lowered_meanwhile_is_learned(mq, topic_with):
    """An open producer makes smaller batches after the topic's limit was lowered."""
    topic = topic_with({})
    with mq.producer(topic) as out:
        out.send(b"first")
        lower(mq, topic, 100_000)
        with suppress(mqplug.SendFailed):  # later records were stored before the refusal was known
            out.send_many(numbered(3000))
        out.send_many(numbered(3000))
    assert values(mq, topic)[-3000:] == numbered(3000)


def test_keys_that_the_native_client_places_keep_their_order(unhurried, mq, topic_with):
    """Records with keys on several partitions, refused and sent again, have right ids and keep the order of each key.

    Records that later ones overtook in librdkafka fail, and are not stored.
    """
    topic = topic_with({}, partitions=3)
    sent = [mqplug.Record(value, key=b"%d" % (number % 10)) for number, value in enumerate(numbered(5000))]
    with unhurried.producer(topic) as out:
        out.send_many([mqplug.Record(b"first", key=b"%d" % number) for number in range(10)])
        lower(mq, topic, 50_000)
        try:
            results = list(out.send_many(sent))
        except mqplug.SendFailed as failed:
            results = failed.results
    found = {message.id: message.value for message in mq.read(topic)}
    stored = {row: each for row, each in enumerate(results) if isinstance(each, mqplug.MessageId)}
    assert len(stored) > 2500
    assert {row: found[each] for row, each in stored.items()} == {row: sent[row].value for row in stored}
    assert len(found) == len(stored) + 10
    by_key = [[each for row, each in stored.items() if row % 10 == key] for key in range(10)]
    assert all(sorted(each) == each for each in by_key)


def lower(mq, topic, size):
    """Change the topic's limit, and wait until the broker reports the new one."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = mq.unwrap(confluent_kafka.admin.AdminClient)
    admin.incremental_alter_configs([resource])[resource].result(30)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    end = time.monotonic() + 30
    while admin.describe_configs([asked])[asked].result(30)["max.message.bytes"].value != str(size):
        assert time.monotonic() < end


@pytest.mark.parametrize("right", [True, False], ids=["limit-read", "limit-guessed"])
def test_a_record_too_large_by_itself_fails_alone(right, request, unhurried, mq, topic_with):
    """Among small records, only the one that is too large for the topic fails."""
    if not right:
        request.getfixturevalue("may_not_read_configuration")
    topic = topic_with({"max.message.bytes": "20000"})
    sent = numbered(300)
    sent[150] = b"x" * 30_000
    with unhurried.producer(topic) as out:
        with pytest.raises(mqplug.SendFailed) as caught:
            out.send_many(sent)
        assert out.send(b"after").coordinates == (299,)
    failed = [row for row, each in enumerate(caught.value.results) if isinstance(each, Exception)]
    assert failed == [150]
    assert isinstance(caught.value.results[150], mqplug.MessageTooLarge)
    assert values(mq, topic) == [*sent[:150], *sent[151:], b"after"]


@pytest.mark.parametrize(
    "bad", [{500}, {0, 500, 999}, set(range(400, 600)), {999}], ids=["one", "three", "many", "last"]
)
def test_an_invalid_record_fails_alone(unhurried, mq, topic_with, bad):
    """A keyless record on a compacted topic fails with InvalidRecord; the records around it are stored in order."""
    topic = topic_with(COMPACTED_TOPIC)
    sent = [mqplug.Record(b"%d" % row, key=None if row in bad else b"k") for row in range(1000)]
    with unhurried.producer(topic, partitioner="round_robin") as out:
        with pytest.raises(mqplug.SendFailed) as caught:
            out.send_many(sent)
        results = caught.value.results
    assert {row for row, each in enumerate(results) if isinstance(each, Exception)} == bad
    check_invalid(results, bad)
    stored = [row for row in range(1000) if row not in bad]
    assert [results[row].coordinates[0] for row in stored] == list(range(len(stored)))
    assert values(mq, topic) == [b"%d" % row for row in stored]


def test_an_invalid_record_on_a_compacted_topic_that_also_deletes(unhurried, topic_with):
    """With the cleanup policy compact,delete, too, a keyless record fails with InvalidRecord, which says why."""
    topic = topic_with({"cleanup.policy": "compact,delete"})
    with unhurried.producer(topic) as out, pytest.raises(mqplug.SendFailed) as caught:
        out.send_many([mqplug.Record(b"%d" % row, key=None if row == 5 else b"k") for row in range(10)])
    assert [row for row, each in enumerate(caught.value.results) if isinstance(each, Exception)] == [5]
    check_invalid(caught.value.results, {5})


@pytest.mark.parametrize(
    "batch", [pytest.param(1, marks=pytest.mark.night), 7, pytest.param(100, marks=pytest.mark.night)]
)
def test_an_invalid_record_that_was_overtaken_is_told_as_such(kafka_server, mq, topic_with, batch):
    """If later batches were stored before the refusal is known, the invalid records still fail with InvalidRecord.

    The other records of an overtaken batch fail with a retryable error.
    """
    bad = {0, 500, 999}
    topic = topic_with(COMPACTED_TOPIC)
    sent = [mqplug.Record(b"%d" % row, key=None if row in bad else b"k") for row in range(1000)]
    with (
        mqplug.connect(kafka_server.url, librdkafka={"batch.num.messages": str(batch)}) as client,
        client.producer(topic, partitioner="round_robin") as out,
        pytest.raises(mqplug.SendFailed) as caught,
    ):
        out.send_many(sent)
    results = caught.value.results
    check_invalid(results, bad)
    failed = {row for row, each in enumerate(results) if isinstance(each, Exception)}
    assert all(results[row].retryable for row in failed - bad)
    assert len(failed) <= len(bad) * batch
    assert values(mq, topic) == [b"%d" % row for row in range(1000) if row not in failed]


def check_invalid(results, bad):
    """Assert that the results in these rows report a missing key."""
    for row in bad:
        assert isinstance(results[row], mqplug.InvalidRecord)
        assert "key" in results[row].fix
        assert "compacted" in results[row].fix


def test_an_invalid_time_fails_alone(kafka_server, unhurried, topic_with):
    """Only the record whose time the topic refuses fails; the others, which have headers, are stored in order."""
    topic = topic_with(time_limit(kafka_server, 1000))
    later = int(time.time() * 1000) + 1_800_000
    with unhurried.producer(topic) as out:
        handles = [
            out.submit(b"%d" % row, headers=[("h", b"v")], timestamp=later if row == 30 else None) for row in range(60)
        ]
        with pytest.raises(mqplug.InvalidRecord) as caught:
            handles[30].result()
        others = [handle.result().coordinates[0] for row, handle in enumerate(handles) if row != 30]
    assert "timestamp" in caught.value.fix
    assert others == list(range(59))


def test_a_refused_record_is_not_sent_after_a_later_one(mq, topic_with):
    """Among invalid records, all stored ones are in order, and each failed record is really not stored."""
    topic = topic_with(COMPACTED_TOPIC, partitions=2)
    handles = []
    with mq.producer(topic, partitioner="round_robin") as out:
        for number in range(6000):
            key = None if number % 1500 == 700 else b"k%d" % (number % 7)
            handles.append((number, out.submit(b"%d" % number, key=key, partition=number % 2)))
        with contextlib.suppress(mqplug.SendFailed):
            out.flush()
    stored, failed = [], []
    for number, handle in handles:
        (failed if handle.error else stored).append(number)
    assert {number for number in range(6000) if number % 1500 == 700} <= set(failed)
    assert not any(isinstance(handle.error, mqplug.OutcomeUnknown) for _, handle in handles)
    for partition in (0, 1):
        found = [int(m.value) for m in mq.read(topic) if m.id.log.partition == partition]
        assert found == [number for number in stored if number % 2 == partition]


@pytest.mark.disturbs
def test_a_close_does_not_wait_for_held_records_longer_than_it_may(kafka_server, mq, topic_with):
    """A close gives up records that wait for the topic's limits, and they are not sent later."""
    topic = topic_with({})
    out = mq.producer(topic)
    kafka_server.pause()
    try:
        out.submit(b"never")
        with pytest.raises(mqplug.CloseIncomplete):
            out.close(timeout=0.5)
    finally:
        kafka_server.unpause()
    with mq.producer(topic) as again:
        again.send(b"probe")
    assert values(mq, topic) == [b"probe"]


def test_a_header_name_with_nul_is_refused(mq, topic):
    """A record whose header name contains NUL is refused before it is sent: librdkafka would cut the name."""
    headers = [("a\0b", b"v")]
    with mq.producer(topic) as out:
        with pytest.raises(mqplug.InvalidRecord, match="NUL"):
            out.send(b"bad", headers=headers)
        with pytest.raises(mqplug.InvalidRecord, match="NUL"):
            out.submit(b"bad", headers=headers).result()
        with pytest.raises(mqplug.SendFailed) as caught:
            out.send_many([mqplug.Record(b"good"), mqplug.Record(b"bad", headers=headers)])
        assert isinstance(caught.value.results[1], mqplug.InvalidRecord)
        assert out.send(b"after").coordinates == (1,)
    assert values(mq, topic) == [b"good", b"after"]
