"""Calls while a broker, or only its admin interface, does not answer."""

from __future__ import annotations

import threading
import time

import pytest
from pulsar_driver import check_in_any_order, fill, take

import mqplug
from mqplug_testing import Proxy, free_port

DOWN_S = 1.0


@pytest.mark.parametrize("mode", ["ordered", pytest.param("shared", marks=pytest.mark.night)])
def test_a_commit_while_the_admin_interface_refuses(mq, pulsar_server, topic, mode):
    """A commit waits for an admin interface that refuses connections, as during a restart of the broker."""
    fill(mq, topic, 1)
    port, behind = free_port(), int(pulsar_server.admin_url.rpartition(":")[2])
    address = f"{pulsar_server.service_url}?admin_url=http://127.0.0.1:{port}"
    with Proxy(behind, ports=[port]) as front, mqplug.connect(address) as client:
        member = client.consumer(topic, group="g", mode=mode)
        member.ack(take(member, 1)[0])
        front.close()
        with pytest.raises(mqplug.ConnectError):
            member.commit(timeout=0.3)
        back = []
        timer = threading.Timer(DOWN_S, lambda: back.append(Proxy(behind, ports=[port])))
        timer.start()
        try:
            member.commit(timeout=30)
            assert back
            member.close()
        finally:
            timer.join()
            back[0].close()
    check_in_any_order(mq, topic, [], mode)


@pytest.mark.disturbs
@pytest.mark.parametrize(
    "mode", [pytest.param(None, marks=pytest.mark.night), pytest.param("ordered", marks=pytest.mark.night), "shared"]
)
def test_a_receive_while_the_broker_is_frozen(pulsar_server, topic, mode):
    """A receive ends in time while the broker is cut off, even when it checks whether the topic still exists."""
    group = {"start": mqplug.EARLIEST} if mode is None else {"group": "g", "mode": mode}
    with mqplug.connect(pulsar_server.relayed_url) as client, client.consumer(topic, **group) as consumer:
        assert consumer.receive(0.1) is None
        pulsar_server.break_connections()
        pulsar_server.cut_network()
        longest, end = 0.0, time.monotonic() + 4  # the topic is checked every two seconds
        try:
            while time.monotonic() < end:
                began = time.monotonic()
                assert consumer.receive(0.2) is None
                longest = max(longest, time.monotonic() - began)
        finally:
            pulsar_server.heal_network()
        assert longest < 1.2
