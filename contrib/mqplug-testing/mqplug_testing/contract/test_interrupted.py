"""PRO: what becomes of messages when Ctrl-C comes while they are handed over."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from mqplug import Client, OutcomeUnknown, Producer, Record
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.keyboard_interrupts import Interrupts
from mqplug_testing._case_tools.registry import Registry

case = Registry()


def _extended(bench: Bench, extension: object) -> Client:
    assert bench.harness.extended is not None
    return bench.connect(partial(bench.harness.extended, [extension]))


def _send_many(out: Producer) -> None:
    out.send_many([Record(b"1", partition=0), Record(b"2", partition=0)])


def _send(out: Producer) -> None:
    out.send(b"1", partition=0)


def _submit(out: Producer) -> None:
    out.submit(b"1", partition=0)


@case("PRO-24", hooks=("extended",))
def test_interrupted(bench: Bench) -> None:
    """What Ctrl-C interrupts is stored or not, and called unknown: never failed, which nothing proves; others go on."""
    for interrupted in (_send_many, _send, _submit):
        for late in (False, True):
            interrupts, topic = Interrupts(late=late), bench.topic()
            out = _extended(bench, interrupts).producer(topic)
            out.send(b"0", partition=0)
            interrupts.armed = True
            with bench.raises(KeyboardInterrupt):
                interrupted(out)
            out.send(b"3", partition=0)
            with suppress(OutcomeUnknown) if late else bench.raises(OutcomeUnknown):
                out.close()
            values = [message.value for message in bench.read(topic)]
            possible = [[b"0", b"3"], [b"0", b"1", b"2", b"3"] if interrupted is _send_many else [b"0", b"1", b"3"]]
            bench.that(values in (possible if late else possible[:1]), f"{values} are stored")
