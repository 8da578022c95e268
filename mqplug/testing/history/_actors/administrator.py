"""An administrator: asks for watermarks, positions and lags, has messages removed, adds partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mqplug import Client, Error, GroupNotFound, MessageId, Position, Watermarks
from mqplug.spi import Deadline
from mqplug.testing.history._actors.run_context import RunContext
from mqplug.testing.history._events.events import (
    LagRead,
    MessagesTrimmed,
    PartitionsAdded,
    PositionsRead,
    RunAction,
    WatermarksRead,
)

PATIENCE = 10.0
T = TypeVar("T")


class AdministratorActor:
    """Asks and tells, from outside."""

    def __init__(
        self, stage: RunContext, groups: Sequence[str], *, name: str = "administrator", grows: bool = True
    ) -> None:
        self.name = name
        self._stage = stage
        self._groups = groups
        self._lots = stage.plan.lots(self.name)
        self._grows = self._lots.random() < 0.4 and grows
        self._next_trim = 0.0

    def session(self) -> None:
        """Connect, ask and tell for a while."""
        with self._stage.connected() as client:
            until = Deadline(self._stage.plan.session(self._lots))
            while self._stage.stays(until):
                self._step(client)
                self._stage.nap(self._lots.uniform(0.01, 0.1))

    def _step(self, client: Client) -> None:
        lots = self._lots
        dice = lots.random()
        if dice < 0.1 and time.monotonic() > self._next_trim:
            self._trim(client)
        elif dice < 0.12 and self._grows and client.capabilities.add_partitions:
            self._grow(client)
        elif dice < 0.4 or not self._groups:
            self._ask(lambda: client.watermarks(self._stage.topic, timeout=PATIENCE), _watermarks_read)
        elif dice < 0.7:
            self._ask_position(client, lots.choice(self._groups))
        else:
            group = lots.choice(self._groups)
            self._ask(
                lambda: client.lag(self._stage.topic, group=group, timeout=PATIENCE),
                lambda found: LagRead(group, tuple(found.items())),
            )

    def _ask(self, call: Callable[[], T], tell: Callable[[T], RunAction]) -> None:
        """Ask something; what nobody answers is not written down."""
        began = self._stage.recorder.now()
        try:
            found = call()
        except Error:
            self._stage.nap(0.1)
        else:
            self._stage.recorder.add(self.name, tell(found), began)

    def _ask_position(self, client: Client, group: str) -> None:
        try:
            self._ask(
                lambda: client.positions(self._stage.topic, group=group, timeout=PATIENCE),
                lambda found: PositionsRead(group, tuple((p, each.position.coordinates) for p, each in found.items())),
            )
        except GroupNotFound:
            return

    def _tell(self, call: Callable[[], object], did: RunAction) -> None:
        began, failure = self._stage.recorder.begin(self.name, did), None
        try:
            call()
        except Error as error:
            failure = error
        self._stage.recorder.add(self.name, did, began, failure)

    def _trim(self, client: Client) -> None:
        """Have the oldest part of a partition removed."""
        stage = self._stage
        old = list(stage.stored)[: len(stage.stored) // 4]
        if not old or not stage.harness.has("trim_before", client):
            return
        message_id = self._lots.choice(old)
        did = MessagesTrimmed(message_id.log.partition, message_id.coordinates)
        self._tell(lambda: trim_topic(stage, client, message_id), did)
        self._next_trim = time.monotonic() + self._lots.uniform(0.1, 0.3) * stage.plan.seconds

    def _grow(self, client: Client) -> None:
        self._grows = False
        stage = self._stage
        total = stage.partitions + 1
        self._tell(lambda: client.add_partitions(stage.topic, total, timeout=PATIENCE), PartitionsAdded(total))


def trim_topic(stage: RunContext, client: Client, message_id: MessageId) -> None:
    """Remove what lies before a message, by the harness or by the backend itself."""
    position = Position(message_id.log, message_id.coordinates)
    if stage.harness.trim_before is not None:
        stage.harness.trim_before(client, stage.topic, position)
    else:
        client.trim(stage.topic, {message_id.log.partition: position}, timeout=PATIENCE)


def _watermarks_read(found: Mapping[int, Watermarks]) -> WatermarksRead:
    return WatermarksRead(
        tuple((partition, marks.low.coordinates, marks.high.coordinates) for partition, marks in found.items())
    )
