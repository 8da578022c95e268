"""``produce`` and ``consume`` as processes over real servers, and as a pipeline through all of them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

import mqplug
from mqplug import Record

PIPELINE_S = 120
MQPLUG = [sys.executable, "-m", "mqplug_cli"]
ODD = [
    Record(b"plain", b"k", (), 1_700_000_000_000, 0),
    Record(b"", b"", [("a", b"1"), ("b", b""), ("a", None)], 1_600_000_000_123, 1),
    Record(None, b"\xff\x00", (), 1_650_000_000_000, 1),
    Record("zwei Stühle\n".encode(), None, [("ключ", b"\xfe\n"), ("ü", "ä".encode())], 1_700_000_000_001, 0),
    Record(b"\x80\n\x00\x1b[31m", b"line\nbreak", [("", b"x")], 1_700_000_000_002, 2),
]


def fields(records):
    """Return the fields that a pipeline keeps, by partition."""
    rows = [
        (each.partition, mqplug.at_time(each.timestamp).milliseconds, each.key, each.value, tuple(each.headers))
        for each in records
    ]
    return [row for partition in range(3) for row in rows if row[0] == partition]


@pytest.mark.parametrize("cluster", ["rocksmq"], indirect=True)
def test_a_pipeline_through_all_backends_keeps_everything(cluster, request):
    """RocksMQ, Kafka, Pulsar and RocksMQ again: key, value, headers, times, partitions, tombstones and odd bytes."""
    kafka, pulsar = (request.getfixturevalue(f"{name}_server").url for name in ("kafka", "pulsar"))
    names = [cluster.new_name() for _ in range(4)]
    urls = [cluster.url, kafka, pulsar, cluster.url]
    with cluster.connect() as mq:
        mq.create_topic(names[0], partitions=3)
        with mq.producer(names[0]) as out:
            out.send_many(ODD)
    for url, name in zip(urls[1:], names[1:], strict=True):
        with mqplug.connect(url) as mq:
            mq.create_topic(name, partitions=3)
    for number in range(3):
        source = shlex.join([*MQPLUG, "consume", urls[number], names[number], "--json"])
        target = shlex.join([*MQPLUG, "produce", urls[number + 1], names[number + 1], "--json"])
        subprocess.run(f"{source} | {target}", shell=True, check=True, timeout=PIPELINE_S)
    for url, name in zip(urls, names, strict=True):
        with mqplug.connect(url) as mq:
            assert fields(mq.read(name)) == fields(ODD)


def test_lines_in_and_lines_out(cluster, topic):
    """Lines that produce reads from a pipe, consume writes to one, byte for byte; filters and places select some."""
    lines = b"k1:\xff\x00\nk2:\nno key\nk1:last"
    done = cluster.run("produce", topic, "-K", ":", "--partition", "1", given=lines)
    assert (done.returncode, done.stderr) == (0, b"stored 4 messages\n")
    read = ("consume", topic, "--partition", "1", "--from", "-4")
    assert cluster.run(*read, "-K", ":", given=b"").stdout == b"k1:\xff\x00\nk2:\n:no key\nk1:last\n"
    assert cluster.run(*read, "--filter-key", "k1", "-n", "1", given=b"").stdout == b"\xff\x00\n"
    rows = [json.loads(line) for line in cluster.run(*read, "--json").stdout.splitlines()]
    again = cluster.run("consume", topic, "--from", rows[1]["id"], "--to", rows[3]["id"], "--format", "%s|%o|")
    assert again.stdout == f"|{rows[1]['offset']}|no key|{rows[2]['offset']}|"


def test_reading_leaves_no_trace(cluster, topic):
    """Reading without --group leaves no new group or subscription."""
    with cluster.connect() as mq:
        assert cluster.run("consume", topic).returncode == 0
        assert cluster.run("consume", topic, "--tail", "1").returncode == 0
        assert mq.groups(topic) == []  # those of other topics belong to tests that run at the same time
        assert cluster.run("consume", topic, "--group", topic).returncode == 0
        assert [each.name for each in mq.groups(topic)] == [topic]


def test_a_killed_member_loses_nothing(cluster):
    """After kill -9, the output of the killed process and of the next one together contain every message."""
    topic = cluster.new_name()
    with cluster.connect() as mq:
        mq.create_topic(topic)
        with mq.producer(topic) as out:
            out.send_many([b"%06d" % number for number in range(60_000)])
    process = cluster.start("consume", topic, "--group", topic)
    first = [process.stdout.readline() for _ in range(1000)]
    process.kill()
    first += process.stdout.readlines()
    process.communicate()
    second = cluster.run("consume", topic, "--group", topic, given=b"").stdout.splitlines(keepends=True)
    assert len({each for each in first + second if each.endswith(b"\n")}) == 60_000
    assert cluster.run("consume", topic, "--group", topic).returncode == 3


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_missing_topic(cluster, topic, verb):
    """A missing topic is an error in one line, and is not created."""
    done = cluster.run(verb, f"{topic}-not", given="x\n")
    assert (done.returncode, done.stdout, f"topic '{topic}-not'" in done.stderr) == (1, "", True)
    with cluster.connect() as mq:
        assert f"{topic}-not" not in mq.topics()
