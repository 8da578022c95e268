"""Reads to the end of a topic: alone, or as concurrent members of one group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import attrs

import mqplug
from mqplug.spi import Deadline
from mqplug_cli._demo.verdict import StoredPlace

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
    stopping = Event()
    began = time.perf_counter()
    with ThreadPoolExecutor(len(members)) as pool:
        try:
            readers = [pool.submit(_read, member, ends, arrived, stopping) for member in members]
            shares, last = zip(*(reader.result() for reader in readers), strict=True)
        finally:
            stopping.set()
    return Reading(arrived, list(shares), max(*last, began + 1e-6) - began)


def _read(
    member: mqplug.Consumer, ends: dict[int, mqplug.Position], arrived: list[mqplug.Message], stopping: Event
) -> tuple[int, float]:
    """Read to the end and store the acks. Return how many messages came, and when the last did."""
    share, last, deadline = 0, 0.0, Deadline(GROUP_READ_S)
    while not stopping.is_set() and not deadline.expired:
        message = member.receive(timeout=IDLE_RECEIVE_S)
        if message is not None:
            arrived.append(message)
            member.ack(message)
            share, last = share + 1, time.perf_counter()
        elif _is_at_end(member.position(), ends):
            break
    member.commit()
    return share, last


def _is_at_end(held: dict[int, mqplug.Position], ends: dict[int, mqplug.Position]) -> bool:
    return bool(held) and all(position >= ends[partition] for partition, position in held.items())
