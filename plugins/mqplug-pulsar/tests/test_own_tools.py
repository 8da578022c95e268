"""Pulsar's command-line client and mqplug: each reads messages of the other, and they share a subscription."""

from __future__ import annotations

import re
import subprocess

import pytest
from pulsar_driver import take

import mqplug
from mqplug import EARLIEST

JAVA_LIMIT_S = 100
GOT = re.compile(
    r"----- got message -----\n.*?key:\[(?P<key>.*?)\], properties:\[(?P<properties>.*?)\], content:(?P<value>.*?)\n",
    re.DOTALL,
)

pytestmark = pytest.mark.timeout(240)


def java(server, *arguments):
    """Run a command of Pulsar's client. Return its output."""
    command = server.tool("client", *arguments)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=JAVA_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def consumed(server, topic, group, count, *options):
    """Return key, properties and value of ``count`` messages as Pulsar's client prints them."""
    printed = java(server, "consume", "-s", group, "-n", str(count), "-p", "Earliest", *options, topic)
    return [found.group("key", "properties", "value") for found in GOT.finditer(printed)]


@pytest.mark.parametrize("batching", [True, pytest.param(False, marks=pytest.mark.night)])
def test_what_their_client_writes_we_read(pulsar_server, mq, topic, batching):
    """Value, key and properties that Pulsar's client wrote, with and without batches, are read by mqplug."""
    java(
        pulsar_server, "produce", "-m", "first", "-m", "zweite 二", "-s", ";", "-k", "Kunde ü", "-p", "b=2 two",
        "-p", "a=ä", "-n", "2", *([] if batching else ["-db"]), topic,
    )  # fmt: skip
    found = [(each.value.decode(), each.key.decode(), dict(each.headers)) for each in mq.read(topic)]
    properties = {"a": "ä".encode(), "b": b"2 two"}
    assert found == [(value, "Kunde ü", properties) for value in ("first", "zweite 二")] * 2


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"compression": "zstd"}, marks=pytest.mark.night),
        pytest.param({"batching": "none", "compression": "lz4"}, marks=pytest.mark.night),
    ],
)
def test_what_we_write_their_client_reads(pulsar_server, topic, settings):
    """Pulsar's client reads mqplug's text unchanged, and its binary keys and headers in the form in the README."""
    records = [
        mqplug.Record(b"plain"),
        mqplug.Record("ä".encode(), "ключ".encode(), headers={"a": b"1", "b": "ü".encode()}),
        mqplug.Record(b"escaped", b"\xff\x00", headers=[("b", b"1"), ("a", b"\xfe"), ("b", None)]),
    ]
    query = "".join(f"&{key}={value}" for key, value in settings.items())
    with mqplug.connect(pulsar_server.url + query) as mq, mq.producer(topic) as out:
        out.send_many(records)
    plain, text, escaped = consumed(pulsar_server, topic, "java", 3)
    assert plain == ("null", "", "plain")
    assert text == ("ключ", "a=1, b=ü", "ä")
    assert escaped[0] == "mqplug:base64:/wA="
    assert 'mqplug.headers=["b"' in escaped[1]


@pytest.mark.night
def test_their_client_goes_on_where_we_stopped(pulsar_server, mq, topic):
    """Messages that mqplug acked do not come to Pulsar's client on the same subscription, and vice versa."""
    with mq.producer(topic) as out:
        for number in range(6):
            out.send(b"%d" % number)  # one entry each, as the Java client acks whole batches only
    with mq.consumer(topic, group="both", start=EARLIEST) as ours:
        for message in take(ours, 3):
            ours.ack(message)
    theirs = consumed(pulsar_server, topic, "both", 2, "-t", "Failover")
    assert [value for *_, value in theirs] == ["3", "4"]
    with mq.consumer(topic, group="both") as ours:
        assert [message.value for message in take(ours, 1)] == [b"5"]
