"""``mqplug_testing.faults``: the effect of each rule on each event, which is the same for the same seed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import mqplug
from mqplug import spi
from mqplug.spi import action_name
from mqplug_testing.faults import Faults, Happened, Rule
from mqplug_testing.recording import Recorder


@pytest.fixture
def troubled(request):
    """A function that opens a client with faults, on the test's own store with a topic ``t``."""
    clients = []

    def opened(*rules, seed=0, partitions=1):
        faults = Faults(rules, seed)
        faults.active = False
        client = mqplug.connect("memory", extensions=[faults])
        clients.append(client)
        client.create_topic("t", partitions=partitions)
        faults.active = True
        return client, faults

    yield opened
    for client in clients:
        client.close()


def stored(client, faults):
    """Return the messages in the topic, with all faults switched off."""
    faults.active = False
    return [message.value for message in client.read("t")]


def test_a_dropped_send_is_unknown_and_not_stored(troubled):
    """A dropped message is not stored, and its outcome is unknown."""
    mq, faults = troubled(Rule("send", "drop", nth=2))
    with mq.producer("t") as out:
        out.send(b"1")
        with pytest.raises(mqplug.OutcomeUnknown, match="lost the message"):
            out.send(b"2")
        out.send(b"3")
    assert stored(mq, faults) == [b"1", b"3"]


def test_a_lost_answer_is_unknown_and_stored(troubled):
    """A message whose answer is lost is stored, and its outcome is unknown."""
    mq, faults = troubled(Rule("send", "lose_ack", nth=2))
    with mq.producer("t") as out:
        out.send(b"1")
        with pytest.raises(mqplug.OutcomeUnknown, match="lost the answer"):
            out.send(b"2")
    assert stored(mq, faults) == [b"1", b"2"]


def test_a_send_is_stored_twice(troubled):
    """A duplicated message is stored twice in a row, under two ids; the sender gets the first."""
    mq, faults = troubled(Rule("send", "duplicate", nth=1))
    with mq.producer("t") as out:
        ids = out.send_many([b"1", b"2"])
    assert stored(mq, faults) == [b"1", b"1", b"2"]
    assert [message.id for message in mq.read("t")][::2] == ids


def test_a_failed_send_has_the_error_of_its_rule(troubled):
    """A failed message is not stored, and its error is the one that the rule names."""
    mq, faults = troubled(Rule("send", "fail", error=mqplug.StorageFull, count=1))
    with mq.producer("t") as out:
        with pytest.raises(mqplug.StorageFull, match=r"injected by mqplug_testing.faults"):
            out.send(b"1")
        out.send(b"2")
    assert stored(mq, faults) == [b"2"]


def test_a_delayed_answer_comes_late(troubled):
    """With a delayed answer the message is stored at once, and a timeout leaves a handle that gets the answer."""
    mq, _ = troubled(Rule("send", "delay", delay=0.4, nth=1))
    with mq.producer("t") as out:
        began = time.monotonic()
        with pytest.raises(mqplug.SendTimeout) as caught:
            out.send(b"1", timeout=0.05)
        assert [message.value for message in mq.read("t")] == [b"1"]
        handle = caught.value.handle
        assert handle is not None
        assert handle.result(timeout=5) == next(mq.read("t")).id
        assert time.monotonic() - began >= 0.4


def test_close_waits_for_no_delayed_answer(troubled):
    """A producer that is closed while answers are delayed gets them in its flush, or at once."""
    mq, _ = troubled(Rule("send", "delay", delay=0.3))
    out = mq.producer("t")
    handles = [out.submit(b"x") for _ in range(3)]
    out.close()
    assert all(handle.done and handle.error is None for handle in handles)


def test_dropped_and_repeated_messages_of_a_poll(troubled):
    """A poll skips one message and repeats another; reading continues after them."""
    mq, faults = troubled(Rule("poll", "drop", nth=2), Rule("poll", "duplicate", nth=4))
    with mq.producer("t") as out:
        out.send_many([b"1", b"2", b"3", b"4", b"5"])
    with mq.consumer("t", group="g") as reader:
        received = [reader.receive(timeout=5) for _ in range(5)]
        assert [message.value for message in received] == [b"1", b"3", b"4", b"4", b"5"]
        for message in received:
            reader.ack(message)
        reader.commit()
    assert mq.lag("t", group="g") == {0: 0}
    assert [each.action for each in faults.happened] == ["drop", "duplicate"]


def test_a_poll_fails_and_loses_nothing(troubled):
    """A poll that raises loses nothing; the next one delivers the messages."""
    mq, _ = troubled(Rule("poll", "fail", nth=1))
    with mq.producer("t") as out:
        out.send(b"1")
    with mq.consumer("t", start=mqplug.EARLIEST) as reader:
        with pytest.raises(mqplug.ConnectError, match="injected"):
            reader.receive(timeout=5)
        assert reader.receive(timeout=5).value == b"1"


