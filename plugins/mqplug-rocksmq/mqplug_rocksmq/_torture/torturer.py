"""The torturer: starts the victim, kills it at a random moment, opens the store, and compares it with the model."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import attrs

import mqplug
from mqplug_rocksmq._torture.expectations import StoreModel
from mqplug_rocksmq._torture.reports import VictimReport

_EARLY_KILL_SHARE: Final = 0.2  # of kills come while the victim starts: they hit the recovery after a crash
_NUMBERS_PER_CYCLE: Final = 10_000_000  # of messages


@attrs.frozen
class TortureVerdict:
    """The result of all cycles."""

    cycles: int
    sent: int
    acks: int
    topics: int
    slowest_open: float
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        done = f"{self.cycles} kills, {self.sent} messages, {self.acks} acks, {self.topics} topics"
        if self.wrong:
            return f"{done}: {len(self.wrong)} errors"
        return f"{done}: nothing lost, invented, stored twice, out of order, or repeated after its ack"


def run_torture(
    path: Path,
    *,
    cycles: int,
    seconds: float,
    sync: str,
    seed: int,
    tell: Callable[[int, StoreModel], None] | None = None,
) -> TortureVerdict:
    """Kill one victim in each of *cycles*, after up to *seconds*. Stop at the first error."""
    chance = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
    model = StoreModel()
    slowest = 0.0
    done = 0
    while done < cycles and not model.wrong:
        numbers = (done + 1) * _NUMBERS_PER_CYCLE
        model.probes = numbers + _NUMBERS_PER_CYCLE * 9 // 10
        _kill_one(path, sync, chance, seconds, numbers, model)
        done += 1
        slowest = max(slowest, _look(path, sync, model))
        if tell:
            tell(done, model)
    return TortureVerdict(done, model.sent, model.acks, model.created, slowest, tuple(model.wrong))


def _look(path: Path, sync: str, model: StoreModel) -> float:
    """Compare the store with the model. Return how long it took to open."""
    settings = cast("Any", {"path": str(path), "sync": sync, "retention_interval": 0.05})
    began = time.monotonic()
    try:
        with mqplug.connect("rocksmq", **settings) as mq:
            took = time.monotonic() - began
            model.verify(mq)
    except mqplug.Error as error:
        model.wrong.append(f"{type(error).__name__}: {error}")
        return 0.0
    return took


def _kill_one(path: Path, sync: str, chance: random.Random, seconds: float, numbers: int, model: StoreModel) -> None:
    early = chance.random() < _EARLY_KILL_SHARE
    delay = chance.uniform(0, 0.4 if early else seconds)
    command = [sys.executable, "-m", f"{__package__}.victim", str(path), sync, str(chance.randrange(1 << 30))]
    with subprocess.Popen([*command, str(numbers)], stdout=subprocess.PIPE, text=True) as victim:  # noqa: S603
        ready = threading.Event()
        listener = threading.Thread(target=_listen, args=(victim, model, ready))
        listener.start()
        if not early:
            ready.wait(60)
        threading.Event().wait(delay)
        victim.kill()
        listener.join()


def _listen(victim: subprocess.Popen[str], model: StoreModel, ready: threading.Event) -> None:
    """Pass the victim's reports to the model, except an incomplete last line."""
    for line in victim.stdout or ():
        if line.endswith("\n"):
            report: VictimReport = json.loads(line)
            if "ready" in report:
                ready.set()
            else:
                model.process(report)
    ready.set()
