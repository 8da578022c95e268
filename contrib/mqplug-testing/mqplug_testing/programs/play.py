"""One run of a program: the objects that its names stand for, and the model that judges each call.

A step is Python text, which is evaluated: the program that is printed is the one that ran.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

import mqplug
from mqplug import Client, Consumer, Log, Message, MessageId, Position
from mqplug_testing.model import LogTimes, Outcome, World
from mqplug_testing.model.topics import Topic

CLIENTS: Final = ("mq", "other")
PLACES: Final = {
    "t1": "t", "t2": "t2", "t3": "t" * 232 + "3", "t4": "t" * 232 + "4", "g1": "g", "g2": "g2", "g3": "G",
    "g4": "shared", "g5": "key", "g6": "exclusive", "n1": "n", "n2": "n2", "w1": "w", "w2": "w2",
}  # fmt: skip
"""The ends of the names of topics, groups, transactions and writers.

One is the beginning of the other, or differs in case; two have 249 characters, and differ in the last.
"""


@attrs.frozen
class Statement:
    """A line of a program: an expression, and the names that get its value."""

    code: str
    names: tuple[str, ...] = ()
    many: bool = False  # whether the value is a sequence with one for each name

    def __str__(self) -> str:
        if not self.names:
            return self.code
        names = f"[{', '.join(self.names)}]" if self.many else self.names[0]
        return f"{names} = {self.code}"


@attrs.define
class Line:
    """A statement that was executed, with its outcome."""

    statement: Statement
    outcome: Outcome


class Play:
    """The state of a running program."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        log_times: LogTimes,
        *,
        patience: float,
        hooks: Mapping[str, Callable[[], object]],
    ) -> None:
        self.world = World(clients["mq"].capabilities, log_times)
        self.patience = patience
        self.names: dict[str, Any] = {"mqplug": mqplug, "pickle": pickle, "time": time, **clients, **hooks}
        self.lines: list[Line] = []
        self.hands: dict[tuple[str, MessageId], str] = {}
        self.prefix = f"random-{uuid.uuid4().hex[:8]}-"  # of all names of this program
        self._events: list[tuple[str, str, list[Log]]] = []
        self._owners: dict[str, str] = {}  # by name of a consumer, producer or stage: its client
        self._received = 0
        self._lock = threading.Lock()

    @property
    def able(self) -> mqplug.Capabilities:
        """The capabilities of the backend."""
        return self.world.able

    def name(self, short: str) -> str:
        """Return the name of a topic or a group, which no other program uses, and define it for the program."""
        self.names.setdefault(short, self.prefix + PLACES[short])
        return str(self.names[short])

    def has(self, names: Iterable[str]) -> bool:
        """Return whether all of these names, such as ``m1`` or ``x1[0]``, have a value."""
        for name in names:
            of, _, partition = name.partition("[")
            if of not in self.names or (partition and int(partition[:-1]) not in self.names[of]):
                return False
        return True

    def owner(self, name: str) -> str:
        """Return the client that opened a consumer."""
        return self._owners[name]

    def opened_by(self, client: str) -> list[str]:
        """Return the names of what a client has open."""
        return [name for name, owner in self._owners.items() if owner == client and name in self.names]

    @property
    def clients(self) -> dict[str, Client]:
        """The open clients."""
        return {name: self.names[name] for name in CLIENTS}

    def forget_old(self, topic: Topic) -> None:
        """Forget the ids and positions of a deleted topic, if the new one may have the same."""
        logs = {each.log for each in topic.logs if not each.log.incarnation}
        for name, value in list(self.names.items()):
            places = value.values() if isinstance(value, dict) and name[0] == "x" else [value]
            if any(isinstance(place, MessageId | Position) and place.log in logs for place in places):
                del self.names[name]

    # executing ---------------------------------------------------------------------------------------------

    def execute(self, statement: Statement) -> Outcome:
        """Evaluate a statement, and bind its names if it succeeds. Errors of the backend are outcomes."""
        code = compile(statement.code, "<program>", "eval")
        try:
            value = eval(code, self.names)
            values = list(value) if statement.many else [value]
        except Exception as error:  # noqa: BLE001 - the model decides which errors are legal
            outcome = Outcome(error=error)
        else:
            outcome = Outcome(value)
            self.names.update(zip(statement.names, values, strict=False))
            if (client := statement.code.partition(".")[0]) in CLIENTS:
                self._owners.update(dict.fromkeys(statement.names, client))
        self.lines.append(Line(statement, outcome))
        return outcome

    def now(self) -> float:
        """Return the time by which delays are judged."""
        return time.monotonic()

    # members -----------------------------------------------------------------------------------------------

    def listeners(self, consumer: str) -> str:
        """Return the arguments with which a member reports its hand-overs, if the backend does."""
        if not self.able.assignment_events:
            return ""
        self.names[f"{consumer}_gets"] = self._noting(consumer, "assigned")
        self.names[f"{consumer}_gives"] = self._noting(consumer, "revoked")
        return f", on_assigned={consumer}_gets, on_revoked={consumer}_gives"

    def _noting(self, consumer: str, kind: str) -> Callable[[Sequence[Log]], None]:
        def note(logs: Sequence[Log]) -> None:
            with self._lock:
                self._events.append((kind, consumer, list(logs)))

        return note

    def settle(self) -> None:
        """Tell the model of the hand-overs since the last call."""
        with self._lock:
            events, self._events = self._events, []
        if not self.able.assignment_events:
            events = list(self._changes())
        for kind, consumer, logs in events:
            if consumer in self.world.consumers.open:
                getattr(self.world.consumers, kind)(consumer, logs)

    def _changes(self) -> Iterator[tuple[str, str, list[Log]]]:
        """Yield the hand-overs of members whose backend does not report them."""
        for model in self.world.consumers.open.values():
            if model.group is not None:
                held = self.names[model.name].assignment()
                yield "revoked", model.name, [log for log in model.readings if log not in held]
                yield "assigned", model.name, [log for log in held if log not in model.readings]

    # messages ----------------------------------------------------------------------------------------------

    def next_received(self) -> str:
        """Return a name for what the next receive returns."""
        self._received += 1
        return f"r{self._received}"

    def note(self, consumer: str, messages: Iterable[Message], code: str) -> None:
        """Remember how the program reaches the messages that a consumer was given: by this text, with their index."""
        for index, message in enumerate(messages):
            self.hands[consumer, message.id] = code.format(index)

    # ending ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close what the program left open, and delete its topics."""
        for name in list(self.names):
            if isinstance(self.names[name], Consumer | mqplug.Producer):
                with suppress(Exception):
                    self.names[name].close(5)
        client: Client = self.names["mq"]
        if self.able.delete_topic:
            for topic in self.world.topics.current:
                if self.world.topics.exists(topic):
                    with suppress(Exception):
                        client.delete_topic(self.names[topic], timeout=10)
        if self.able.durable_groups:
            for group in [*self.world.groups.stored, *self.world.sharing.groups]:
                with suppress(Exception):
                    client.delete_group(self.names[group], timeout=10)
