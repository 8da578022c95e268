"""``mqplug top`` in a pseudo-terminal, over each backend, and through an outage of a real Kafka and a real Pulsar."""

from __future__ import annotations

import shlex
import sys

import pytest
from pseudo_terminal import TerminalProgram

import mqplug

pytest.importorskip("textual", reason="mqplug[top] is not installed")

TOP = [sys.executable, "-m", "mqplug_cli", "top", "--every", "0.5"]
NO_GROUP = "Still asking"
ENTER, ESCAPE, TAB = "\r", "\x1b", "\t"


def search(program, name):
    """Filter by a name, and return to the tables."""
    program.type("/")
    program.read_until("Show all")
    program.type(name)
    program.read_until(f"names with '{name}'")
    program.type(ENTER)
    program.read_until("Open")


@pytest.mark.night  # by day the screens have their tests over memory
def test_a_group_is_found_and_moved(cluster, topic):
    """A filter finds one group among all topics and groups; it is moved after its dry run, and q exits."""
    group = cluster.new_name()
    with cluster.connect() as mq:
        mq.reset_group(group, topic, mqplug.EARLIEST)
    with TerminalProgram([*TOP, cluster.url], TERM="xterm") as program:
        program.read_until(topic)
        search(program, group)
        program.type(TAB + "s")
        if program.read_until("Move the group", NO_GROUP).endswith(NO_GROUP):  # groups are queried in turn
            program.read_until(topic)  # its line
            program.type("s")
            program.read_until("Move the group")
        program.type("latest" + ENTER)
        program.read_until("are passed over")
        program.type(group + ENTER)
        program.read_until(f"moved {group}")
        program.type(ESCAPE)
        program.read_until("partition")
        program.type("q")
        assert program.wait() == 0
        assert program.modes == program.modes_before
        assert f"mqplug seek {shlex.quote(cluster.url)} {group} --topic {topic} --to latest" in program.output
    with cluster.connect() as mq:
        assert sum(mq.lag(topic, group=group).values()) == 0


def test_a_topic_is_followed(cluster, topic):
    """The tail of a topic shows its messages, and one that is sent while it is open."""
    with TerminalProgram([*TOP, cluster.url], TERM="xterm") as program:
        program.read_until(topic)
        search(program, topic)
        program.type("t")
        program.read_until("k5")
        with cluster.connect() as mq, mq.producer(topic) as out:
            out.send(b"meanwhile")
        program.read_until("meanwhile")
        program.type("q")
        assert program.wait() == 0


@pytest.mark.night  # by day the screen of an outage has its tests over memory
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["KafkaServer", "PulsarServer"])
def test_an_outage_passes(kind):
    """While a server is dead the first line says so; when it is back top continues. q exits during the outage, too."""
    devbrokers = pytest.importorskip("mqplug_devbrokers")
    from mqplug_devbrokers.pytest_plugin import started

    with started(getattr(devbrokers, kind)) as server:
        with mqplug.connect(server.url) as mq:
            mq.create_topic("orders")
        with TerminalProgram([*TOP, server.url], TERM="xterm") as program:
            program.read_until("orders")
            server.kill()
            program.read_until("no answer for", seconds=60)
            server.start()
            program.read_until("1 topic", seconds=60)
            server.kill()
            program.read_until("no answer for", seconds=60)
            program.type("q")
            assert program.wait() == 0
            assert program.modes == program.modes_before
