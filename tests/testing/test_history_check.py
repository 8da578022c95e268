"""The history check at work: sound backends pass, and deliberate defects are found."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from functools import partial
from itertools import count

import attrs
import pytest
from mutants import Mutant
from mutants.groups import AcksNothing
from mutants.producing import StoresInReverse
from mutants.reading import DropsEveryTenth, SwapsNeighbours
from mutants.seeking import HighIsShort
from written_histories import Story, verdict_of

import mqplug
from mqplug.memory import Store
from mqplug_testing import Harness
from mqplug_testing.faults import Rule
from mqplug_testing.history import Plan, check, check_history

QUICK = Plan(producers=2, members=2, readers=1, partitions=2, rate=200, patience=10)
IMPATIENT = attrs.evolve(QUICK, patience=0.5)


def _trim(client, topic, before):
    store = client.unwrap(Store)
    with store.changed:
        store.partition(before.log).trim(before.coordinates)


@contextmanager
def memory(**more):
    """A harness of a store that lasts as long as the block."""
    settings = {"name": uuid.uuid4().hex, **more}

    def connect(extensions=()):
        return mqplug.connect("memory", extensions=extensions, **settings)

    with connect():
        yield Harness(connect=connect, extended=connect, trim_before=_trim, restart=lambda: None)


@contextmanager
def mutant(plugin):
    """The same, of a backend that is broken in one place."""
    name = uuid.uuid4().hex

    def connect(extensions=()):
        return mqplug.connect(plugin.name, name=name, extensions=extensions)

    with mqplug.register(plugin.name, plugin), mqplug.connect("memory", name=name):
        yield Harness(connect=connect, extended=connect)


def kinds(verdict):
    """Return the kinds of the anomalies found."""
    return {anomaly.kind for anomaly in verdict.anomalies}


def events(verdict, kind):
    """Return the events of one kind."""
    return [event for event in verdict.history.events if type(event.did).__name__ == kind]


@pytest.mark.parametrize(("like", "seed"), [("full", 1), ("full", 2), ("kafka", 3), ("pulsar", 4), ("pulsar", 5)])
def test_a_sound_backend_passes(like, seed):
    """Random work, with faults that clients have to bear, shows nothing wrong on memory in any personality."""
    for seconds in (1.2, 6, 20):  # a busy machine needs longer until there is some of everything
        with memory(like=like) as harness:
            verdict = check_history(harness, seconds, seed)
        assert not verdict.anomalies, str(verdict)
        if min(verdict.counts.unknown, verdict.injected) > 0:
            break
    assert verdict.line.startswith("exactly once: no anomaly; ")
    assert verdict.line.endswith(f"seed {seed}")
    assert min(verdict.counts.stored, verdict.counts.received, verdict.counts.unknown, verdict.injected) > 0


DEFECTS = [
    (Rule("send", "duplicate", probability=0.02), "duplicated"),
    (Rule("poll", "drop", probability=0.005), "skipped"),
    (Rule("poll", "duplicate", probability=0.005), "rewound"),
    (Rule("commit", "drop"), "ack came back"),
    (Rule("seek", "drop"), "seek landed wrong"),
]


@pytest.mark.parametrize(("rule", "kind"), DEFECTS, ids=[f"{rule.operation} {rule.action}" for rule, _ in DEFECTS])
def test_what_the_injector_breaks_is_found(rule, kind):
    """A fault that no backend may have is found, within a second if the machine has time, and shown by few events."""
    for seconds in (0.7, 3, 0.7, 3, 12):
        with memory() as harness:
            verdict = check_history(harness, seconds, 3, plan=IMPATIENT, faults=False, defects=[rule], rerun=False)
        # the last 8 messages are sought too: it takes eight of them to show where that led, and which consumer got them
        is_short = all(len(example.shortest) < 20 for example in verdict.examples)
        if is_short and kind in kinds(verdict):
            break
    assert kind in kinds(verdict), str(verdict)
    assert is_short, str(verdict)
    assert "seed 3" in str(verdict)


MUTANTS = [
    (SwapsNeighbours, "rewound"),
    (DropsEveryTenth, "skipped"),
    (AcksNothing, "ack came back"),
    (StoresInReverse, "reordered"),
    (HighIsShort, "wrong watermark"),
]


@pytest.mark.parametrize(("kind", "found"), MUTANTS, ids=[kind.__name__ for kind, _ in MUTANTS])
def test_a_broken_backend_is_found(kind, found):
    """A backend that is broken in one place is found, within a second if the machine has time."""
    for seconds in (0.7, 3, 12):
        with mutant(kind("mutant")) as harness:
            verdict = check_history(harness, seconds, 4, plan=IMPATIENT, faults=False, rerun=False)
        if found in kinds(verdict):
            break
    assert found in kinds(verdict), str(verdict)


def test_the_unbroken_mutant_passes():
    """The same wrapper without a defect passes, so that the defect is what the check finds."""
    with mutant(Mutant("sound")) as harness:
        verdict = check_history(harness, 1.0, 4, plan=QUICK, faults=False)
    assert not verdict.anomalies, str(verdict)


def test_a_smaller_run_that_still_fails_is_named():
    """After a failure smaller runs follow, and the verdict names one that still fails."""
    with mutant(StoresInReverse("mutant")) as harness:
        verdict = check_history(harness, 0.5, 5, plan=IMPATIENT, faults=False)
    assert verdict.smaller.startswith("it still fails in 0.5 s with 1 producers, 1 members, 0 readers and 1 partitions")
    assert verdict.smaller in str(verdict).splitlines()


def test_what_was_found_is_also_said_last():
    """The end of a long output has the worst anomaly, the verdict, and how to repeat the run."""
    found = Story().sent(a=1, b=2).final(b=2).history
    anomalies = check(found)
    verdict = verdict_of(found, anomalies[0])
    lines = str(verdict).splitlines()
    assert lines[0] == lines[-2] == verdict.line
    assert lines[-3] == str(anomalies[0])
    assert lines[-1] == "repeat it with seed by hand"


def test_the_seed_fixes_the_lots():
    """Two runs with one seed send the same keys in the same order, as far as both get."""

    def keys(seconds):
        with memory() as harness:
            verdict = check_history(harness, seconds, 6, plan=QUICK, faults=False)
        sent = [event.did for event in events(verdict, "RecordSent") if event.did.producer == "producer-0#1"]
        return [each.key for each in sorted(sent, key=lambda each: each.number)]

    for seconds in (0.5, 3, 12):  # on a busy machine a producer may begin late
        runs = keys(seconds), keys(seconds)
        both = min(map(len, runs))
        if both:
            break
    assert both
    assert runs[0][:both] == runs[1][:both]


def test_no_seed_is_drawn_and_named():
    """A run without a seed draws one, and its line names it."""
    with memory() as harness:
        verdict = check_history(harness, 0.3, plan=QUICK, faults=False)
    assert verdict.line.endswith(f"seed {verdict.history.seed}")
    assert verdict.history.seed.isdecimal()


@pytest.mark.night
def test_the_backend_is_stopped_cleanly_when_all_have_left():
    """A restart happens while no client is open; kill and pause happen under the clients, and are undone."""
    for seed, seconds in enumerate([2.5, 2.5, 2.5, 6, 6, 20], 11):  # chance and the machine decide what happens
        done, here = [], []
        with memory() as inner:

            def connect(connect=inner.connect, here=here):
                client = connect()
                here.append(client)
                return client

            def restart(here=here, done=done):
                done.append("restart")
                assert all(repr(client).endswith("closed>") for client in here)

            hooks = {name: partial(done.append, name) for name in ("kill", "start", "pause", "unpause")}
            harness = Harness(connect=connect, restart=restart, **hooks)
            verdict = check_history(harness, seconds, seed, plan=QUICK)
        assert not verdict.anomalies, str(verdict)
        assert done.count("kill") == done.count("start")
        assert done.count("pause") == done.count("unpause")
        assert verdict.counts.faults == len([each for each in done if each not in {"start", "unpause"}])
        if "restart" in done and verdict.counts.faults > 1:
            break
    assert "restart" in done
    assert verdict.counts.faults > 1


def test_nodes_are_killed_and_started():
    """If a harness can kill one of several nodes, the check does so, and starts it again each time."""
    done = []
    hooks = {name: partial(done.append, name) for name in ("kill_node", "start_node")}
    with memory() as inner:
        verdict = check_history(Harness(connect=inner.connect, **hooks), 2.5, 1, plan=QUICK)
    assert not verdict.anomalies, str(verdict)
    assert done[:2] == ["kill_node", "start_node"]
    assert done.count("kill_node") == done.count("start_node") == verdict.counts.faults


def test_the_topic_is_unloaded():
    """If a harness can unload a topic, the check unloads its own, while clients work."""
    done = []
    with memory() as inner:
        verdict = check_history(Harness(connect=inner.connect, unload=done.append), 2.5, 1, plan=QUICK)
    assert not verdict.anomalies, str(verdict)
    assert done
    assert {name.startswith("history-") for name in done} == {True}
    assert len(done) == verdict.counts.faults


def test_long_runs_are_disturbed_as_often_as_those_of_a_minute():
    """A longer run has more faults, at the same rate as one of a minute."""
    assert Plan(seconds=2).pace == 2
    assert Plan(seconds=60).pace == Plan(seconds=600).pace == 60


def test_an_error_that_is_none_of_ours_is_an_anomaly():
    """A stray exception ends an actor, and is reported as an anomaly."""
    with memory() as inner:
        opened = count()

        def connect(extensions=()):
            if next(opened) > 5:
                raise KeyError("seven")
            return inner.extended(extensions)

        verdict = check_history(
            Harness(connect=connect, extended=connect), 0.5, 8, plan=QUICK, faults=False, rerun=False
        )
    assert "broke" in kinds(verdict)
    assert "KeyError: 'seven'" in str(verdict)


def test_a_full_history_ends_the_run():
    """A run ends early when the history has reached its limit."""
    with memory() as harness:
        verdict = check_history(harness, 30, 9, plan=attrs.evolve(QUICK, limit=300), faults=False)
    assert not verdict.anomalies, str(verdict)
    assert max(event.began for event in verdict.history.events) < 20_000_000
