"""Chooses what reads messages of native readers and consumers: the compiled part, or the plain path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._consume.leased_messages import LeasedRun
from mqplug_pulsar._consume.partition_feed import TakeNow
from mqplug_pulsar._consume.received_messages import Received, ReceivedMessages, take_by_member, take_by_reader
from mqplug_pulsar._settings import PulsarSettings


def taking_by_reader(settings: PulsarSettings) -> TakeNow[Received]:
    """Return what takes messages without a group."""
    if compiled_part.find(settings, "reading") is None:
        return take_by_reader
    from mqplug_pulsar._consume.native_reading import take_rows

    return take_rows


def taking_by_member(settings: PulsarSettings) -> TakeNow[ReceivedMessages]:
    """Return what takes messages of a group."""
    if compiled_part.find(settings, "reading") is None:
        return take_by_member
    from mqplug_pulsar._consume.native_reading import take_collected

    return take_collected


def handing_out(settings: PulsarSettings) -> Callable[[list[Any], Sequence[int]], LeasedRun]:
    """Return what makes columns of native messages that are handed out, with their attempts."""
    if compiled_part.find(settings, "reading") is None:
        return LeasedRun
    from mqplug_pulsar._consume.native_reading import hand_out_collected

    return hand_out_collected
