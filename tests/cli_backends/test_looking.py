"""The read-only verbs, as processes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import termios

import pytest
from cli_processes import MQPLUG, Cluster

import mqplug

DEADLINE_S = 60


def test_topics_and_their_partitions(cluster, topic, group):
    """A topic is listed, and described with the range of each partition, its groups, and the position of a time."""
    assert topic in cluster.found("topics")
    assert [(row["partition"], row["messages"]) for row in cluster.found("watermarks", topic)] == [(0, 3), (1, 3)]
    described = cluster.found("describe", topic)
    assert (described["partitions"], described["groups"]) == (2, [group])
    assert all(
        mqplug.MessageId.parse(log["first_id"]) < mqplug.MessageId.parse(log["last_id"]) for log in described["logs"]
    )
    assert [row["messages"] for row in cluster.found("offsets", topic, "--at", "-1h")] == [3, 3]
    assert [row["messages"] for row in cluster.found("offsets", topic, "--at", "2999-01-01")] == [0, 0]


def test_groups_and_their_lag(cluster, topic, group):
    """A group is listed, with its positions and its lag, which also works as a check for cron."""
    assert cluster.found("groups", topic) == [{"name": group, "members": 0}]
    state = cluster.found("state", group)
    assert (state["topics"], state["members"]) == ([topic], [])
    assert [each["partition"] for each in state["positions"]] == [0, 1]
    assert [(row["topic"], row["lag"]) for row in cluster.found("lag", group)] == [(topic, 2), (topic, 2)]
    late = cluster.run("lag", group, "--max", "3")
    assert (late.returncode, late.stdout) == (3, f"BEHIND: {group} lags by 4 | {group}=4;;3\n")
    assert cluster.run("lag", "--all", "--max", "1000000").returncode == 0


def test_capabilities_and_the_doctor(cluster):
    """`caps` shows the capabilities of a backend, and the doctor connects."""
    assert cluster.found("caps")["backend"] == cluster.backend
    assert cluster.found("doctor")["connects"] is True


def test_the_brokers(cluster):
    """`cluster` lists the brokers with their addresses, and none if the backend has none."""
    shown = cluster.found("cluster")
    assert (shown["backend"], bool(shown["brokers"])) == (cluster.backend, cluster.backend != "rocksmq")
    assert all(re.fullmatch(r"[\w.-]+:\d+", each["address"]) for each in shown["brokers"])
    assert cluster.run("cluster").stdout.startswith(f"{cluster.backend} ")


@pytest.mark.parametrize("verb", [["describe"], ["watermarks"], ["offsets", "--at", "-1h"], ["groups"]])
def test_a_missing_topic_is_one_line(cluster, verb):
    """A missing topic is an error in one line that names it; the exit code is 1."""
    done = cluster.run(verb[0], "no-such-topic", *verb[1:])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "topic 'no-such-topic'" in done.stderr


@pytest.mark.parametrize("verb", ["state", "lag"])
def test_a_missing_group_is_one_line(cluster, verb):
    """A missing group is an error in one line that names it; the exit code is 1."""
    done = cluster.run(verb, "no-such-group")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "'no-such-group'" in done.stderr


def watched(cluster, group, *options, **streams):
    """A process that prints the lag repeatedly."""
    return cluster.start("lag", group, "--watch", "1s", *options, "-o", "json", **streams)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_watching_ends_with_a_signal(cluster, group, number, code):
    """Ctrl-C and SIGTERM end the watching at once, without output."""
    with watched(cluster, group) as process:
        assert sum(row["lag"] for row in json.loads(process.stdout.readline())) == 4
        process.send_signal(number)
        rest, complaint = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, complaint.strip()) == (code, b"")
    assert all(json.loads(line) for line in rest.splitlines())


def test_an_owner_that_is_killed_is_replaced(tmp_path):
    """Watching a RocksMQ store continues when the process that had the store open is killed."""
    cluster = Cluster("rocksmq", f"rocksmq://{tmp_path}/store", tmp_path)
    with cluster.connect() as mq:
        mq.create_topic("orders")
        mq.reset_group("billing", "orders", mqplug.EARLIEST)
    owner = subprocess.Popen([*MQPLUG, "rocksmq", "serve", f"{tmp_path}/store"], stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline()
        with watched(cluster, "billing") as process:
            assert process.stdout.readline()
            owner.kill()
            owner.wait()
            cluster.run("produce", "orders", given="more\n")
            lines = iter(process.stdout.readline, b"")
            assert next(line for line in lines if json.loads(line)[0]["lag"] == 1)
            process.terminate()
    finally:
        owner.kill()
        owner.communicate()


def on_a_terminal(cluster, columns, *arguments, colors=True):
    """Return the lines that a command prints on a terminal of this width."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    unset = {"COLUMNS", "NO_COLOR"} if colors else {"COLUMNS"}
    variables = {name: value for name, value in cluster.environment(TERM="xterm").items() if name not in unset}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
    with subprocess.Popen(cluster.command(*arguments), env=variables, **streams) as process:
        os.close(follower)
        seen = b"".join(iter(lambda: read(leader), b""))
        assert process.wait(DEADLINE_S) == 0
    os.close(leader)
    return seen.decode().splitlines()


