"""The end of a run: with a healthy backend, every partition is read whole and every group is drained."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from mqplug import Client, Error, PositionLost, Timeout
from mqplug.spi import Deadline
from mqplug_testing.history._actors.members import GroupPlan
from mqplug_testing.history._actors.producers import Draft, TracedProducer
from mqplug_testing.history._actors.run_context import SESSION_RETRY_S, RunContext
from mqplug_testing.history._actors.traced_consumer import TracedConsumer, TracedStart
from mqplug_testing.history._checker.consumer_epochs import Epochs
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.group_anomalies import outstanding_messages
from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events.events import AllMessagesRead, Coordinates, GroupDrained, UnexpectedError
from mqplug_testing.history._events.history import Guarantee, History

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

    # reading it all ----------------------------------------------------------------------------------------

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
