"""``check_history``: a run against one backend, from its seed to the verdict."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

import attrs

from mqplug import Client
from mqplug.faults import Rule
from mqplug.spi import Deadline
from mqplug.testing._harness.harness import Harness
from mqplug.testing.history._actors.actors import all_actors, planned_groups
from mqplug.testing.history._actors.faults import BackendFault, FaultActor, backend_faults, call_faults
from mqplug.testing.history._actors.members import GroupPlan
from mqplug.testing.history._actors.plan import Plan
from mqplug.testing.history._actors.producers import Draft, RecordedProducer
from mqplug.testing.history._actors.recorded_consumer import RecordedConsumer
from mqplug.testing.history._actors.run_context import Actor, RunContext
from mqplug.testing.history._checker.checker import check
from mqplug.testing.history._checker.shrink import shrink
from mqplug.testing.history._events.events import UnexpectedError
from mqplug.testing.history._events.history import Guarantee, History
from mqplug.testing.history._run.final_reads import FinalReads
from mqplug.testing.history._run.processes import WorkerProcesses
from mqplug.testing.history._run.verdict import WORST, Example, RunCounts, Verdict, events_around

LEAVING = 60.0  # seconds that an actor has to come back when it is called


def check_history(
    harness: Harness,
    seconds: float = 60.0,
    seed: object = None,
    *,
    plan: Plan | None = None,
    faults: bool = True,
    defects: Sequence[Rule] = (),
    rerun: bool = True,
    keep: Path | str | None = None,
) -> Verdict:
    """Let random actors work on a topic of the backend, and look for what may not be in what they saw.

    The same ``seed`` draws the same lots; without one, it is drawn, and the verdict names it. ``plan`` says how many
    actors there are. ``faults=False`` leaves the backend, and its clients, in peace. ``defects`` are rules for
    ``mqplug.faults`` that break the promises on purpose, to see that they are found. When an anomaly is found, and
    ``rerun`` is true, smaller runs with the same seed follow, and the verdict says which one still fails. The history
    is saved to the file ``keep`` before it is searched.
    """
    drawn = str(random.randrange(1 << 32) if seed is None else seed)
    chosen = attrs.evolve(plan or Plan(), seconds=seconds, seed=drawn)
    history, injected = _run(harness, chosen, faults=faults, defects=defects)
    if keep is not None:
        history.save(keep)
    verdict = _judged(history, injected)
    if verdict.anomalies and rerun:
        verdict = attrs.evolve(verdict, smaller=_smaller(harness, chosen, verdict, faults=faults, defects=defects))
    return verdict


def _judged(history: History, injected: int) -> Verdict:
    anomalies = check(history)
    worst: dict[str, Example] = {}
    for anomaly in anomalies:
        if anomaly.kind not in worst and len(worst) < WORST:
            worst[anomaly.kind] = Example(anomaly, shrink(history, anomaly), events_around(history, anomaly))
    return Verdict(history, anomalies, RunCounts.of(history), injected, tuple(worst.values()))


def _smaller(harness: Harness, plan: Plan, verdict: Verdict, *, faults: bool, defects: Sequence[Rule]) -> str:
    """Which smaller run still fails, in words."""
    kinds, found = {anomaly.kind for anomaly in verdict.anomalies}, ""
    for _ in range(3):
        plan = plan.smaller()
        history, _injected = _run(harness, plan, faults=faults, defects=defects)
        if not kinds & {anomaly.kind for anomaly in check(history)}:
            break
        found = (
            f"it still fails in {plan.seconds:g} s with {plan.producers} producers, {plan.members} members, "
            f"{plan.readers} readers and {plan.partitions} partitions"
        )
    return found


def _run(harness: Harness, plan: Plan, *, faults: bool, defects: Sequence[Rule]) -> tuple[History, int]:
    """Set the stage, let the actors work, put everything right, and look at what is left."""
    injected = call_faults(plan.seed, defects, legal=faults)
    stage = RunContext(harness, plan, f"history-{uuid.uuid4().hex[:12]}", [injected])
    with harness.connect() as client:
        able = client.capabilities
        groups = planned_groups(able)
        client.create_topic(stage.topic, partitions=plan.partitions if able.partitions else 1)
        if not able.partitions:
            stage.partitions = 1
        _begin(stage, client, groups)
    guarantee = Guarantee.of(able, hands_out_current=harness.hands_out_current)
    try:
        if faults and not defects and harness.second_process:
            happened = WorkerProcesses(stage, harness.second_process).perform()
        else:
            _act(stage, all_actors(stage, groups, able), backend_faults(harness) if faults else [])
            happened = len(injected.happened)
        injected.active = False
        FinalReads(stage, guarantee).close(groups)
    finally:
        _delete(harness, stage.topic)
    return History(tuple(stage.recorder.events), guarantee, plan.seed), happened


def _begin(stage: RunContext, client: Client, groups: Sequence[GroupPlan]) -> None:
    """A few messages lie there before anything, and the group that begins at LATEST is placed behind them."""
    outbox = RecordedProducer(stage, client.producer(stage.topic), "beginning#1")
    outbox.send_many([Draft(number % stage.partitions, None) for number in range(4 * stage.partitions)])
    outbox.close()
    for group in groups:
        if group.latest:
            with RecordedConsumer.opened(stage, client, "beginning", f"{group.name}/first", group.aim, group.name):
                pass


def _act(stage: RunContext, actors: Sequence[Actor], choice: Sequence[BackendFault]) -> None:
    """Everybody at once, for as long as the plan says."""
    threads = [Thread(target=stage.perform, args=(actor,), name=actor.name, daemon=True) for actor in actors]
    if choice:
        threads.append(Thread(target=FaultActor(stage, choice).perform, name="troublemaker", daemon=True))
    for thread in threads:
        thread.start()
    working = Deadline(stage.plan.seconds)
    while stage.running and not working.expired:
        stage.nap(0.05)
    stage.end()
    deadline = Deadline(LEAVING)
    for thread in threads:
        thread.join(deadline.remaining())
        if thread.is_alive():
            stage.recorder.add(thread.name, UnexpectedError(f"a call did not end within {LEAVING:g} s of its timeout"))


def _delete(harness: Harness, topic: str) -> None:
    """The verdict does not depend on it: a backend that is gone takes its topics along."""
    with suppress(Exception), harness.connect() as client:
        if client.capabilities.delete_topic:
            client.delete_topic(topic)
