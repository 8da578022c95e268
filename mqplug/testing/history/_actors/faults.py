"""Faults on purpose: what the harness can do to the backend, and what the injector does to calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import attrs

from mqplug.faults import Faults, Rule
from mqplug.testing._harness.harness import Harness
from mqplug.testing.history._actors.run_context import RunContext
from mqplug.testing.history._events.events import BackendDisturbed, UnexpectedError

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
"""What a client has to bear without losing, repeating or inventing anything.

No opening loses its answer: a member that was opened, and that nobody knows of, would hold its partitions for ever.
"""


def call_faults(seed: str, defects: Sequence[Rule], *, legal: bool) -> Faults:
    """The faults of a run. ``defects`` come first: they are what the checker has to find."""
    return Faults([*defects, *(LEGAL_CALL_FAULTS if legal else ())], seed=crc32(seed.encode()))


@attrs.frozen
class BackendFault:
    """Something that can be done to the backend, and undone; ``alone`` needs everybody gone."""

    name: str
    begin: Callable[[], None]
    end: Callable[[], None]
    alone: bool = False


def backend_faults(harness: Harness) -> list[BackendFault]:
    """What this harness can do under its clients, or while they are away."""
    hooks = [
        ("kill", harness.kill, harness.start),
        ("pause", harness.pause, harness.unpause),
        ("cut", harness.cut_network, harness.heal_network),
    ]
    found = [BackendFault(name, one, other) for name, one, other in hooks if one is not None and other is not None]
    if harness.restart is not None:
        found.append(BackendFault("restart", harness.restart, lambda: None, alone=True))
    return found


class FaultActor:
    """Does it now and then. After each trouble there is some time in which all goes well."""

    def __init__(self, stage: RunContext, choice: Sequence[BackendFault]) -> None:
        self.name = "troublemaker"
        self._stage = stage
        self._choice = choice
        self._lots = stage.plan.lots(self.name)

    def perform(self) -> None:
        """Make trouble until the run ends; whatever happens, the backend is well in the end."""
        seconds = self._stage.plan.seconds
        while self._stage.running:
            self._stage.nap(self._lots.uniform(0.15, 0.35) * seconds)
            if self._stage.running:
                self.make(self._lots.choice(self._choice))

    def make(self, trouble: BackendFault) -> None:
        """Make this one, and undo it."""
        recorder = self._stage.recorder
        began = recorder.now()
        try:
            if trouble.alone:
                with self._stage.turnstile.emptied(self._stage.plan.patience) as empty:
                    if empty:
                        trouble.begin()
            else:
                self._under_way(trouble)
        except Exception as error:  # noqa: BLE001 - the harness is not the backend: say whose fault it is
            recorder.add(self.name, UnexpectedError(f"the harness could not {trouble.name}: {error!r}"))
        recorder.add(self.name, BackendDisturbed(trouble.name), began)

    def _under_way(self, trouble: BackendFault) -> None:
        trouble.begin()
        try:
            self._stage.nap(self._lots.uniform(0.1, 3.0))
        finally:
            trouble.end()
