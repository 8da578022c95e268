"""An actor that reads watermarks, positions and lags, trims messages, and adds partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mqplug import Client, Error, GroupNotFound, MessageId, Position, Watermarks
from mqplug.spi import Deadline
from mqplug_testing.history._actors.run_context import RunContext
from mqplug_testing.history._events.events import (
    LagRead,
    MessagesTrimmed,
    PartitionsAdded,
    PositionsRead,
    RunAction,
    WatermarksRead,
)

ADMIN_CALL_TIMEOUT_S = 10.0
T = TypeVar("T")


class AdministratorActor:
    """Reads and changes the topic from outside."""

    def __init__(
        self, context: RunContext, groups: Sequence[str], *, name: str = "administrator", grows: bool = True
    ) -> None:
        self.name = name
        self._context = context
        self._groups = groups
        self._random = context.plan.lots(self.name)
        self._grows = self._random.random() < 0.4 and grows
        self._next_trim = 0.0

    def session(self) -> None:
        """Connect, and make random calls for a while."""
        with self._context.connected() as client:
            until = Deadline(self._context.plan.session(self._random))
            while self._context.continues(until):
                self._step(client)
                self._context.sleep(self._random.uniform(0.01, 0.1))

    def _step(self, client: Client) -> None:
        random = self._random
        dice = random.random()
        if dice < 0.1 and time.monotonic() > self._next_trim:
            self._trim(client)
        elif dice < 0.12 and self._grows and client.capabilities.add_partitions:
            self._grow(client)
        elif dice < 0.4 or not self._groups:
            self._read(lambda: client.watermarks(self._context.topic, timeout=ADMIN_CALL_TIMEOUT_S), _watermarks_read)
        elif dice < 0.7:
            self._read_position(client, random.choice(self._groups))
        else:
            group = random.choice(self._groups)
            self._read(
                lambda: client.lag(self._context.topic, group=group, timeout=ADMIN_CALL_TIMEOUT_S),
                lambda found: LagRead(group, tuple(found.items())),
            )

    def _read(self, call: Callable[[], T], as_action: Callable[[T], RunAction]) -> None:
        """Make a call, and record its result. A call that fails is not recorded."""
        began = self._context.recorder.now()
        try:
            found = call()
        except Error:
            self._context.sleep(0.1)
        else:
            self._context.recorder.add(self.name, as_action(found), began)

    def _read_position(self, client: Client, group: str) -> None:
        try:
            self._read(
                lambda: client.positions(self._context.topic, group=group, timeout=ADMIN_CALL_TIMEOUT_S),
                lambda found: PositionsRead(group, tuple((p, each.position.coordinates) for p, each in found.items())),
            )
        except GroupNotFound:
            return

    def _change(self, call: Callable[[], object], did: RunAction) -> None:
        began, failure = self._context.recorder.begin(self.name, did), None
        try:
            call()
        except Error as error:
            failure = error
        self._context.recorder.add(self.name, did, began, failure)

    def _trim(self, client: Client) -> None:
        """Trim the oldest part of a partition."""
        context = self._context
        old = list(context.stored)[: len(context.stored) // 4]
        if not old or not context.harness.has("trim_before", client):
            return
        message_id = self._random.choice(old)
        did = MessagesTrimmed(message_id.log.partition, message_id.coordinates)
        self._change(lambda: trim_topic(context, client, message_id), did)
        self._next_trim = time.monotonic() + self._random.uniform(0.1, 0.3) * context.plan.seconds

    def _grow(self, client: Client) -> None:
        self._grows = False
        context = self._context
        total = context.partitions + 1
        self._change(
            lambda: client.add_partitions(context.topic, total, timeout=ADMIN_CALL_TIMEOUT_S), PartitionsAdded(total)
        )


def trim_topic(context: RunContext, client: Client, message_id: MessageId) -> None:
    """Remove the messages before this one, by the harness or by the backend itself."""
    position = Position(message_id.log, message_id.coordinates)
    if context.harness.trim_before is not None:
        context.harness.trim_before(client, context.topic, position)
    else:
        client.trim(context.topic, {message_id.log.partition: position}, timeout=ADMIN_CALL_TIMEOUT_S)


def _watermarks_read(found: Mapping[int, Watermarks]) -> WatermarksRead:
    return WatermarksRead(
        tuple((partition, marks.low.coordinates, marks.high.coordinates) for partition, marks in found.items())
    )
