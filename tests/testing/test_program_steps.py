"""Programs whose steps are given: what the model says about groups that are copied, automatic acks and dead letters."""

from __future__ import annotations

from mqplug_testing import harness_for
from mqplug_testing.model import Content
from mqplug_testing.model.topics import Sent
from mqplug_testing.programs import replay
from mqplug_testing.programs._steps.burying import Bury, BuryAtHome, OpenRetrying
from mqplug_testing.programs._steps.consuming import Close, OpenAutoMember, OpenMember, Receive
from mqplug_testing.programs._steps.groups import CopyGroup, ResetGroup
from mqplug_testing.programs._steps.producing import OpenProducer, Send
from mqplug_testing.programs._steps.queries import Resolve
from mqplug_testing.programs._steps.topics import CreateTopic, Trim
from mqplug_testing.programs.starts import NearMessage, Place, Symbol

EARLIEST = Symbol("EARLIEST")


def send(*names):
    """Return the step that sends a message of each name."""
    return [Send("p1", "t1", (Sent(name, Content(name.encode()), 0),)) for name in names]


BEGIN = [CreateTopic("mq", "t1"), OpenProducer("p1", "mq", "t1")]


def played(*steps):
    """Run a program over memory, and return its lines as text. No rule may be broken."""
    with harness_for("memory") as harness:
        run = replay(harness, [*BEGIN, *steps])
    assert run.broken is None, run.broken
    return [str(line.statement) for line in run.play.lines]


def test_a_copy_passes_over_what_was_removed():
    """A group that is placed where another was before a trim reads the first retained message."""
    trimmed = [
        *send("m1"),
        Resolve("x1", "mq", "t1", NearMessage("m1", after=True)),
        Trim("mq", "t1", (Place("x1", 0),)),
    ]
    copied = [ResetGroup("mq", "t1", "g1", EARLIEST), *trimmed, CopyGroup("mq", "t1", "g1", "g2")]
    lines = played(*copied, OpenMember("c1", "mq", ("t1",), EARLIEST, "g2"), *send("m2"), Receive("c1"), Close("c1"))
    assert lines[-1] == "c1.close()"


def test_auto_ack_acks_what_came_before_the_last():
    """A member with ``auto_ack`` leaves the last message to the next member."""
    member = OpenAutoMember("c1", "mq", ("t1",), EARLIEST, "g1"), Receive("c1"), Receive("c1"), Close("c1")
    lines = played(*send("m1", "m2"), *member, OpenMember("c2", "mq", ("t1",), EARLIEST, "g1"), Receive("c2"))
    assert sum(", auto_ack=True" in line for line in lines) == 1


def test_a_message_is_buried_after_its_last_attempt():
    """A member nacks a message until it is a dead letter, which is a message of its topic from then on."""
    member = OpenRetrying("c1", "mq", ("t1",), EARLIEST, "g1", letters="t2", attempts=2)
    dead = OpenMember("c2", "mq", ("t2",), NearMessage("m2"), "g2"), Receive("c2")
    lines = played(CreateTopic("mq", "t2"), *send("m1"), member, Bury("c1", "m2", rejects=False), *dead)
    assert [line for line in lines if ".nack(" in line] == ["c1.nack(r1, 0)", "c1.nack(r2, reason='no address')"]
    assert lines[-1].startswith("r3 = c2.receive(")


def test_a_rejected_message_is_buried_at_once():
    """A ``Reject`` makes a message a dead letter at its first attempt."""
    member = OpenRetrying("c1", "mq", ("t1",), EARLIEST, "g1", letters="t2", attempts=3)
    lines = played(CreateTopic("mq", "t2"), *send("m1"), member, Bury("c1", "m2", rejects=True))
    assert [line for line in lines if ".nack(" in line] == ["c1.nack(r1, reason=mqplug.Reject('no address'))"]


def test_no_topic_buries_its_own_letters():
    """A member cannot name the topic that it reads."""
    assert played(BuryAtHome("mq", "t1"))[-1].endswith("dead_letter=t1)")
