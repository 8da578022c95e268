"""The end of a run: everything is well again, every partition is read whole, every group is drained."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from mqplug import Client, Error, PositionLost, Timeout
from mqplug.testing.history._consuming import Aim, Watched
from mqplug.testing.history._epochs import Epochs
from mqplug.testing.history._events import Broke, Drained, Place, ReadWhole
from mqplug.testing.history._groups import Groups
from mqplug.testing.history._history import Guarantee, History
from mqplug.testing.history._logs import Logs
from mqplug.testing.history._members import Group
from mqplug.testing.history._producing import Draft, Outbox
from mqplug.testing.history._settled import outstanding
from mqplug.testing.history._stage import REST, Stage

ACTOR = "ending"


class Ending:
    """What the run does when all actors have left."""

    def __init__(self, stage: Stage, guarantee: Guarantee) -> None:
        self._stage = stage
        self._guarantee = guarantee
        self._last: set[tuple[int, Place]] = set()

    def close(self, groups: Sequence[Group]) -> None:
        """Send a last message to each partition, read everything, and let each group have the rest."""
        self._insist(self._read_whole, ReadWhole("final"))
        for group in groups:
            self._insist(partial(self._drain, group), Drained(f"{group.name}/drain", group.name))

    def _insist(self, work: Callable[[str], None], did: ReadWhole | Drained) -> None:
        """Try until patience ends, under another name each time; what was not done then is written down as such."""
        failure: Error | None = None
        deadline = time.monotonic() + self._stage.plan.patience
        for number in count(1):
            try:
                work(f"{did.consumer}#{number}")
            except Error as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - any other error is a find, and there is no use in going on
                self._stage.recorder.add(ACTOR, Broke(f"{type(error).__name__}: {error}"))
                return
            else:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(REST)
        self._stage.recorder.add(ACTOR, did, None, failure)

    # reading it all ----------------------------------------------------------------------------------------

    def _read_whole(self, name: str) -> None:
        with self._stage.connected() as client:
            if not self._last:
                self._send_last(client)
            with Watched.opened(self._stage, client, ACTOR, name, Aim.earliest()) as reader:
                self._take(reader, set(self._last))
        self._stage.recorder.add(ACTOR, ReadWhole(name))

    def _send_last(self, client: Client) -> None:
        """A message that is surely the last one of its partition: who has got it has got all."""
        partitions = range(len(client.partitions(self._stage.topic)))
        outbox = Outbox(self._stage, client.producer(self._stage.topic), f"{ACTOR}#{self._stage.recorder.now()}")
        try:
            sent = [outbox.send(Draft(partition, None)) for partition in partitions]
        finally:
            outbox.close()
        if None in sent:
            raise Timeout("the last message of each partition could not be sent")
        self._last = {(each.log.partition, each.coordinates) for each in sent if each is not None}

    def _take(self, consumer: Watched, wanted: set[tuple[int, Place]], *, ack: bool = False) -> None:
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

    def _drain(self, group: Group, name: str) -> None:
        """All others have left: what comes to this member is all that is left to the group."""
        wanted = self._outstanding(group)
        with (
            self._stage.connected() as client,
            Watched.opened(self._stage, client, ACTOR, name, group.aim, group.name, mode=group.mode) as member,
        ):
            while wanted:
                try:
                    self._take(member, wanted, ack=True)
                except PositionLost as error:
                    lost = None if error.log is None else error.log.partition
                    member.seek(Aim.earliest(), partition=lost)
            member.commit()
        self._stage.recorder.add(ACTOR, Drained(name, group.name))

    def _outstanding(self, group: Group) -> set[tuple[int, Place]]:
        """What is stored, and was acked by nobody of this group."""
        history = History(tuple(self._stage.recorder.events), self._guarantee)
        logs = Logs(history)
        groups = Groups(history, logs, Epochs(history, logs))
        left = outstanding(logs, groups, group.name, self._stage.recorder.now())
        return {where for where in left if logs.final is None or where in logs.final}
