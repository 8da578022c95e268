"""``consume`` reads what kcat and the console tools of Kafka and Pulsar write, and the reverse."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

LIMIT_S = 100
GOT = re.compile(r"key:\[(.*?)\], properties:\[(.*?)\], content:(.*?)\n")

pytestmark = [pytest.mark.timeout(240), pytest.mark.night]  # by day, tests of the plugins run the same tools
over_kafka = pytest.mark.parametrize("cluster", ["kafka"], indirect=True)
over_pulsar = pytest.mark.parametrize("cluster", ["pulsar"], indirect=True)


@pytest.fixture
def other(cluster, request):
    """Call another tool on the server with an input, and return its output."""
    server = request.getfixturevalue(f"{cluster.backend}_server")

    def call(name, *arguments, given=b""):
        if name == "kcat":
            if shutil.which("kcat") is None:
                pytest.skip("kcat is not installed")
            command = ["kcat", *arguments, "-b", server.bootstrap]
        else:
            command = server.tool(name, *arguments)
        done = subprocess.run(command, input=given, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return call


@pytest.fixture
def name(cluster):
    """A topic of one partition."""
    topic = cluster.new_name()
    with cluster.connect() as mq:
        mq.create_topic(topic)
    return topic


def envelopes(cluster, topic):
    """Return key, value and headers of each message of a topic, as consume --json writes them."""
    rows = map(json.loads, cluster.run("consume", topic, "--json").stdout.splitlines())
    return [(row["key"], row.get("value", row.get("value_base64")), row["headers"]) for row in rows]


@over_kafka
def test_what_kcat_writes_we_read(cluster, other, name):
    """``consume`` reads keys, empty and null values, headers, and invalid UTF-8 that kcat wrote."""
    other("kcat", "-P", "-t", name, "-K", ":", "-Z", "-H", "h=1", "-H", "h=2", given=b"k:two chairs\nk:\nb:\xff\n")
    headers = [{"name": "h", "value": "1"}, {"name": "h", "value": "2"}]
    assert envelopes(cluster, name) == [("k", "two chairs", headers), ("k", None, headers), ("b", "/w==", headers)]


@over_kafka
def test_what_we_write_kcat_reads(cluster, other, name):
    """Our format strings write what kcat's do, and kcat reads what we sent."""
    done = cluster.run(
        "produce", name, "-K", ":", "-Z", "-H", "h=1", "-H", "e=", given=b"k:two chairs\nk:\n\xff:\xfe\n"
    )
    assert done.returncode == 0, done.stderr
    template = "%t [%p] %o %k/%K %s/%S %T %h %%\\x41\\n"
    theirs = other("kcat", "-C", "-t", name, "-o", "beginning", "-e", "-q", "-f", template)
    assert theirs == cluster.run("consume", name, "--format", template, given=b"").stdout
    assert theirs.count(b"\n") == 3
    theirs = other("kcat", "-C", "-t", name, "-o", "beginning", "-e", "-q", "-K", ":")
    assert theirs == b"k:two chairs\nk:\n\xff:\xfe\n" == cluster.run("consume", name, "-K", ":", given=b"").stdout


@over_kafka
def test_what_kafkas_console_producer_writes_we_read(cluster, other, name):
    """``consume`` reads keys and values as Kafka's console producer splits them."""
    options = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    other("ConsoleProducer", "--topic", name, *options, given="a:zwei Stühle\nb:\n".encode())
    assert envelopes(cluster, name) == [("a", "zwei Stühle", []), ("b", "", [])]


@over_kafka
def test_what_we_write_kafkas_console_consumer_reads(cluster, other, name):
    """Kafka's console consumer reads our keys, values, headers and tombstones."""
    cluster.run("produce", name, "-K", ":", "-Z", "-H", "h=1", given="a:zwei Stühle\nb:\n")
    shown = [f"--formatter-property=print.{each}=true" for each in ("key", "headers")]
    options = ("--from-beginning", "--max-messages", "2", *shown)
    printed = other("consumer.ConsoleConsumer", "--topic", name, *options).decode()
    assert printed == "h:1\ta\tzwei Stühle\nh:1\tb\tnull\n"


@over_pulsar
def test_what_pulsars_client_writes_we_read(cluster, other, name):
    """``consume`` reads values, the key and properties that Pulsar's client wrote."""
    other("client", "produce", "-m", "zwei Stühle", "-m", "b", "-s", ";", "-k", "ü", "-p", "h=1", name)
    assert envelopes(cluster, name) == [("ü", each, [{"name": "h", "value": "1"}]) for each in ("zwei Stühle", "b")]


@over_pulsar
def test_what_we_write_pulsars_client_reads(cluster, other, name):
    """Pulsar's client reads our keys, values and headers."""
    cluster.run("produce", name, "-K", ":", "-H", "h=1", given="a:zwei Stühle\nb:x\n")
    printed = other("client", "consume", "-s", "theirs", "-n", "2", "-p", "Earliest", name).decode()
    assert GOT.findall(printed) == [("a", "h=1", "zwei Stühle"), ("b", "h=1", "x")]
