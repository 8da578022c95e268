"""The model of the rules: it quotes the page "The rules", and each of its lines names its rule."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

import mqplug
import mqplug_testing.model
from mqplug_testing.model import RULES, Content, LogTimes, Outcome, RuleBroken, World
from mqplug_testing.model.topics import Sent

PAGE = Path(__file__).parents[2] / "docs/rules.md"
SOURCES = Path(mqplug_testing.model.__file__).parent


def test_each_rule_is_a_sentence_of_the_page():
    """Each rule of the model stands on the page "The rules", word for word."""
    page = " ".join(PAGE.read_text().split())
    assert [name for name, sentence in RULES.items() if sentence not in page] == []


def test_each_rule_has_a_line_and_each_line_a_rule():
    """Each rule is named where the model or a step checks it, and nothing else is named there."""
    folders = (SOURCES, SOURCES.parent / "programs")
    text = "\n".join(path.read_text() for folder in folders for path in folder.rglob("*.py") if path.stem != "rules")
    named = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', text))
    assert RULES.keys() - named == set()
    with pytest.raises(KeyError):
        str(RuleBroken("no-such-rule", "", ""))


@pytest.fixture
def mq():
    """Return a client of a new memory store."""
    with mqplug.connect("memory") as client:
        yield client


@pytest.fixture
def world(mq):
    """Return the model of a store with a topic of one partition, to which three messages were sent."""
    world = World(mq.capabilities, LogTimes())
    mq.create_topic("t1")
    world.topics.created("t1", 1, Outcome(), Outcome(mq.partitions("t1")))
    world.topics.producers["p1"] = world.topics.current["t1"]
    with mq.producer("t1") as out:
        ids = [out.send(b"%d" % number) for number in range(3)]
    records = [Sent(f"m{number}", Content(b"%d" % number)) for number in range(3)]
    world.topics.sent("t1", records, Outcome(ids), (0, 2**42), producer="p1")
    return world


def test_it_accepts_what_is_right(mq, world):
    """Answers that the rules allow pass, and what follows from them is remembered."""
    world.topics.watermarks("t1", Outcome(mq.watermarks("t1")))
    end = mq.resolve("t1", mqplug.LATEST)
    mq.trim("t1", end)
    world.topics.trimmed("t1", end, Outcome(), Outcome(mq.watermarks("t1")))
    world.topics.bounds("t1", Outcome(mq.bounds("t1")))


def test_it_refuses_a_low_that_goes_back(mq, world):
    """Watermarks from before a trim break a rule after it."""
    old, end = mq.watermarks("t1"), mq.resolve("t1", mqplug.LATEST)
    mq.trim("t1", end)
    world.topics.trimmed("t1", end, Outcome(), Outcome(mq.watermarks("t1")))
    with pytest.raises(RuleBroken) as caught:
        world.topics.watermarks("t1", Outcome(old))
    assert caught.value.rule == "trim"
    assert "removes everything before a position" in str(caught.value)


def test_it_refuses_a_skipped_message(mq, world):
    """The second message may not come before the first one."""
    world.consumers.opened("c1", ["t1"], mqplug.EARLIEST, Outcome())
    reader = mq.consumer("t1", start=mqplug.EARLIEST)
    _, second = reader.receive(1), reader.receive(1)
    with pytest.raises(RuleBroken, match="drops the next message"):
        world.consumers.received("c1", Outcome(second), waited=True, now=0)


def test_a_time_may_be_that_of_an_aborted_message(mq, world):
    """After an aborted step, only a backend that counts markers may find an earlier position for a time."""
    low = mq.resolve("t1", mqplug.EARLIEST)
    late = mqplug.at_time(2**42 + 100_000)
    world.topics.aborted("t1")
    with pytest.raises(RuleBroken, match="resolve"):
        world.topics.resolved("t1", late, None, False, Outcome(low))
    world.topics.able = attrs.evolve(mq.capabilities, count_exact=False)
    world.topics.aborted("t1")
    world.topics.resolved("t1", late, None, False, Outcome(low))


def test_a_message_that_must_come_must_come(world):
    """A receive that waited may return nothing only at the end."""
    world.consumers.opened("c1", ["t1"], mqplug.EARLIEST, Outcome())
    world.consumers.received("c1", Outcome(), waited=False, now=0)
    with pytest.raises(RuleBroken):
        world.consumers.received("c1", Outcome(), waited=True, now=0)


@pytest.fixture
def sharers(mq, world):
    """Return the first message, which the first of two members that share the log was given."""
    begins = world.sharing.begins(["t1"], mqplug.EARLIEST)
    for name in ("k1", "k2"):
        world.sharing.opened(name, ["t1"], "g4", "shared", begins, None, Outcome(), since=0)
    with mq.consumer("t1", group="g4", mode="shared") as member:
        message = member.receive(5)
        world.sharing.received("k1", Outcome([message]), waited=False, now=0)
        yield message


def test_one_member_at_a_time_has_a_message(world, sharers):
    """Of two members that share a log, the other one may not get a message that the first has."""
    with pytest.raises(RuleBroken) as caught:
        world.sharing.received("k2", Outcome([sharers]), waited=False, now=0)
    assert caught.value.rule == "with-one"


def test_an_acked_message_does_not_come_again(world, sharers):
    """After its ack, no member that shares the log gets a message, even if the first one has left."""
    world.sharing.acked("k1", sharers.id, Outcome(), now=0)
    world.sharing.closed("k1", Outcome())
    assert world.sharing.must_come("k2", 0)
    with pytest.raises(RuleBroken) as caught:
        world.sharing.received("k2", Outcome([sharers]), waited=False, now=0)
    assert caught.value.rule == "ack"
