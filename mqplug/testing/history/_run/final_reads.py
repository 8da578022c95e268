"""The end of a run: everything is well again, every partition is read whole, every group is drained."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from mqplug import Client, Error, PositionLost, Timeout
from mqplug.spi import Deadline
from mqplug.testing.history._actors.members import GroupPlan
from mqplug.testing.history._actors.producers import Draft, RecordedProducer
from mqplug.testing.history._actors.recorded_consumer import RecordedConsumer, RecordedStart
from mqplug.testing.history._actors.run_context import REST, RunContext
from mqplug.testing.history._checker.consumer_epochs import Epochs
from mqplug.testing.history._checker.group_acks import GroupAcks
from mqplug.testing.history._checker.group_anomalies import outstanding_messages
from mqplug.testing.history._checker.seen_logs import SeenLogs
from mqplug.testing.history._events.events import AllMessagesRead, Coordinates, GroupDrained, UnexpectedError
from mqplug.testing.history._events.history import Guarantee, History

ACTOR = "ending"


class FinalReads:
    """What the run does when all actors have left."""

    def __init__(self, stage: RunContext, guarantee: Guarantee) -> None:
        self._stage = stage
        self._guarantee = guarantee
        self._last: set[tuple[int, Coordinates]] = set()

    def close(self, groups: Sequence[GroupPlan]) -> None:
        """Send a last message to each partition, read everything, and let each group have the rest."""
        self._insist(self._read_whole, AllMessagesRead("final"))
        for group in groups:
            self._insist(partial(self._drain, group), GroupDrained(f"{group.name}/drain", group.name))

    def _insist(self, work: Callable[[str], None], did: AllMessagesRead | GroupDrained) -> None:
        """Try until patience ends, under another name each time; what was not done then is written down as such."""
        failure: Error | None = None
        deadline = Deadline(self._stage.plan.patience)
        for number in count(1):
            try:
                work(f"{did.consumer}#{number}")
            except Error as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - any other error is a find, and there is no use in going on
                self._stage.recorder.add(ACTOR, UnexpectedError(f"{type(error).__name__}: {error}"))
                return
            else:
                return
            if deadline.expired:
                break
            time.sleep(REST)
        self._stage.recorder.add(ACTOR, did, None, failure)

    # reading it all ----------------------------------------------------------------------------------------

    def _read_whole(self, name: str) -> None:
        with self._stage.connected() as client:
            if not self._last:
                self._send_last(client)
            with RecordedConsumer.opened(self._stage, client, ACTOR, name, RecordedStart.earliest()) as reader:
                self._take(reader, set(self._last))
        self._stage.recorder.add(ACTOR, AllMessagesRead(name))

    def _send_last(self, client: Client) -> None:
        """A message that is surely the last one of its partition: who has got it has got all."""
        partitions = range(len(client.partitions(self._stage.topic)))
        outbox = RecordedProducer(
            self._stage, client.producer(self._stage.topic), f"{ACTOR}#{self._stage.recorder.now()}"
        )
        try:
            sent = [outbox.send(Draft(partition, None)) for partition in partitions]
        finally:
            outbox.close()
        if None in sent:
            raise Timeout("the last message of each partition could not be sent")
        self._last = {(each.log.partition, each.coordinates) for each in sent if each is not None}

    def _take(self, consumer: RecordedConsumer, wanted: set[tuple[int, Coordinates]], *, ack: bool = False) -> None:
        """Receive until all of these came; patience ends when nothing comes any more."""
        while wanted:
            messages = consumer.receive_many(1000, self._stage.plan.patience)
            if not messages:
                partition, place = min(wanted)
                raise Timeout(f"[{partition}] {':'.join(map(str, place))} and {len(wanted) - 1} more do not come")
            for message in messages:
                wanted.discard((message.partition, message.id.coordinates))
                if ack:
                    consumer.ack(message)

    # draining groups ---------------------------------------------------------------------------------------

    def _drain(self, group: GroupPlan, name: str) -> None:
        """All others have left: what comes to this member is all that is left to the group."""
        wanted = self._outstanding(group)
        with (
            self._stage.connected() as client,
            RecordedConsumer.opened(self._stage, client, ACTOR, name, group.aim, group.name, mode=group.mode) as member,
        ):
            while wanted:
                try:
                    self._take(member, wanted, ack=True)
                except PositionLost as error:
                    lost = None if error.log is None else error.log.partition
                    member.seek(RecordedStart.earliest(), partition=lost)
            member.commit()
        self._stage.recorder.add(ACTOR, GroupDrained(name, group.name))

    def _outstanding(self, group: GroupPlan) -> set[tuple[int, Coordinates]]:
        """What is stored, and was acked by nobody of this group."""
        history = History(tuple(self._stage.recorder.events), self._guarantee)
        logs = SeenLogs(history)
        groups = GroupAcks(history, logs, Epochs(history, logs))
        left = outstanding_messages(logs, groups, group.name, self._stage.recorder.now())
        return {where for where in left if logs.final is None or where in logs.final}
