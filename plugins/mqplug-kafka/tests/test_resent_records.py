"""Records that librdkafka resends are stored once, also while a broker comes back."""

from __future__ import annotations

import pytest
from kafka_driver import new_name
from leaderless_relay import LeaderlessRelay

import mqplug

VALUES = [b"first", *(b"%d" % number for number in range(12))]
ATTEMPTS = 5  # with several requests in flight, a record is stored twice only by chance


@pytest.fixture(scope="module")
def relayed(disturbed_kafka):
    """A broker that advertises a relay as its address, the relay, and the URL of the relay."""
    relay = LeaderlessRelay(disturbed_kafka.front, disturbed_kafka.behind)
    yield disturbed_kafka, relay, f"kafka://127.0.0.1:{disturbed_kafka.front}"
    relay.close()


def interrupted(relayed, native="auto", **options):
    """Send while an answer is lost and the broker leads no partition at first. Return ids and stored messages."""
    server, relay, url = relayed
    topic = new_name()
    with mqplug.connect(server.url) as straight:
        straight.create_topic(topic)
        relay.begin(topic)
        with mqplug.connect(url, native=native, librdkafka={"batch.num.messages": "1", **options}) as mq:
            ids = send_through(mq, topic, relay)
        return ids, [(m.id, m.value) for m in straight.read(topic)]


def send_through(mq, topic, relay):
    """Send a record whose answer is lost, and others after it. Return the ids of all these."""
    with mq.producer(topic) as out:
        out.send(b"first")
        relay.loses_next = True
        handles = [out.submit(VALUES[1])]
        assert relay.lost.wait(20)
        handles += [out.submit(value) for value in VALUES[2:]]
        relay.come_back(refusals=2)
        out.flush(timeout=60)
        return [handle.result() for handle in handles]


@pytest.mark.parametrize("native", ["off", "auto"])
def test_a_record_is_stored_once_though_the_broker_leads_nothing_at_first(relayed, native):
    """A record whose answer was lost is stored once, even if the broker refuses the next requests for a moment."""
    ids, stored = interrupted(relayed, native)
    assert [value for _, value in stored] == VALUES
    assert [each for each, _ in stored[1:]] == ids


@pytest.mark.xfail(strict=True, reason="librdkafka issue 4953: once this passes, several requests may be on their way")
def test_it_is_stored_once_with_several_requests_on_their_way(relayed):
    """A record whose answer was lost is stored once with five requests in flight, whichever arrives first."""
    for _ in range(ATTEMPTS):
        _, stored = interrupted(relayed, **{"max.in.flight": "5"})
        assert [value for _, value in stored] == VALUES