def read(leader):
    """Return the next bytes of a terminal; none when its last process has ended."""
    try:
        return os.read(leader, 4096)
    except OSError:
        return b""


def test_a_terminal_has_its_width_and_its_colors(cluster, topic):
    """A table is as wide as the terminal, and in a pipe as wide as needed; NO_COLOR turns off all colors."""
    painted = on_a_terminal(cluster, 60, "describe", topic)
    plain = on_a_terminal(cluster, 60, "describe", topic, colors=False)
    piped = cluster.run("describe", topic).stdout
    assert any("\x1b[" in line for line in painted)
    assert "\x1b[" not in "".join(plain) + piped
    assert max(map(len, plain)) <= 60 < max(map(len, piped.splitlines()))


@pytest.mark.disturbs
def test_a_server_that_is_gone_ends_the_watching(kafka_server, tmp_path):
    """When the server stops answering, watching ends with an error in one line after the timeout."""
    cluster = Cluster("kafka", kafka_server.relayed_url, tmp_path)
    topic, group = cluster.new_name(), cluster.new_name()
    with mqplug.connect(kafka_server.url) as mq:
        mq.create_topic(topic)
        mq.reset_group(group, topic, mqplug.EARLIEST)
        with watched(cluster, group, "--timeout", "3") as process:
            assert process.stdout.readline()
            kafka_server.cut_network()
            try:
                _, complaint = process.communicate(timeout=DEADLINE_S)
            finally:
                kafka_server.heal_network()
        mq.delete_topic(topic)
    assert (process.returncode, complaint.decode().splitlines()[-1][:7]) == (1, "error: ")


def test_a_missing_right_is_named(secured_kafka, tmp_path):
    """A missing right fails the command in one line that names the right; the password comes from a file."""
    (tmp_path / "mqplug.toml").write_text(
        f'[context.secured]\nbackend = "kafka"\nservers = ["{secured_kafka.secured.address("sasl")}"]\n'
        'mechanism = "PLAIN"\nusername = "erin"\npassword = "${ERIN}"\n'
    )
    cluster = Cluster("kafka", "--context=secured", tmp_path)
    topic = cluster.new_name()
    secured_kafka.secured.allow("erin", "Describe", topic=topic)
    with mqplug.connect(secured_kafka.url) as mq:
        mq.create_topic(topic)
        assert cluster.run("topics", ERIN="erin-pw").stdout == f"{topic}\n"
        for verb in (["delete", topic, "--yes"], ["create", "bills"], ["trim", topic, "--before", "latest", "--yes"]):
            done = cluster.run(*verb, ERIN="erin-pw")
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)
            assert "Have it allowed" in done.stderr
            assert "erin-pw" not in done.stderr
        mq.delete_topic(topic)
