"""`mqplug bench`: what it prints, and what it leaves in the backend."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.util import find_spec

import pytest
from waiting import wait_until

import mqplug
from mqplug_cli import run_command
from mqplug_cli._measuring import benchmark
from mqplug_cli._measuring.loads import percentiles_ms

QUICK = ["--count", "300", "--latencies", "5", "--rounds", "2"]


@pytest.fixture
def url(request):
    """The URL of a store in memory, which stays open during the test."""
    url = f"memory://{request.function.__name__}"
    with mqplug.connect(url):
        yield url


def topics(url):
    """Return the topics of a store."""
    with mqplug.connect(url) as mq:
        return mq.topics()


def bench(capsys, *arguments):
    """Return the report of a successful run."""
    assert run_command(["bench", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_each_round_has_its_rates_and_latencies(capsys, url):
    """Each direction has two rates, their median, and percentiles that never descend."""
    found = bench(capsys, url, *QUICK, "--size", "100", "--partitions", "3")
    assert (found["rounds"], found["message_bytes"], found["partitions"]) == (2, 100, 3)
    assert (found["count"], found["seconds"], found["latencies"]) == (300, None, 5)
    (result,) = found["results"]
    for verb in ("produce", "consume"):
        low, high = sorted(result[verb]["rounds"])
        assert 0 < low <= result[verb]["messages_per_s"] <= high
    for name in ("acknowledged_ms", "received_ms"):
        values = [result[name][each] for each in ("p50", "p90", "p99", "p99.9", "max")]
        assert values == sorted(values)
        assert values[0] > 0


def test_its_topics_are_gone_afterwards(capsys, url):
    """A benchmark leaves no topic."""
    bench(capsys, url, *QUICK)
    assert topics(url) == []


def test_a_failure_leaves_no_topic(capsys, url, monkeypatch):
    """The topic is deleted after an error too, which is reported in one line."""

    def fail(*_):
        raise mqplug.ConnectError("the server is gone")

    monkeypatch.setattr(benchmark, "measure_consume", fail)
    assert run_command(["bench", url, *QUICK]) == 1
    assert capsys.readouterr().err.startswith("error: the server is gone")
    assert topics(url) == []


def test_a_topic_that_cannot_be_deleted_is_named(capsys, url, monkeypatch):
    """If the deletion fails, the remaining topic is named on standard error."""

    def fail(*_, **__):
        raise mqplug.AccessDenied("not allowed to delete")

    monkeypatch.setattr(mqplug.Client, "delete_topic", fail)
    assert run_command(["bench", url, *QUICK, "--rounds", "1"]) == 0
    (name,) = topics(url)
    assert f"the topic {name} was not deleted: not allowed to delete" in capsys.readouterr().err


def test_a_named_topic_keeps_its_messages(capsys, url):
    """With --topic only the new messages are read, and all messages stay."""
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=2)
        with mq.producer("orders") as out:
            out.send_many([b"x"] * 50)
        found = bench(capsys, url, *QUICK, "--topic", "orders")
        assert found["partitions"] == 2
        assert found["results"][0]["consume"]["messages_per_s"] > 0
        assert sum(each.count for each in mq.watermarks("orders").values()) == 50 + 2 * (301 + 6)


def test_two_backends_have_ratios(capsys, url):
    """--against gives two results, and the ratio of the first to the second for each figure."""
    found = bench(capsys, url, *QUICK, "--against", "memory://other")
    mine, other = found["results"]
    assert (mine["label"], other["label"]) == (url, "memory://other")
    expected = mine["consume"]["messages_per_s"] / other["consume"]["messages_per_s"]
    assert found["ratios"]["consume, messages/s"] == pytest.approx(expected, abs=0.001)


def test_rounds_take_turns(capsys, url, monkeypatch):
    """The two sides are measured in turn, round by round."""
    measured = []
    produce = benchmark.measure_produce

    def note(mq, *rest):
        measured.append(mq.describe(rest[0]).logs[0].cluster)
        return produce(mq, *rest)

    monkeypatch.setattr(benchmark, "measure_produce", note)
    bench(capsys, url, *QUICK, "--against", "memory://other")
    assert measured == [measured[0], "other"] * 2


def test_seconds_bound_each_measurement(capsys, url):
    """--seconds measures as many messages as fit into that time."""
    found = bench(capsys, url, "--seconds", "0.1s", "--latencies", "1", "--rounds", "1")
    assert (found["count"], found["seconds"]) == (None, 0.1)
    assert found["results"][0]["produce"]["messages_per_s"] > 0


def test_for_people_it_is_a_table(capsys, url):
    """The default output is a line with the sizes, and a line for each figure."""
    assert run_command(["bench", url, *QUICK, "--against", url]) == 0
    sizes, _, header, *lines = capsys.readouterr().out.splitlines()
    assert sizes == "2 rounds of 300 messages and 5 single messages, 1,024 bytes each, 1 partition"
    assert header.split() == ["measured", "first", "second", "ratio"]
    assert [line.split("  ")[0] for line in lines[::4]] == [
        "produce, messages/s",
        "send to acknowledged, p50, ms",
        "send to acknowledged, max, ms",
        "send to received, p99.9, ms",
    ]


def test_the_chart_is_an_svg_document(capsys, url, tmp_path):
    """--chart draws a bar for each side in each round, in three panels."""
    path = tmp_path / "rounds.svg"
    bench(capsys, url, *QUICK, "--against", "memory://other", "--chart", str(path))
    root = ET.parse(path).getroot()
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("rx") == "2"]
    assert len(bars) == 2 + 3 * 2 * 2  # legend, panels, rounds and sides
    assert "round 2" in "".join(root.itertext())


def test_interrupted_it_prints_the_rounds_that_are_done(capsys, url, monkeypatch):
    """Ctrl-C in the second round exits with 130; the first round is printed, and no topic is left."""
    rounds = []
    latencies = benchmark.measure_latencies

    def interrupted(*arguments):
        rounds.append(1)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return latencies(*arguments)

    monkeypatch.setattr(benchmark, "measure_latencies", interrupted)
    assert run_command(["bench", url, *QUICK, "-o", "json"]) == 130
    printed = capsys.readouterr()
    assert json.loads(printed.out)["rounds"] == 1
    assert printed.err.strip() == "interrupted after 1 complete rounds"
    assert topics(url) == []


@pytest.mark.parametrize("verb", ["create_topic", "delete_topic"])
def test_interrupted_at_its_topic_it_leaves_none(capsys, url, monkeypatch, verb):
    """Ctrl-C while the topic is created or deleted waits for that; then the topic is deleted, and the code is 130."""
    called = getattr(mqplug.Client, verb)

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return called(*arguments, **options)

    monkeypatch.setattr(mqplug.Client, verb, interrupted)
    assert run_command(["bench", url, *QUICK]) == 130
    assert capsys.readouterr().err.startswith("interrupted after 0 complete rounds")
    assert topics(url) == []


def test_interrupted_again_it_names_the_topic_that_is_left(capsys, url, monkeypatch):
    """A second Ctrl-C ends the deletion, and the remaining topic is named."""

    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(mqplug.Client, "delete_topic", interrupted)
    assert run_command(["bench", url, *QUICK]) == 130
    (name,) = topics(url)
    assert f"the topic {name} was not deleted: interrupted again" in capsys.readouterr().err


@pytest.mark.python
@pytest.mark.skipif(find_spec("mqplug_rocksmq") is None, reason="mqplug-rocksmq is not installed")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_topic_on_disk(tmp_path, number, code):
    """A benchmark that a signal ends while it sends deletes its topic from the store."""
    url = f"rocksmq://{tmp_path}/store"
    with mqplug.connect(url) as mq:
        arguments = [sys.executable, "-m", "mqplug_cli", "bench", url, "--seconds", "60s"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: any(mq.watermarks(each)[0].count for each in mq.topics()), 60)
            process.send_signal(number)
            _, complaint = process.communicate(timeout=60)
        assert (process.returncode, complaint.strip()) == (code, "interrupted after 0 complete rounds")
        assert mq.topics() == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [([0.001], [1.0] * 5), ([n / 1000 for n in range(1000, 0, -1)], [500, 900, 990, 999, 1000])],
)
def test_percentiles(seconds, expected):
    """A percentile is the smallest time that this share of the samples did not exceed."""
    assert list(percentiles_ms(seconds).values()) == expected


def test_count_and_seconds_at_once_are_refused(capsys, url):
    """Both --count and --seconds are wrong usage."""
    assert run_command(["bench", url, "--count", "5", "--seconds", "5s"]) == 2