def test_a_delayed_poll_is_silent_for_a_while(troubled):
    """Nothing comes for the rule's delay, then everything does; a seek does not wait for it."""
    mq, _ = troubled(Rule("poll", "delay", delay=0.3, count=1))
    with mq.producer("t") as out:
        out.send(b"1")
    with mq.consumer("t", start=mqplug.EARLIEST) as reader:
        began = time.monotonic()
        assert reader.receive(timeout=0.1) is None
        reader.seek(mqplug.EARLIEST, timeout=5)
        assert reader.receive(timeout=5).value == b"1"
        assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(
    ("action", "raised", "kept"),
    [("fail", mqplug.ConnectError, False), ("lose_ack", mqplug.Timeout, True), ("drop", None, False)],
)
def test_what_happens_to_a_commit(troubled, action, raised, kept):
    """A commit fails, is made without an answer, or is skipped silently."""
    mq, faults = troubled(Rule("commit", action, count=1))
    with mq.producer("t") as out:
        out.send(b"1")
    reader = mq.consumer("t", group="g")
    reader.ack(reader.receive(timeout=5))
    if raised is None:
        reader.commit()
    else:
        with pytest.raises(raised):
            reader.commit()
    assert mq.lag("t", group="g") == {0: 0 if kept else 1}
    assert faults.happened == [Happened(0, action, "commit", "t", 0)]
    reader.close()


CALLS = {
    "connect": lambda mq: mqplug.connect("memory", extensions=[mq.faults]),
    "open_producer": lambda mq: mq.producer("t"),
    "open_stage": lambda mq: mq.stage("t"),
    "open_consumer": lambda mq: mq.consumer("t", start=mqplug.EARLIEST),
    "resolve_start": lambda mq: mq.consumer("t", start=mqplug.LATEST),
    "watermarks": lambda mq: mq.watermarks("t"),
    "bounds": lambda mq: mq.bounds("t"),
    "create_topic": lambda mq: mq.create_topic("u"),
    "delete_topic": lambda mq: mq.delete_topic("t"),
    "health": lambda mq: mq.health(),
}


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_each_call_fails_when_it_shall(troubled, operation):
    """Every call of a client can be made to fail, and works the next time."""
    mq, faults = troubled(Rule(operation, "fail", count=1, error="AccessDenied"))
    mq.faults = faults
    with pytest.raises(mqplug.AccessDenied, match="injected"):
        CALLS[operation](mq)
    left = CALLS[operation](mq)
    if hasattr(left, "close"):
        left.close()
    assert [each.operation for each in faults.happened] == [operation]


def test_a_lost_answer_of_a_call(troubled):
    """A call whose answer is lost takes effect, and its caller gets a timeout."""
    mq, _ = troubled(Rule("administer", "lose_ack", topic="u", count=1))
    with pytest.raises(mqplug.Timeout, match="lost the answer"):
        mq.create_topic("u")
    assert mq.topics() == ["t", "u"]


def test_a_delay_keeps_within_the_timeout(troubled):
    """A call that is delayed longer than its timeout times out in time."""
    mq, _ = troubled(Rule("watermarks", "delay", delay=60))
    began = time.monotonic()
    with pytest.raises(mqplug.Timeout, match="delayed"):
        mq.watermarks("t", timeout=0.2)
    assert 0.2 <= time.monotonic() - began < 40  # instead of the 60 of the rule


def test_a_close_that_fails_has_let_go(troubled):
    """A consumer whose close fails has left its group nevertheless."""
    mq, _ = troubled(Rule("close", "fail", count=1))
    one = mq.consumer("t", group="g")
    one.receive(timeout=0)
    with pytest.raises(mqplug.CloseIncomplete) as caught:
        one.close()
    assert isinstance(caught.value.__cause__, mqplug.ConnectError)
    with mq.consumer("t", group="g") as other:
        other.receive(timeout=0)
        assert len(other.assignment()) == 1


@pytest.mark.parametrize(
    ("rule", "struck"),
    [
        (Rule("send", "drop", topic="orders"), ["orders 0", "orders 1"]),
        (Rule("send", "drop", topic="o*"), ["orders 0", "orders 1", "other 0", "other 1"]),
        (Rule("send", "drop", topic="o*", partition=1), ["orders 1", "other 1"]),
        (Rule("send", "drop", nth=3), ["other 0"]),
        (Rule("send", "drop", count=2), ["orders 0", "orders 1"]),
        (Rule("send", "drop", probability=0), []),
    ],
    ids=str,
)
def test_a_rule_strikes_where_it_matches(rule, struck):
    """A rule matches by topic, partition, number, count and probability."""
    faults = Faults([rule])
    with mqplug.connect("memory", extensions=[faults]) as mq, mq.producer() as out:
        for topic in ("orders", "other", "more"):
            mq.create_topic(topic, partitions=2)
            for partition in (0, 1):
                handle = out.submit(b"x", topic=topic, partition=partition)
                assert (handle.error is not None) == (f"{topic} {partition}" in struck)
                handle.note_seen()
    assert [f"{each.topic} {each.partition}" for each in faults.happened] == struck


