"""Certificates renewed in their files: open clients continue without losing sends or positions."""

from __future__ import annotations

import shutil
import threading
import time

import pytest
from kafka_driver import new_name, take
from waiting import wait_until

import mqplug

FORMER = "former"  # the user of the first certificate; its rights end once the certificate was renewed


@pytest.fixture
def own(secured, tmp_path):
    """Return a function that issues a certificate into the same files and returns the settings that use it."""
    cert, key = tmp_path / "own.pem", tmp_path / "own.key"

    def issue(user="alice"):
        issued = secured.issue(user)
        for new, file in ((issued.key_file, key), (issued.cert_file, cert)):
            shutil.copy(new, tmp_path / "next")
            (tmp_path / "next").replace(file)
        return {
            "servers": [secured.address("mtls")], "tls": True, "ca_file": str(secured.ca_file),
            "cert_file": str(cert), "key_file": str(key), "session_timeout": 6,
        }  # fmt: skip

    return issue


@pytest.fixture
def former(secured, own):
    """The settings with a certificate of another user, which has all rights."""
    secured.allow(FORMER, "All", topic_prefix="", group_prefix="", cluster=True)
    yield own(FORMER)
    secured.forbid(FORMER)


class Sender:
    """Submits numbered messages in a background thread until the block ends."""

    def __init__(self, out):
        self._out = out
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.handles = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _send(self):
        while not self._stop.wait(0.002):
            number = len(self.handles)
            self.handles.append(self._out.submit(b"%d" % number, partition=number % 2))


def received(consumer, ids, seconds, *, ack=False):
    """Receive for a number of seconds, and add the ids to ``ids``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for message in consumer.receive_many(500, timeout=0.1):
            ids.append(message.id)
            if ack:
                consumer.ack(message)


@pytest.mark.night
def test_renewed_certificates_lose_nothing(secured_kafka, secured, former, own):
    """A client with a renewed certificate continues after the old one lost its rights and all connections were cut.

    Every send is stored once, a reader reads each once and in order, and a member gets every unacked message.
    """
    topic = new_name()
    with mqplug.connect("kafka", **former) as mq:
        mq.create_topic(topic, partitions=2)
        read, acked, credentials = [], [], mq._connection.credentials
        with (
            mq.producer(topic) as out,
            mq.consumer(topic, start=mqplug.EARLIEST) as reader,
            mq.consumer(topic, group=topic) as member,
        ):

            def receive(seconds):
                received(reader, read, seconds)
                received(member, acked, seconds, ack=True)

            with Sender(out) as sender:
                receive(1)
                own()
                wait_until(lambda: credentials.generation and credentials._seen == credentials._look(), 60)
                receive(0.5)  # which moves both consumers
                moved = len(sender.handles)
                wait_until(lambda: len(sender.handles) > moved, 60)
                wait_until(lambda: all(handle.done for handle in sender.handles[: moved + 1]), 60)
                secured.forbid(FORMER)
                secured_kafka.restart()
                receive(2)
            sent = [handle.result(timeout=30) for handle in sender.handles]
            end = time.monotonic() + 90
            while (len(read) < len(sent) or len(set(acked)) < len(sent)) and time.monotonic() < end:
                receive(0.3)
        for partition in (0, 1):
            of_partition = [each for each in sent if each.log.partition == partition]
            assert [each for each in read if each.log.partition == partition] == of_partition
            assert list(dict.fromkeys(each for each in acked if each.log.partition == partition)) == of_partition
        assert mq.positions(topic, group=topic)[0].position == mq.watermarks(topic)[0].high
        mq.delete_topic(topic)


def test_a_member_joins_again_with_its_place(own):
    """When certificates change a member leaves and joins again: acked messages are not repeated, others are."""
    topic = new_name()
    with mqplug.connect("kafka", **own()) as mq:
        mq.create_topic(topic)
        with mq.producer(topic) as out:
            sent = out.send_many([b"%d" % number for number in range(4)])
        handed_over = threading.Event()
        with mq.consumer(topic, group=topic, on_revoked=lambda _: handed_over.set()) as member:
            for message in take(member, 2):
                member.ack(message)
            own()
            end = time.monotonic() + 30
            rest = []
            while not (handed_over.is_set() and rest[-2:] == sent[2:]):
                assert time.monotonic() < end
                if (message := member.receive(timeout=0.1)) is not None:
                    rest.append(message.id)
            assert set(rest) == set(sent[2:])


def test_certificates_that_are_no_good_are_not_used(own, tmp_path):
    """While a renewed file is damaged or missing, a client keeps its certificate; then it takes the next valid one."""
    topic = new_name()
    settings = own()
    with mqplug.connect("kafka", **settings) as mq:
        mq.create_topic(topic)
        with mq.producer(topic) as out, mq.consumer(topic, start=mqplug.EARLIEST) as reader:
            for spoil in (lambda file: file.write_text("no certificate"), lambda file: file.unlink()):
                credentials = mq._connection.credentials
                before = credentials.generation
                spoil(tmp_path / "own.pem")
                end = time.monotonic() + 20
                while credentials.generation == before:
                    assert time.monotonic() < end
                    time.sleep(0.05)
                sent = out.send(b"x", timeout=30)
                assert take(reader, 1)[0].id == sent
                mq.health()
                own()
            sent = out.send(b"y", timeout=30)
            assert take(reader, 1)[0].id == sent
