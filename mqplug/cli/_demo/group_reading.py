"""Reads to the end of a topic: alone, or as concurrent members of one group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Thread

import attrs

import mqplug
from mqplug._base.deadline import Deadline
from mqplug.cli._demo.verdict import StoredPlace

GROUP_READ_S = 60.0  # for a group to form, and for reading to the end
IDLE_RECEIVE_S = 0.1


@attrs.frozen
class Reading:
    """The received messages in order, the number received by each member, and the seconds it took."""

    messages: list[mqplug.Message]
    shares: list[int]
    seconds: float


def stored_place(message_id: mqplug.MessageId) -> StoredPlace:
    """Return the partition and the coordinates of an id."""
    return message_id.log.partition, message_id.coordinates


def received_values(messages: Sequence[mqplug.Message]) -> list[tuple[StoredPlace, bytes]]:
    """Return the place and the value of each message."""
    return [(stored_place(message.id), message.value or b"") for message in messages]


def wait_for_shares(members: Sequence[mqplug.Consumer], partitions: int) -> list[int]:
    """Wait until the members hold all partitions, each at least one. Return how many each holds."""
    deadline = Deadline(GROUP_READ_S)
    while not deadline.expired:
        for member in members:
            member.receive(timeout=IDLE_RECEIVE_S / 2)  # the topic is empty: this only lets it join
        shares = [len(member.assignment()) for member in members]
        if all(shares) and sum(shares) == partitions:
            return shares
    raise mqplug.Timeout(
        f"{len(members)} members did not share {partitions} partitions within {GROUP_READ_S:g} s", operation="demo"
    )


def read_to_end(mq: mqplug.Client, topic: str, members: Sequence[mqplug.Consumer]) -> Reading:
    """Let each member receive and ack in a thread of its own, to the end of its partitions."""
    ends = {partition: marks.high for partition, marks in mq.watermarks(topic).items()}
    arrived: list[mqplug.Message] = []
    readers = [_Reader(member, ends, arrived) for member in members]
    began = time.perf_counter()
    try:
        for reader in readers:
            reader.start()
        for reader in readers:
            while reader.is_alive():
                reader.join(IDLE_RECEIVE_S)
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
    """The thread of one member."""

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
        """Read to the end, then store the acks."""
        try:
            self._read()
            self._member.commit()
        except mqplug.Error as error:
            self.error = error

    def _read(self) -> None:
        member, keep, deadline = self._member, self._arrived.append, Deadline(GROUP_READ_S)
        while not deadline.expired:
            message = member.receive(timeout=IDLE_RECEIVE_S)
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
