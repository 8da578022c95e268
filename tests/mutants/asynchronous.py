"""Wrong parts of the asyncio API, whose cases are about the core."""

from __future__ import annotations

import asyncio
import threading

from mqplug._base.fork import ForkGuard
from mqplug._consume import shared_tracker
from mqplug._consume.delivery import ACKED, STORED
from mqplug.aio._consumer import AsyncConsumer
from mqplug.aio._loop import AsyncClosable, ClientLoop
from mqplug.aio._producer import AsyncProducer
from mqplug.aio._send_queue import QueuedRecord
from mutants.base import Mutant

RECEIVE, SEND, LEAVE = AsyncConsumer.receive, AsyncProducer.send, AsyncClosable.__aexit__
TAKE_ACKED = shared_tracker._take_acked


def _take_whole_batch(delivery):
    if delivery.flags.count(ACKED) == len(delivery.flags):
        delivery.flags[:] = bytes([STORED]) * len(delivery.flags)
        return list(delivery.batch.coordinates)
    return TAKE_ACKED(delivery)


async def _receive_and_lose(consumer, *timeout):
    try:
        return await RECEIVE(consumer, *timeout)
    except asyncio.CancelledError:
        if (delivery := await consumer._end_fetch()) is not None:
            list(delivery.messages)
        raise


async def _receive_to_the_end(consumer, *timeout):
    try:
        return await RECEIVE(consumer, *timeout)
    except asyncio.CancelledError:
        return None


async def _send_again(producer, value, **fields):
    try:
        return await SEND(producer, value, **fields)
    except asyncio.CancelledError:
        await producer.submit(value, partition=0)
        raise


async def _leave_open(closable, kind, error, trace):
    if kind is not asyncio.CancelledError:
        await LEAVE(closable, kind, error, trace)


async def _call_here(loop, work, undo=None):
    return work()


class LosesWhatWasCancelled(Mutant):
    case = "TO-03"
    patches = ((AsyncConsumer, "receive", _receive_and_lose),)


class AcksWhatWasCancelled(Mutant):
    case = "TO-11"
    patches = ((shared_tracker, "_take_acked", _take_whole_batch),)


class SendsWhatWasCancelledAgain(Mutant):
    case = "TO-04"
    patches = ((AsyncProducer, "send", _send_again),)


class SwallowsCancellation(Mutant):
    case = "TO-06"
    patches = ((AsyncConsumer, "receive", _receive_to_the_end),)


class LeavesOpenWhatWasCancelled(Mutant):
    case = "TO-06"
    patches = ((AsyncClosable, "__aexit__", _leave_open),)


class SendsWhatWasCancelledBefore(Mutant):
    case = "TO-07"
    patches = ((QueuedRecord, "dropped", property(lambda entry: False)),)


class WaitsInTheLoop(Mutant):
    """A slow backend for which the loop's own thread waits."""

    case = "CC-08"
    patches = ((ClientLoop, "call", _call_here),)

    def marks(self, marks):
        threading.Event().wait(0.3)
        return marks


class TakesAnyLoop(Mutant):
    case = "CC-09"
    patches = ((ClientLoop, "check", lambda loop: None),)


class SurvivesAFork(Mutant):
    case = "CC-10"
    patches = ((ForkGuard, "check", lambda guard: None),)
