"""The verbs that measure, as processes."""

from __future__ import annotations

import json
import signal

import pytest
from waiting import wait_until

import mqplug

TIME = 1_700_000_000_000


def records(values, partitions):
    """Return messages, each with a key, headers and a time."""
    return [
        mqplug.Record(value, b"k%d" % n, {"h": b"x"} if n % 2 else (), TIME + n, n % partitions)
        for n, value in enumerate(values)
    ]


@pytest.fixture
def copies(cluster):
    """Names of topics with the same 3,000 messages, on two partitions and on three."""
    names = {"two": cluster.new_name(), "three": cluster.new_name()}
    values = [b"value %d" % n for n in range(3_000)]
    with cluster.connect() as mq:
        for number, name in enumerate(names.values(), 2):
            mq.create_topic(name, partitions=number)
            with mq.producer(name) as out:
                out.send_many(records(values, number))
        yield names
        for name in names.values():
            mq.delete_topic(name)


def test_checksums_are_those_of_memory(cluster, copies):
    """A topic has the same checksums on every backend."""
    done = cluster.run("verify", copies["two"], "-o", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["messages"], found["problems"]) == (0, 3_000, [])
    assert [row["checksum"] for row in found["partitions"]] == [
        "c889216859af1765b5e0338a19be7a49",
        "a2657640d4ca908d6be526ba9382b266",
    ]


def test_the_first_difference_between_topics_is_named(cluster, copies):
    """Topics with the same messages are equal in any partition; an added message is found, with its id."""
    compare = ("verify", copies["two"], "--against-topic", copies["three"], "--any-partition", "-o", "json")
    assert cluster.run(*compare).returncode == 0
    with cluster.connect() as mq, mq.producer(copies["three"]) as out:
        added = out.send(b"one more", partition=2)
    done = cluster.run(*compare)
    (difference,) = json.loads(done.stdout)["differences"]
    assert done.returncode == 1
    assert f"only the second topic has {added}" in difference["says"]


def test_a_benchmark_leaves_no_topic(cluster):
    """A benchmark prints its figures, and the topics that it created are gone."""
    with cluster.start("bench", "--count", "500", "--latencies", "20", "--rounds", "2", "-o", "json") as process:
        printed, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (0, b"")
    (result,) = json.loads(printed)["results"]
    assert result["received_ms"]["p50"] > 0
    with cluster.connect() as mq:
        assert topics_of(process, mq) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_ended_benchmark_leaves_no_topic(cluster, number, code):
    """Ctrl-C and SIGTERM during a benchmark delete the topic, too."""
    with cluster.connect() as mq:
        with cluster.start("bench", "--seconds", "100s") as process:
            wait_until(lambda: any(mq.watermarks(each)[0].count for each in topics_of(process, mq)), 60)
            process.send_signal(number)
            _, complaint = process.communicate(timeout=60)
        assert (process.returncode, complaint.strip()) == (code, b"interrupted after 0 complete rounds")
        assert topics_of(process, mq) == []


def topics_of(process, mq):
    """Return the topics that this benchmark created, among all benchmarks on the same servers."""
    return [each for each in mq.topics() if each.startswith(f"mqplug-bench-{process.pid}-")]
