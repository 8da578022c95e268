"""Messages that pulsar-client sends again to a broker that removes duplicates."""

from __future__ import annotations

import pytest
from pulsar_driver import wait_until

import mqplug

pytestmark = pytest.mark.disturbs


@pytest.mark.parametrize("records", [1, pytest.param(20, marks=pytest.mark.night)])
def test_what_is_sent_again_is_stored_once(mq, topic, rest, pulsar_server, records):
    """Messages whose receipts are lost are sent again, and a broker with deduplication stores them once."""
    rest.ask("POST", f"persistent/public/default/{topic}/deduplicationEnabled", True)
    values = [b"%d" % number for number in range(records)]
    with mqplug.connect(pulsar_server.relayed_url) as client, client.producer(topic) as out:
        out.send(b"first")
        pulsar_server.drop_replies()
        handles = [out.submit(value) for value in values]
        wait_until(lambda: len(list(mq.read(topic))) == 1 + records)
        pulsar_server.break_connections()
        pulsar_server.heal_network()
        for handle in handles:
            with pytest.raises(mqplug.OutcomeUnknown, match="is already stored"):
                handle.result(30)
        out.send(b"last")
    assert [message.value for message in mq.read(topic)] == [b"first", *values, b"last"]
