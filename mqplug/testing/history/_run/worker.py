"""A process in which some of the actors of a run work; it may be killed at any moment.

It is told its part in a line of JSON, and writes a line for what begins, and one for what has ended. It goes when its
input ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from threading import Lock, Thread
from typing import Any

import attrs

import mqplug
from mqplug import Client
from mqplug.testing._harness.harness import Harness
from mqplug.testing.history._actors.actors import all_actors, planned_groups
from mqplug.testing.history._actors.faults import call_faults
from mqplug.testing.history._actors.plan import Plan
from mqplug.testing.history._actors.run_context import RunContext
from mqplug.testing.history._events.events import Event, RecordSent, RunAction
from mqplug.testing.history._events.history import to_json
from mqplug.testing.history._events.recorder import HistoryRecorder


@attrs.frozen
class WorkerTask:
    """What a process is to do: those actors whose number leaves ``share`` when divided by ``of``.

    ``life`` tells it from those of the same share before it, ``origin`` is when the run began.
    """

    url: str
    topic: str
    plan: Plan
    share: int
    of: int
    life: int
    origin: int


class PipeRecorder(HistoryRecorder):
    """Says at once what happens: what was said is known, whatever becomes of this process."""

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
        """All actors have left."""
        self._say({"injected": injected})

    def _say(self, line: dict[str, Any]) -> None:
        left = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        with self._saying:
            while left:
                left = left[os.write(1, left) :]


def main() -> None:
    """Play a part until the input ends."""
    told = json.loads(sys.stdin.readline())
    part = WorkerTask(**{**told, "plan": Plan(**told["plan"])})

    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(part.url, extensions=extensions)

    faults = call_faults(f"{part.plan.seed}/{part.share}.{part.life}", (), legal=True)
    stage = RunContext(Harness(connect=connect, extended=connect), part.plan, part.topic, [faults])
    stage.recorder = reporter = PipeRecorder(part.plan.limit // part.of, part.origin)
    with connect() as client:  # it stays in the store, as a guest or as its owner
        able = client.capabilities
        actors = all_actors(stage, planned_groups(able), able, part.life)[part.share :: part.of]
        threads = [Thread(target=stage.perform, args=(actor,), name=actor.name, daemon=True) for actor in actors]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stage.end()
        for thread in threads:
            thread.join()
    reporter.end(len(faults.happened))
