"""Queries change nothing, so they are retried within their timeout after a broken connection."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka_driver import fill, new_name
from kafka_faults import set_wait

import mqplug


def test_the_brokers_of_the_cluster(kafka_server, mq, topic):
    """The cluster is described with its brokers' client addresses and with the name used in message ids."""
    found = mq.describe_cluster()
    assert [each.address for each in found.brokers] == [kafka_server.bootstrap]
    assert found.name == mq.describe(topic).logs[0].cluster


class Breaking:
    """A wrapper of the admin client that fails the first call of each method, like a broken connection."""

    def __init__(self, native, code):
        self.native, self.code = native, code
        self.broken = set()

    def __getattr__(self, name):
        call = getattr(self.native, name)

        def breaking(*args, **kwargs):
            if name in self.broken or name == "poll":
                return call(*args, **kwargs)
            self.broken.add(name)
            error = KafkaException(KafkaError(self.code))
            if name.startswith("list_") and name != "list_offsets":  # these calls return their answer
                raise error
            failed = Future()
            failed.set_exception(error)
            return dict.fromkeys(call(*args, **kwargs), failed)

        return breaking


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._DESTROY_BROKER])
def test_a_broken_connection_ends_no_question(mq, topic, code):
    """Lag, groups and topics are answered although each request fails once."""
    fill(mq, topic, 3)
    group = new_name()
    mq.reset_group(group, topic, mqplug.EARLIEST)
    requests, broken = mq._connection.requests, set()
    for question in (
        lambda: mq.lag(topic, group=group) == {0: 3},
        lambda: group in {each.name for each in mq.groups(topic)},
        lambda: topic in mq.topics(),
    ):
        requests._admin = breaking = Breaking(requests._admin, code)  # again: a slow machine may have replaced it
        assert question()
        broken |= breaking.broken
    assert broken >= {"describe_topics", "describe_configs", "list_offsets", "list_groups", "list_topics"}


def test_a_native_client_that_never_answers_is_replaced_within_a_question(mq, topic, monkeypatch):
    """A query that stays unanswered is repeated through a new admin client within its timeout."""
    fill(mq, topic, 3)
    set_wait(monkeypatch, "first attempt", 0.3)
    set_wait(monkeypatch, "replacement of an admin client", 0.0)
    requests = mq._connection.requests
    former = requests._admin

    class Silent:
        def __getattr__(self, name):
            return (lambda _: None) if name == "poll" else lambda *_, **__: {topic: Future()}

    requests._admin = Silent()
    assert len(mq._connection.describe([topic], 30)[topic].logs) == 1
    assert requests._admin is not former


@pytest.mark.disturbs
def test_a_question_goes_on_when_a_paused_broker_does(kafka_server, mq, topic):
    """A query made while the broker is paused is answered once the broker resumes."""
    fill(mq, topic, 3)
    kafka_server.pause()
    resume = threading.Timer(2, kafka_server.unpause)
    began = time.monotonic()
    resume.start()
    try:
        assert mq.watermarks(topic, timeout=60)[0].count == 3
        assert time.monotonic() - began >= 1
    finally:
        resume.join()
