"""Reading to the end: alone, or as members of one group at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Thread

import attrs

import mqplug
from mqplug._base.deadline import Deadline
from mqplug.cli._demo.verdict import StoredPlace

PATIENCE = 60.0  # seconds for a group to form, and for reading all there is
IDLE = 0.1


@attrs.frozen
class Reading:
    """What was received, in the order in which it came; how much of it by each member; how long it took."""

    messages: list[mqplug.Message]
    shares: list[int]
    seconds: float


def stored_place(message_id: mqplug.MessageId) -> StoredPlace:
    """The partition and the coordinates of an id."""
    return message_id.log.partition, message_id.coordinates


def received_values(messages: Sequence[mqplug.Message]) -> list[tuple[StoredPlace, bytes]]:
    """Where each message is stored, and its value."""
    return [(stored_place(message.id), message.value or b"") for message in messages]


def wait_for_shares(members: Sequence[mqplug.Consumer], partitions: int) -> list[int]:
    """Wait until the members hold all partitions and none is without; how many each holds."""
    deadline = Deadline(PATIENCE)
    while not deadline.expired:
        for member in members:
            member.receive(timeout=IDLE / 2)  # the topic is empty: this only lets it take part
        shares = [len(member.assignment()) for member in members]
        if all(shares) and sum(shares) == partitions:
            return shares
    raise mqplug.Timeout(f"{len(members)} members did not come to share {partitions} partitions", operation="demo")


def read_to_end(mq: mqplug.Client, topic: str, members: Sequence[mqplug.Consumer]) -> Reading:
    """Let each member receive and ack in a thread of its own, to the end of the partitions that it holds."""
    ends = {partition: marks.high for partition, marks in mq.watermarks(topic).items()}
    arrived: list[mqplug.Message] = []
    readers = [_Reader(member, ends, arrived) for member in members]
    began = time.perf_counter()
    try:
        for reader in readers:
            reader.start()
        for reader in readers:
            while reader.is_alive():
                reader.join(IDLE)
    except KeyboardInterrupt:
        for member in members:
            member.stop()
        raise
    for reader in readers:
        if reader.error is not None:
            raise reader.error
    seconds = max(reader.last for reader in readers) - began
    return Reading(arrived, [reader.share for reader in readers], max(seconds, 1e-6))


class _Reader(Thread):
    """One member at work."""

    def __init__(
        self, member: mqplug.Consumer, ends: dict[int, mqplug.Position], arrived: list[mqplug.Message]
    ) -> None:
        super().__init__(daemon=True)
        self._member = member
        self._ends = ends
        self._arrived = arrived
        self.share = 0
        self.last = 0.0
        self.error: mqplug.Error | None = None

    def run(self) -> None:
        """Read, then store the acks."""
        try:
            self._read()
            self._member.commit()
        except mqplug.Error as error:
            self.error = error

    def _read(self) -> None:
        member, keep, deadline = self._member, self._arrived.append, Deadline(PATIENCE)
        while not deadline.expired:
            message = member.receive(timeout=IDLE)
            if message is not None:
                keep(message)
                member.ack(message)
                self.share += 1
                self.last = time.perf_counter()
            elif self._is_at_end():
                return

    def _is_at_end(self) -> bool:
        held = self._member.position()
        return bool(held) and all(position >= self._ends[partition] for partition, position in held.items())
