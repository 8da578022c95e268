"""The verbs that change a backend, as processes."""

from __future__ import annotations

import json

import pytest


def test_the_life_of_a_topic(cluster):
    """A topic is created, grown, given a retention, and deleted, and each step reports its effect."""
    name = cluster.new_name()
    made = cluster.found("create", name, "--partitions", "2", "--retention", "7d")
    assert (made["topic"], made["partitions"]) == (name, 2)
    assert cluster.run("create", name, "--partitions", "2").returncode == 1
    assert cluster.found("add-partitions", name, "3")["partitions"] == 3
    assert cluster.found("alter", name, "--retention", "14d")["retention"] == 14 * 86400
    gone = cluster.run("delete", name, "--yes")
    assert (gone.returncode, gone.stderr) == (0, "")
    assert name not in cluster.found("topics")


@pytest.mark.parametrize("cluster", ["kafka"], indirect=True)
def test_the_options_of_a_topic(cluster, topic):
    """Changes by `alter --set` appear in `describe`, in JSON and in its page."""
    assert cluster.found("describe", topic)["options"] == {}
    changed = cluster.found("alter", topic, "--set", "preallocate=true", "--set", "min.insync.replicas=1")
    options = {"min.insync.replicas": "1", "preallocate": "true"}
    assert changed["options"] == cluster.found("describe", topic)["options"] == options
    assert "\noptions: min.insync.replicas=1, preallocate=true\n" in cluster.run("describe", topic).stdout


def test_what_would_be_destroyed_is_said_first(cluster, topic, group):
    """Without a terminal and --yes nothing is destroyed; the question has the address and what would be lost."""
    for arguments in (["delete", topic], ["seek", group, "--to", "latest"], ["delete-group", group]):
        done = cluster.run(*arguments)
        assert (done.returncode, "there is no terminal to ask on" in done.stderr) == (2, True)
        address = cluster.url.partition("://")[2].partition("?")[0]
        assert f" of {cluster.backend} " in done.stderr
        assert address in done.stderr
    assert cluster.found("delete", topic, "--yes")["groups"] == [group]


def test_a_seek_does_what_its_dry_run_says(cluster, topic, group):
    """The dry run counts repeated and skipped messages on every backend, and the seek matches it."""
    planned = cluster.found("seek", group, "--to", "-1", "--dry-run")
    assert [(row["partition"], row["again"], row["passed"]) for row in planned] == [(0, 0, 1), (1, 0, 1)]
    (back,) = {(row["again"], row["passed"]) for row in cluster.found("seek", group, "--to", "earliest", "--dry-run")}
    assert back == (1, 0)
    assert cluster.found("seek", group, "--to", "-1", "--yes") == planned
    assert [row["lag"] for row in cluster.found("lag", group)] == [1, 1]
    assert cluster.found("delete-group", group, "--yes") == {"group": group, "topics": [topic]}
    assert cluster.run("state", group).returncode == 1


def test_a_group_in_use_is_not_moved(cluster, topic, group):
    """A group with a live member is not moved, and the error has the member's name, which `state` shows too."""
    with cluster.connect() as mq, mq.consumer(topic, group=group) as consumer:
        assert consumer.receive(30)
        (live,) = cluster.found("state", group)["members"]
        assert {log["partition"] for log in live["holds"]} == {0, 1}
        done = cluster.run("seek", group, "--to", "latest", "--yes")
        assert (done.returncode, live["name"] in done.stderr) == (1, True)


def test_trim(cluster, topic):
    """A trim removes what its dry run says, or is refused by a backend without trims."""
    planned = cluster.run("trim", topic, "--before", "-1", "--dry-run", "-o", "json")
    assert [row["messages"] for row in json.loads(planned.stdout)] == [2, 2]
    done = cluster.run("trim", topic, "--before", "-1", "--yes")
    with cluster.connect() as mq:
        assert done.returncode == (0 if mq.capabilities.trim else 1)
        left = 1 if mq.capabilities.trim else 3
        assert [marks.count for marks in mq.watermarks(topic).values()] == [left, left]


@pytest.mark.parametrize(
    "arguments",
    [["create", "x", "--partitions", "0"], ["seek", "g", "--to", "nowhere"], ["alter", "x"], ["trim", "x"], ["delete"]],
)
def test_wrong_usage(cluster, arguments):
    """Wrong usage exits with 2 before the backend is contacted."""
    done = cluster.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: mqplug ")


@pytest.mark.parametrize("verb", [["delete", "--yes"], ["alter", "--retention", "1d"], ["add-partitions", "7"]])
def test_a_missing_topic(cluster, verb):
    """A missing topic is an error in one line that names it; the exit code is 1."""
    name, *options = verb
    done = cluster.run(name, "no-such-topic", *options)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no-such-topic" in done.stderr
