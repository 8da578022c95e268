"""The worker processes of a run: started, killed, stopped and replaced, while the backend is disturbed.

In each, some of the actors work. It reads its task from a line of JSON, and writes a line when a call begins, and one
when it has ended. It exits when its input ends.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final

import attrs

import mqplug
from mqplug import Client, Error
from mqplug.spi import Deadline
from mqplug_testing._harness.harness import Harness
from mqplug_testing.history._actors.actors import all_actors, planned_groups
from mqplug_testing.history._actors.faults import FAULT_ACTOR, FAULT_LOTS, FaultActor, backend_faults, call_faults
from mqplug_testing.history._actors.run_context import SESSION_RETRY_S, Plan, RunContext
from mqplug_testing.history._events import (
    BackendDisturbed,
    ConsumerClosed,
    ConsumerOpened,
    Event,
    RecordSent,
    RunAction,
    UnexpectedError,
)
from mqplug_testing.history._history import HistoryRecorder, from_json, to_json

FIRST_CONNECT_S: Final = 60.0  # for a backend that was killed when the process started


@attrs.frozen
class WorkerTask:
    """The task of a process: the actors whose number leaves ``share`` when divided by ``of``.

    ``life`` counts the earlier processes of the same share; ``origin`` is the start of the run.
    """

    url: str
    topic: str
    plan: Plan
    share: int
    of: int
    life: int
    origin: int


class PipeRecorder(HistoryRecorder):
    """A recorder that reports each event at once: it is known even if this process is killed afterwards."""

    def __init__(self, limit: int, origin: int) -> None:
        super().__init__(limit, origin)
        self._saying = Lock()

    def begin(self, actor: str, did: RunAction) -> int:
        began = self.now()
        event = Event(0, actor, began, began, did, "unknown", "its process was killed")
        self._say({"key": did.value if isinstance(did, RecordSent) else actor, "event": to_json(event)})
        return began

    def note(self, event: Event) -> None:
        super().note(event)
        self._say({"event": to_json(event)})

    def end(self, injected: int) -> None:
        """Report the number of injected faults, after all actors have left."""
        self._say({"injected": injected})

    def _say(self, line: dict[str, Any]) -> None:
        left = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        with self._saying:
            while left:
                left = left[os.write(1, left) :]


def main() -> None:
    """Run the actors of a task until the input ends."""
    faulthandler.enable()
    given = json.loads(sys.stdin.readline())
    task = WorkerTask(**{**given, "plan": Plan(**given["plan"])})

    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(task.url, extensions=extensions)

    faults = call_faults(f"{task.plan.seed}/{task.share}.{task.life}", (), legal=True)
    context = RunContext(Harness(connect=connect, extended=connect), task.plan, task.topic, [faults])
    context.recorder = reporter = PipeRecorder(task.plan.limit // task.of, task.origin)
    try:
        _act(context, task, connect)
    except Exception as error:
        what = f"a worker process failed with {type(error).__name__}: {error}"
        reporter.add(f"worker-{task.share}", UnexpectedError(what))
        raise
    reporter.end(len(faults.happened))


def _act(context: RunContext, task: WorkerTask, connect: Callable[[], Client]) -> None:
    """Let the actors of a task work until the input ends."""
    with _connected(connect) as client:  # keeps the store open
        able = client.capabilities
        actors = all_actors(context, planned_groups(able), able, task.life)[task.share :: task.of]
        threads = [Thread(target=context.perform, args=(actor,), name=actor.name, daemon=True) for actor in actors]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        context.end()
        for thread in threads:
            thread.join()


def _connected(connect: Callable[[], Client]) -> Client:
    """Connect as soon as the backend answers: a process may start while it is killed, paused or cut off."""
    deadline = Deadline(FIRST_CONNECT_S)
    while True:
        try:
            return connect()
        except Error:
            if deadline.expired:
                raise
        time.sleep(SESSION_RETRY_S)


PROCESS_COUNT: Final = 4
WORKERS_START_S: Final = 60.0  # for all processes to begin their work
WORKER_EXIT_S: Final = 90.0  # for a process to exit after its input ends
DUMP_S: Final = 5.0  # for one that does not exit to write what its threads do


class WorkerProcess:
    """A worker process, and the lines it reported."""

    def __init__(self, task: WorkerTask) -> None:
        self.task = task
        self.killed: int | None = None  # microseconds
        self._lines: list[str] = []
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(attrs.asdict(task)) + "\n")
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self._lines.append(line)

    @property
    def works(self) -> bool:
        """Whether it has reported anything, or is gone."""
        return bool(self._lines) or self.process.poll() is not None

    def kill(self, now: Callable[[], int]) -> None:
        """End it as ``kill -9`` does."""
        self.process.kill()
        self._gather()
        self.killed = now()

    def ask_to_leave(self) -> None:
        """Make its actors leave."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self, deadline: Deadline) -> bool:
        """Wait until it is gone. Return False if it had to be killed for that, or failed."""
        try:
            self.process.wait(deadline.remaining())
        except subprocess.TimeoutExpired:
            self._show_where_it_waits()
            self.process.kill()
        self._gather()
        return self.process.returncode == 0

    def _show_where_it_waits(self) -> None:
        """Have the process write what its threads do to the standard error, if it can."""
        self.process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(DUMP_S)

    def _gather(self) -> None:
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def report(self) -> tuple[list[Event], int]:
        """Return its events, and the number of injected faults if it reported one."""
        return parse_report(self._lines, self.killed)


