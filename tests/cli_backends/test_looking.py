"""The verbs that look, as processes."""

from __future__ import annotations

import json


def test_topics_and_watermarks(cluster, topic):
    """The topics are listed, and each partition has its range with the number of messages."""
    assert topic in cluster.run("topics").stdout.splitlines()
    rows = json.loads(cluster.run("watermarks", topic, "--json").stdout)
    assert [(row["partition"], row["messages"]) for row in rows] == [(0, 3), (1, 3)]


def test_a_missing_topic_is_one_line(cluster, topic):
    """A topic that is not there is an error in one line that names it; the exit code is 1."""
    done = cluster.run("watermarks", f"{topic}-not")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"topic '{topic}-not'" in done.stderr
