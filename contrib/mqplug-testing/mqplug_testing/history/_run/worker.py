"""A process in which some of the actors of a run work; it may be killed at any moment.

It reads its task from a line of JSON, and writes a line when a call begins, and one when it has ended. It exits when
its input ends.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Any, Final

import attrs

import mqplug
from mqplug import Client, Error
from mqplug.spi import Deadline
from mqplug_testing._harness.harness import Harness
from mqplug_testing.history._actors.actors import all_actors, planned_groups
from mqplug_testing.history._actors.faults import call_faults
from mqplug_testing.history._actors.plan import Plan
from mqplug_testing.history._actors.run_context import SESSION_RETRY_S, RunContext
from mqplug_testing.history._events.events import Event, RecordSent, RunAction, UnexpectedError
from mqplug_testing.history._events.history import to_json
from mqplug_testing.history._events.recorder import HistoryRecorder

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