def parse_report(lines: Iterable[str], killed: int | None) -> tuple[list[Event], int]:
    """Return the events in the lines of a process, killed at this time or not, and the number of its injected faults.

    A call that had begun when the process was killed has an unknown outcome, and its consumers count as closed.
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
        events += [
            *(attrs.evolve(event, ended=killed) for event in begun.values()),
            *_closed_by_the_kill(events, killed),
        ]
    return events, injected


def _closed_by_the_kill(events: Sequence[Event], killed: int) -> Iterator[Event]:
    """Yield the end of those consumers that were open."""
    left = {event.did.consumer for event in events if isinstance(event.did, ConsumerClosed)}
    for event in events:
        if isinstance(event.did, ConsumerOpened) and event.did.consumer not in left:
            yield Event(
                0, event.actor, killed, killed, ConsumerClosed(event.did.consumer), "unknown", "its process was killed"
            )


class WorkerProcesses:
    """All worker processes of a run. A killed one is replaced, under another name."""

    def __init__(self, context: RunContext, url: str) -> None:
        self._context = context
        self._host = context.harness.host
        faults = [] if self._host else backend_faults(context.harness, context.topic)
        self._faults = [each for each in faults if not each.alone]
        self._random = context.plan.lots(FAULT_LOTS)
        urls = [url, context.harness.process_behind_network or url]
        tasks = [
            WorkerTask(urls[share % 2], context.topic, context.plan, share, PROCESS_COUNT, 0, context.recorder.origin)
            for share in range(PROCESS_COUNT)
        ]
        self._running = [WorkerProcess(task) for task in tasks]
        self._killed: list[WorkerProcess] = []

    def perform(self) -> int:
        """Let them work for the seconds of the plan, and record their events. Return the number of injected faults."""
        seconds = self._context.plan.seconds
        # Clients of a server need time to reconnect, and the server to notice missing members.
        pace = self._context.plan.pace
        calm = (1.0, 4.0) if self._host else (0.1 * pace, 0.3 * pace)
        self._wait_until_all_work()
        deadline = Deadline(seconds)
        try:
            while not deadline.expired:
                self._context.sleep(deadline.remaining(self._random.uniform(*calm)))
                if not deadline.expired:
                    self._make_fault()
        finally:
            self._ask_all_to_leave()
        return self._record_events()

    def _wait_until_all_work(self) -> None:
        """Wait until each process works: on a busy machine some take as long to start as a short run lasts."""
        deadline = Deadline(WORKERS_START_S)
        while not all(worker.works for worker in self._running) and not deadline.expired:
            self._context.sleep(0.02)

    def _make_fault(self) -> None:
        if self._faults and self._random.random() < 0.5:
            FaultActor(self._context, self._faults).make(self._random.choice(self._faults))
        else:
            self._kill_or_stop()

    def _kill_or_stop(self) -> None:
        """Kill or stop one of the processes, or the process that hosts the backend."""
        random, recorder, harness = self._random, self._context.recorder, self._context.harness
        host, began = self._host() if self._host else None, recorder.now()
        mine = [worker for worker in self._running if worker.process.pid == host]
        what = "kill of a process"
        if host is not None and not mine and harness.kill and harness.start:
            harness.kill()
            harness.start()
            what = "kill of the host"
        else:
            worker = random.choice(mine if mine and random.random() < 0.5 else self._running)
            if worker.process.poll() is not None:
                recorder.add(
                    FAULT_ACTOR,
                    UnexpectedError(f"a worker process exited by itself with status {worker.process.returncode}"),
                )
            if random.random() < 0.25:
                self._stop(worker)
                what = "stop of a process"
            else:
                self._replace(worker)
        recorder.add(FAULT_ACTOR, BackendDisturbed(what), began)

    def _stop(self, worker: WorkerProcess) -> None:
        """Stop it for a while."""
        worker.process.send_signal(signal.SIGSTOP)
        self._context.sleep(self._random.uniform(0.1, 4.0))
        worker.process.send_signal(signal.SIGCONT)

    def _replace(self, worker: WorkerProcess) -> None:
        """Kill it, and start another in its place."""
        worker.kill(self._context.recorder.now)
        self._context.sleep(self._random.choice([0, 0, 0.5]))
        self._running.remove(worker)
        self._killed.append(worker)
        self._running.append(WorkerProcess(attrs.evolve(worker.task, life=worker.task.life + 1)))

    def _ask_all_to_leave(self) -> None:
        for worker in self._running:
            worker.ask_to_leave()
        deadline = Deadline(WORKER_EXIT_S)
        for worker in self._running:
            if not worker.end(deadline):
                what = f"a worker process failed, or did not exit in time: status {worker.process.returncode}"
                self._context.recorder.add(FAULT_ACTOR, UnexpectedError(what))

    def _record_events(self) -> int:
        """Record the events of all processes, in the order in which they ended."""
        recorder, total = self._context.recorder, 0
        events = recorder.events
        for worker in (*self._killed, *self._running):
            ended, injected = worker.report()
            events += ended
            total += injected
        events.sort(key=lambda event: event.ended)
        events[:] = (attrs.evolve(event, number=number) for number, event in enumerate(events))
        return total
