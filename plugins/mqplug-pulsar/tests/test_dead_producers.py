"""Producers of pulsar-client that cannot be opened, or that a broker has closed without their noticing."""

from __future__ import annotations

import struct
from concurrent.futures import Future

import pytest
from driver_faults import change, shorten
from pulsar_driver import take
from scripted_peer import command, fields, peer, relay

import mqplug
from mqplug import EARLIEST

CLOSE_PRODUCER, PRODUCER_SUCCESS = 15, 17
PRODUCER_ID, REQUEST_ID = 1, 2


@pytest.fixture
def closing(pulsar_server):
    """A broker's address, behind which the first producer is closed just before its creation is confirmed."""
    behind = int(pulsar_server.service_url.rpartition(":")[2])
    told = []

    def edit(frame):
        frame = frame.replace(b"127.0.0.1:%d" % behind, b"127.0.0.1:%d" % port)  # where the broker says it is
        body = frame[8 : 8 + struct.unpack_from(">I", frame, 4)[0]]
        if fields(body)[1] == PRODUCER_SUCCESS and not told:
            told.append(frame)
            return command(CLOSE_PRODUCER, (PRODUCER_ID, 0), (REQUEST_ID, 0)) + frame
        return frame

    with peer(relay(behind, edit)) as port:
        assert len(str(port)) == len(str(behind))
        yield f"pulsar://127.0.0.1:{port}?admin_url={pulsar_server.admin_url}"
    assert told


def test_the_next_send_succeeds(closing, topic, monkeypatch):
    """After a send timed out because its producer was closed without its noticing, the next one is stored."""
    shorten(monkeypatch, "send", 1.0)
    with mqplug.connect(closing) as client, client.producer(topic) as out:
        lost = [out.submit(b"%d" % number) for number in range(3)]
        for each in lost:
            with pytest.raises(mqplug.OutcomeUnknown):
                each.result()
        sent = [out.send(b"again"), *out.send_many([b"and", b"on"])]
        with client.consumer(topic, start=EARLIEST) as reader:
            got = take(reader, 3)
            while got[-1].id != sent[-1]:
                got += take(reader, 1)
    assert [message.id for message in got[-3:]] == sent


def test_an_opening_that_fails_at_once(plain, mq, topic, monkeypatch):
    """A record fails with its error even if the producer's opening has failed before the record reaches it."""

    def started_and_ended(begin, self, call):
        future: Future[object] = begin(self, call)
        future.exception(30)
        return future

    with plain.producer(topic) as out:
        out.send(b"x")
        mq.delete_topic(topic)
        with pytest.raises(mqplug.TopicNotFound):
            out.send(b"y")
        change(monkeypatch, "call of the client", started_and_ended)
        with pytest.raises(mqplug.TopicNotFound):
            out.send(b"z", timeout=10)
        with pytest.raises(mqplug.SendFailed, match="the topic does not exist"):
            out.send_many([b"many", b"more"], timeout=10)
