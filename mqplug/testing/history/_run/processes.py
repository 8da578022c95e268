"""Actors in processes of their own: these are killed and stopped, and come again, and so is what they talk to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Thread
from typing import Final

import attrs

from mqplug.spi import Deadline
from mqplug.testing.history._actors.faults import FaultActor, backend_faults
from mqplug.testing.history._actors.run_context import RunContext
from mqplug.testing.history._events.events import (
    BackendDisturbed,
    ConsumerClosed,
    ConsumerOpened,
    Event,
    RecordSent,
    UnexpectedError,
)
from mqplug.testing.history._events.history import from_json
from mqplug.testing.history._run.worker import WorkerTask

PROCESSES: Final = 4
NAME: Final = "troublemaker"
STARTING: Final = 60.0  # seconds that processes have to begin
LEAVING: Final = 90.0  # seconds that a process has to come back when it is called


class WorkerProcess:
    """One process, and what it said."""

    def __init__(self, part: WorkerTask) -> None:
        self.part = part
        self.killed: int | None = None  # when
        self._lines: list[str] = []
        command = [sys.executable, "-c", f"from {__package__}.worker import main; main()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(attrs.asdict(part)) + "\n")
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self._lines.append(line)

    @property
    def works(self) -> bool:
        """Whether it has begun to do anything, or is gone."""
        return bool(self._lines) or self.process.poll() is not None

    def kill(self, now: Callable[[], int]) -> None:
        """End it as ``kill -9`` does."""
        self.process.kill()
        self._gather()
        self.killed = now()

    def call_back(self) -> None:
        """Have its actors leave."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self, deadline: Deadline) -> bool:
        """Wait until it is gone; False if it had to be killed for that, or failed."""
        try:
            self.process.wait(deadline.remaining())
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._gather()
        return self.process.returncode == 0

    def _gather(self) -> None:
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def told(self) -> tuple[list[Event], int]:
        """What it did; and how many faults were injected, as far as it came to say so."""
        return parse_report(self._lines, self.killed)


def parse_report(lines: Iterable[str], killed: int | None) -> tuple[list[Event], int]:
    """What the lines of a process say that was killed then, or not: its events, and how many faults were injected.

    What it had begun, and nobody was left to tell of, may be done or not; and nobody is open any more.
    """
    events: list[Event] = []
    begun: dict[tuple[type, str], Event] = {}
    injected = 0
    for line in map(json.loads, lines):
        if "injected" in line:
            injected = line["injected"]
        elif "key" in line:
            event = from_json(line["event"])
            begun[type(event.did), line["key"]] = event
        else:
            event = from_json(line["event"])
            key = event.did.value if isinstance(event.did, RecordSent) else event.actor
            begun.pop((type(event.did), key), None)
            events.append(event)
    if killed is not None:
        events += [*(attrs.evolve(event, ended=killed) for event in begun.values()), *_torn_away(events, killed)]
    return events, injected


def _torn_away(events: Sequence[Event], killed: int) -> Iterator[Event]:
    """The end of those consumers that were open."""
    left = {event.did.consumer for event in events if isinstance(event.did, ConsumerClosed)}
    for event in events:
        if isinstance(event.did, ConsumerOpened) and event.did.consumer not in left:
            yield Event(
                0, event.actor, killed, killed, ConsumerClosed(event.did.consumer), "unknown", "its process was killed"
            )


class WorkerProcesses:
    """All processes of a run. Whoever is killed comes again, under another name."""

    def __init__(self, stage: RunContext, url: str) -> None:
        self._stage = stage
        self._host = stage.harness.host
        self._troubles = [] if self._host else [each for each in backend_faults(stage.harness) if not each.alone]
        self._lots = stage.plan.lots(NAME)
        urls = [url, stage.harness.process_behind_network or url]
        parts = [
            WorkerTask(urls[share % 2], stage.topic, stage.plan, share, PROCESSES, 0, stage.recorder.origin)
            for share in range(PROCESSES)
        ]
        self._here = [WorkerProcess(part) for part in parts]
        self._gone: list[WorkerProcess] = []

    def perform(self) -> int:
        """Let them work for as long as the plan says, and write down what they did; how many faults were injected."""
        seconds = self._stage.plan.seconds
        # Clients of a server need time to find it again, and members to be missed.
        calm = (1.0, 4.0) if self._host else (0.1 * seconds, 0.3 * seconds)
        self._await_beginning()
        deadline = Deadline(seconds)
        try:
            while not deadline.expired:
                self._stage.nap(deadline.remaining(self._lots.uniform(*calm)))
                if not deadline.expired:
                    self._make_trouble()
        finally:
            self._call_back()
        return self._write_down()

    def _await_beginning(self) -> None:
        """Wait until each process works: on a busy machine some take as long to start as a short run lasts."""
        deadline = Deadline(STARTING)
        while not all(player.works for player in self._here) and not deadline.expired:
            self._stage.nap(0.02)

    def _make_trouble(self) -> None:
        if self._troubles and self._lots.random() < 0.5:
            FaultActor(self._stage, self._troubles).make(self._lots.choice(self._troubles))
        else:
            self._strike()

    def _strike(self) -> None:
        """Kill or stop one of the processes, or whichever the backend lives in."""
        lots, recorder, harness = self._lots, self._stage.recorder, self._stage.harness
        host, began = self._host() if self._host else None, recorder.now()
        mine = [player for player in self._here if player.process.pid == host]
        what = "kill of a process"
        if host is not None and not mine and harness.kill and harness.start:
            harness.kill()
            harness.start()
            what = "kill of the host"
        else:
            player = lots.choice(mine if mine and lots.random() < 0.5 else self._here)
            if player.process.poll() is not None:
                recorder.add(NAME, UnexpectedError(f"a process ended by itself, with {player.process.returncode}"))
            if lots.random() < 0.25:
                self._stop(player)
                what = "stop of a process"
            else:
                self._replace(player)
        recorder.add(NAME, BackendDisturbed(what), began)

    def _stop(self, player: WorkerProcess) -> None:
        """It stands still for a while."""
        player.process.send_signal(signal.SIGSTOP)
        self._stage.nap(self._lots.uniform(0.1, 4.0))
        player.process.send_signal(signal.SIGCONT)

    def _replace(self, player: WorkerProcess) -> None:
        """Kill it, and have another come in its place."""
        player.kill(self._stage.recorder.now)
        self._stage.nap(self._lots.choice([0, 0, 0.5]))
        self._here.remove(player)
        self._gone.append(player)
        self._here.append(WorkerProcess(attrs.evolve(player.part, life=player.part.life + 1)))

    def _call_back(self) -> None:
        for player in self._here:
            player.call_back()
        deadline = Deadline(LEAVING)
        for player in self._here:
            if not player.end(deadline):
                what = f"a process did not leave in time, or failed: it ended with {player.process.returncode}"
                self._stage.recorder.add(NAME, UnexpectedError(what))

    def _write_down(self) -> int:
        """What all of them did, in the order in which it ended."""
        recorder, total = self._stage.recorder, 0
        events = recorder.events
        for player in (*self._gone, *self._here):
            told, injected = player.told()
            events += told
            total += injected
        events.sort(key=lambda event: event.ended)
        events[:] = (attrs.evolve(event, number=number) for number, event in enumerate(events))
        return total
