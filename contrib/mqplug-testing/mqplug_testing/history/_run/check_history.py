"""``check_history``: a run against one backend, from its seed to its verdict."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

import attrs

from mqplug import Client
from mqplug.spi import Deadline
from mqplug_testing._harness.harness import Harness
from mqplug_testing.faults import Rule
from mqplug_testing.history._actors.actors import all_actors, planned_groups
from mqplug_testing.history._actors.faults import FAULT_ACTOR, BackendFault, FaultActor, backend_faults, call_faults
from mqplug_testing.history._actors.members import GroupPlan
from mqplug_testing.history._actors.plan import Plan
from mqplug_testing.history._actors.producers import Draft, TracedProducer
from mqplug_testing.history._actors.run_context import Actor, RunContext
from mqplug_testing.history._actors.traced_consumer import TracedConsumer
from mqplug_testing.history._checker.checker import check
from mqplug_testing.history._checker.shrink import shrink
from mqplug_testing.history._events.events import UnexpectedError
from mqplug_testing.history._events.history import Guarantee, History
from mqplug_testing.history._run.final_reads import FinalReads
from mqplug_testing.history._run.processes import WorkerProcesses
from mqplug_testing.history._run.verdict import MAX_EXAMPLES, Example, RunCounts, Verdict, events_around

ACTOR_EXIT_S = 60.0  # for an actor to leave after the end of the run


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
    """Run random actors on a topic of the backend, and search what they saw for anomalies.

    The same ``seed`` draws the same random numbers; without one, it is drawn, and the verdict names it. ``plan`` sets
    the number of actors. With ``faults=False`` neither the backend nor calls are disturbed. ``defects`` are rules for
    ``mqplug_testing.faults`` that break the promises on purpose, to prove that the check finds them. If an anomaly
    is found and ``rerun`` is true, smaller runs with the same seed follow, and the verdict names the smallest that
    still fails. The history is saved to the file ``keep`` before the search.
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
        if anomaly.kind not in worst and len(worst) < MAX_EXAMPLES:
            worst[anomaly.kind] = Example(anomaly, shrink(history, anomaly), events_around(history, anomaly))
    return Verdict(history, anomalies, RunCounts.of(history), injected, tuple(worst.values()))


def _smaller(harness: Harness, plan: Plan, verdict: Verdict, *, faults: bool, defects: Sequence[Rule]) -> str:
    """Return a sentence with the smallest run that still fails."""
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
    """Prepare the topic, let the actors work, heal the backend, and read everything that is left."""
    injected = call_faults(plan.seed, defects, legal=faults)
    context = RunContext(harness, plan, f"history-{uuid.uuid4().hex[:12]}", [injected])
    with harness.connect() as client:
        able = client.capabilities
        groups = planned_groups(able)
        client.create_topic(context.topic, partitions=plan.partitions if able.partitions else 1)
        if not able.partitions:
            context.partitions = 1
        _begin(context, client, groups)
    guarantee = Guarantee.of(able, hands_out_current=harness.hands_out_current)
    try:
        if faults and not defects and harness.second_process:
            happened = WorkerProcesses(context, harness.second_process).perform()
        else:
            _act(context, all_actors(context, groups, able), backend_faults(harness, context.topic) if faults else [])
            happened = len(injected.happened)
        injected.active = False
        FinalReads(context, guarantee).close(groups)
    finally:
        _delete(harness, context.topic)
    return History(tuple(context.recorder.events), guarantee, plan.seed), happened


def _begin(context: RunContext, client: Client, groups: Sequence[GroupPlan]) -> None:
    """Send the first messages, and place the group that starts at LATEST behind them."""
    outbox = TracedProducer(context, client.producer(context.topic), "beginning#1")
    outbox.send_many([Draft(number % context.partitions, None) for number in range(4 * context.partitions)])
    outbox.close()
    for group in groups:
        if group.latest:
            with TracedConsumer.opened(context, client, "beginning", f"{group.name}/first", group.aim, group.name):
                pass


def _act(context: RunContext, actors: Sequence[Actor], choice: Sequence[BackendFault]) -> None:
    """Run all actors at once, for the seconds of the plan."""
    threads = [Thread(target=context.perform, args=(actor,), name=actor.name, daemon=True) for actor in actors]
    if choice:
        threads.append(Thread(target=FaultActor(context, choice).perform, name=FAULT_ACTOR, daemon=True))
    for thread in threads:
        thread.start()
    working = Deadline(context.plan.seconds)
    while context.running and not working.expired:
        context.sleep(0.05)
    context.end()
    deadline = Deadline(ACTOR_EXIT_S)
    for thread in threads:
        thread.join(deadline.remaining())
        if thread.is_alive():
            context.recorder.add(
                thread.name, UnexpectedError(f"a call did not end within {ACTOR_EXIT_S:g} s of its timeout")
            )


def _delete(harness: Harness, topic: str) -> None:
    """Delete the topic. A failure does not matter: a backend that is gone takes its topics along."""
    with suppress(Exception), harness.connect() as client:
        if client.capabilities.delete_topic:
            client.delete_topic(topic)
