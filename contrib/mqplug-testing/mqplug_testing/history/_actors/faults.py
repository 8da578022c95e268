"""The faults of a run: those of the harness to the backend, and those injected into calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from zlib import crc32

import attrs

from mqplug_testing._harness.harness import Harness
from mqplug_testing.faults import Faults, Rule
from mqplug_testing.history._actors.run_context import RunContext
from mqplug_testing.history._events import BackendDisturbed, UnexpectedError

FAULT_ACTOR: Final = "faults"
FAULT_LOTS: Final = "troublemaker"  # never renamed: it decides, with the seed, which faults are drawn

LEGAL_CALL_FAULTS = (
    Rule("send", "fail", probability=0.005),
    Rule("send", "drop", probability=0.005),
    Rule("send", "lose_ack", probability=0.01),
    Rule("send", "delay", probability=0.005, delay=0.1),
    Rule("poll", "fail", probability=0.01),
    Rule("poll", "delay", probability=0.005, delay=0.1),
    Rule("seek", "fail", probability=0.03),
    Rule("seek", "lose_ack", probability=0.03),
    Rule("seek", "delay", probability=0.03, delay=0.05),
    Rule("commit", "fail", probability=0.03),
    Rule("commit", "lose_ack", probability=0.03),
    Rule("commit", "delay", probability=0.03, delay=0.05),
    Rule("settle", "fail", probability=0.02),
    Rule("settle", "delay", probability=0.02, delay=0.05),
    Rule("connect", "fail", probability=0.03),
    Rule("open_consumer", "fail", probability=0.03),
    Rule("open_producer", "delay", probability=0.05, delay=0.05),
    Rule("resolve_start", "fail", probability=0.02),
    Rule("watermarks", "fail", probability=0.02),
    Rule("administer", "fail", probability=0.01),
)
"""Faults that a client must survive without losing, repeating or inventing anything.

No open loses its answer: the member would exist without its client knowing it, and hold its partitions forever.
"""


def call_faults(seed: str, defects: Sequence[Rule], *, legal: bool) -> Faults:
    """Return the injected faults of a run. ``defects`` come first: the checker has to find them."""
    return Faults([*defects, *(LEGAL_CALL_FAULTS if legal else ())], seed=crc32(seed.encode()))


@attrs.frozen
class BackendFault:
    """A fault that the harness can begin, and end unless it passes by itself.

    ``alone`` requires that all actors have left.
    """

    name: str
    begin: Callable[[], None]
    end: Callable[[], None] | None = None
    alone: bool = False


def backend_faults(harness: Harness, topic: str) -> list[BackendFault]:
    """Return the faults of this harness to a topic, with clients connected or while they are away."""
    hooks = [
        ("kill", harness.kill, harness.start),
        ("kill of a node", harness.kill_node, harness.start_node),
        ("pause", harness.pause, harness.unpause),
        ("cut", harness.cut_network, harness.heal_network),
    ]
    found = [BackendFault(name, one, other) for name, one, other in hooks if one is not None and other is not None]
    if harness.unload is not None:
        found.append(BackendFault("unload", partial(harness.unload, topic)))
    if harness.restart is not None:
        found.append(BackendFault("restart", harness.restart, alone=True))
    return found


class FaultActor:
    """Disturbs the backend from time to time. After each fault it leaves the backend alone for a while."""

    def __init__(self, context: RunContext, choice: Sequence[BackendFault]) -> None:
        self.name = FAULT_ACTOR
        self._context = context
        self._choice = choice
        self._random = context.plan.lots(FAULT_LOTS)

    def perform(self) -> None:
        """Disturb the backend until the run ends. It always recovers at the end."""
        while self._context.running:
            self._context.sleep(self._random.uniform(0.15, 0.35) * self._context.plan.pace)
            if self._context.running:
                self.make(self._random.choice(self._choice))

    def make(self, fault: BackendFault) -> None:
        """Begin this fault, and end it."""
        recorder = self._context.recorder
        began = recorder.now()
        try:
            if fault.alone:
                with self._context.barrier.emptied(self._context.plan.patience) as empty:
                    if empty:
                        fault.begin()
            else:
                self._under_way(fault)
        except Exception as error:  # noqa: BLE001 - the harness failed, not the backend
            recorder.add(self.name, UnexpectedError(f"the harness failed to {fault.name}: {error!r}"))
        recorder.add(self.name, BackendDisturbed(fault.name), began)

    def _under_way(self, fault: BackendFault) -> None:
        fault.begin()
        if fault.end is None:
            return
        try:
            self._context.sleep(self._random.uniform(0.1, 3.0))
        finally:
            fault.end()