def test_the_first_rule_that_strikes_wins():
    """Each event gets one action, from the first matching rule; the log names the rule."""
    faults = Faults([Rule("send", "drop", nth=2), Rule("send", "lose_ack")])
    with mqplug.connect("memory", extensions=[faults]) as mq, mq.producer("t", create=True) as out:
        for _ in range(3):
            with pytest.raises(mqplug.OutcomeUnknown):
                out.send(b"x")
    assert [(each.rule, each.action) for each in faults.happened] == [(1, "lose_ack"), (0, "drop"), (1, "lose_ack")]


def numbers_struck(seed, *more):
    """Return which of 200 sends a rule with a probability of one half matches."""
    faults = Faults([Rule("send", "drop", probability=0.5), *more], seed)
    with mqplug.connect("memory", extensions=[faults]) as mq, mq.producer("t", create=True) as out:
        handles = [out.submit(b"x") for _ in range(200)]
        for handle in handles:
            handle.note_seen()
        return [number for number, handle in enumerate(handles) if "lost the message" in str(handle.error)]


def test_the_same_seed_decides_the_same_way():
    """The same seed repeats the same choices, another seed differs, and other rules have no influence."""
    first = numbers_struck(1)
    assert 60 < len(first) < 140
    assert numbers_struck(1) == first
    assert numbers_struck(2) != first
    assert numbers_struck(1, Rule("send", "lose_ack", probability=0.3)) == first


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"operation": "sned", "action": "drop"}, "unknown operation 'sned'; did you mean 'send'"),
        (
            {"operation": "connect", "action": "drop"},
            "'connect' has no fault 'drop'; expected one of delay, fail, lose_ack",
        ),
        ({"operation": "send", "action": "drop", "probability": 2}, "probability"),
        ({"operation": "send", "action": "drop", "nth": 0}, "nth"),
        ({"operation": "send", "action": "fail", "error": "Nonsense"}, "unknown error 'Nonsense'"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule, reason):
    """An invalid rule raises ValueError in code, and ConfigError in a configuration."""
    with pytest.raises(ValueError, match=reason):
        Rule(**rule)
    with mqplug.register("faults", Faults, kind="extension"), pytest.raises(mqplug.ConfigError, match=reason):
        mqplug.connect({"backend": "memory", "extensions": ["faults"], "extension": {"faults": {"rules": [rule]}}})


def test_faults_are_configured_by_name():
    """A configuration may contain rules, which apply in the order of their tables."""
    rules = [{"operation": "send", "action": "fail", "error": "Fenced"}]
    settings = {"backend": "memory", "extensions": ["faults"], "extension": {"faults": {"rules": rules, "seed": 7}}}
    with (
        mqplug.register("faults", Faults, kind="extension"),
        mqplug.connect(settings) as mq,
        mq.producer("t", create=True) as out,
        pytest.raises(mqplug.Fenced),
    ):
        out.send(b"x")


def operations():
    """Return the operations that a rule may name, as the error about another one lists them."""
    with pytest.raises(ValueError, match="expected one of") as caught:
        Rule("0", "fail")
    return set(str(caught.value).partition("expected one of ")[2].split(", "))


def test_every_hook_can_be_struck():
    """Each hook that opens or queries something is an operation of its own."""
    hooks = {name.removeprefix("mqplug_") for name in vars(spi.hookspecs) if name.startswith("mqplug_")}
    assert hooks - {"describe", "commands"} <= operations()


def test_operations_and_actions_are_documented():
    """The page on extensions names every action and every operation, except the single actions of administration."""
    page = (Path(__file__).parents[2] / "docs/extensions.md").read_text()
    administered = {action_name(kind) for kind in get_args(spi.Action)} - {"create_topic"}
    effects = get_args(get_type_hints(Rule)["action"])
    words = {*operations(), *effects} - administered
    assert [word for word in sorted(words) if f"`{word}`" not in page] == []


def test_faults_inside_a_recorder_are_recorded():
    """A recorder that is named before the faults records their effects."""
    recorder = Recorder()
    faults = Faults([Rule("send", "lose_ack")])
    with mqplug.connect("memory", extensions=[recorder, faults]) as mq:
        out = mq.producer("t", create=True)
        with pytest.raises(mqplug.OutcomeUnknown):
            out.send(b"x")
    (call,) = [call for call in recorder.calls() if call.operation == "send"]
    assert call.outcome == "unknown"
