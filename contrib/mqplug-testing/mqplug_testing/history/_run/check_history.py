"""``check_history``: a run against one backend, from its seed to its verdict.

At its end, with a healthy backend, every partition is read whole and every group is drained.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread

import attrs

from mqplug import Client, Error, PositionLost, Timeout
from mqplug.spi import Deadline
from mqplug_testing._harness.harness import Harness
from mqplug_testing.faults import Rule
from mqplug_testing.history._actors.actors import GroupPlan, all_actors, planned_groups
from mqplug_testing.history._actors.faults import FAULT_ACTOR, BackendFault, FaultActor, backend_faults, call_faults
from mqplug_testing.history._actors.producers import Draft, TracedProducer
from mqplug_testing.history._actors.run_context import SESSION_RETRY_S, Actor, Plan, RunContext
from mqplug_testing.history._actors.traced_consumer import TracedConsumer, TracedStart
from mqplug_testing.history._checker.checker import check, shrink
from mqplug_testing.history._checker.consumer_epochs import Epochs
from mqplug_testing.history._checker.delivery_anomalies import outstanding_messages
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events import AllMessagesRead, Coordinates, GroupDrained, UnexpectedError
from mqplug_testing.history._history import Guarantee, History
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
    """Send the first messages, and place the group that starts at LATEST after them."""
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


FINAL_ACTOR = "ending"


class FinalReads:
    """Reads everything after all actors have left."""

    def __init__(self, context: RunContext, guarantee: Guarantee) -> None:
        self._context = context
        self._guarantee = guarantee
        self._last: set[tuple[int, Coordinates]] = set()

    def close(self, groups: Sequence[GroupPlan]) -> None:
        """Send a last message to each partition, read everything, and drain each group."""
        self._insist(self._read_whole, AllMessagesRead("final"))
        for group in groups:
            self._insist(partial(self._drain, group), GroupDrained(f"{group.name}/drain", group.name))

    def _insist(self, work: Callable[[str], None], did: AllMessagesRead | GroupDrained) -> None:
        """Retry until the patience of the plan ends, under another name each time, and then record the failure."""
        failure: Error | None = None
        deadline = Deadline(self._context.plan.patience)
        for number in count(1):
            try:
                work(f"{did.consumer}#{number}")
            except Error as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - any other error is a finding, and a retry is useless
                self._context.recorder.add(FINAL_ACTOR, UnexpectedError(f"{type(error).__name__}: {error}"))
                return
            else:
                return
            if deadline.expired:
                break
            time.sleep(SESSION_RETRY_S)
        self._context.recorder.add(FINAL_ACTOR, did, None, failure)

    # reading everything -------------------------------------------------------------------------------------

    def _read_whole(self, name: str) -> None:
        with self._context.connected() as client:
            if not self._last:
                self._send_last(client)
            with TracedConsumer.opened(self._context, client, FINAL_ACTOR, name, TracedStart.earliest()) as reader:
                self._take(reader, set(self._last))
        self._context.recorder.add(FINAL_ACTOR, AllMessagesRead(name))

    def _send_last(self, client: Client) -> None:
        """Send a message that is surely the last of its partition: a consumer that gets it got all."""
        partitions = range(len(client.partitions(self._context.topic)))
        outbox = TracedProducer(
            self._context, client.producer(self._context.topic), f"{FINAL_ACTOR}#{self._context.recorder.now()}"
        )
        try:
            sent = [outbox.send(Draft(partition, None)) for partition in partitions]
        finally:
            outbox.close()
        if None in sent:
            raise Timeout("the last messages of the partitions were not all sent")
        self._last = {(each.log.partition, each.coordinates) for each in sent if each is not None}

    def _take(self, consumer: TracedConsumer, wanted: set[tuple[int, Coordinates]], *, ack: bool = False) -> None:
        """Receive until all of these arrived. Give up when nothing arrives for the patience of the plan."""
        while wanted:
            messages = consumer.receive_many(1000, self._context.plan.patience)
            if not messages:
                partition, place = min(wanted)
                raise Timeout(f"[{partition}] {':'.join(map(str, place))} and {len(wanted) - 1} more did not arrive")
            for message in messages:
                wanted.discard((message.partition, message.id.coordinates))
                if ack:
                    consumer.ack(message)

    # draining groups ---------------------------------------------------------------------------------------

    def _drain(self, group: GroupPlan, name: str) -> None:
        """Receive everything that is left to the group, as its only member."""
        wanted = self._outstanding(group)
        with (
            self._context.connected() as client,
            TracedConsumer.opened(
                self._context, client, FINAL_ACTOR, name, group.aim, group.name, mode=group.mode
            ) as member,
        ):
            while wanted:
                try:
                    self._take(member, wanted, ack=True)
                except PositionLost as error:
                    lost = None if error.log is None else error.log.partition
                    member.seek(TracedStart.earliest(), partition=lost)
            member.commit()
        self._context.recorder.add(FINAL_ACTOR, GroupDrained(name, group.name))

    def _outstanding(self, group: GroupPlan) -> set[tuple[int, Coordinates]]:
        """Return the stored messages that no member of this group acked."""
        history = History(tuple(self._context.recorder.events), self._guarantee)
        logs = SeenLogs(history)
        groups = GroupAcks(history, logs, Epochs(history, logs))
        left = outstanding_messages(logs, groups, group.name, self._context.recorder.now())
        return {where for where in left if logs.final is None or where in logs.final}
