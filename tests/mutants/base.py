"""The memory backend as an object whose parts can be replaced."""

from __future__ import annotations

import inspect
from functools import partial

import attrs

import mqplug
from mqplug import (
    Position,
    Record,
    memory,
)
from mqplug.spi import (
    Batch,
    Capabilities,
    ListColumns,
    hookimpl,
)

KINDS: dict[str, type[Mutant]] = {}
"""All backends that are made from this one, by name."""

COLUMNS = ("coordinates", "values", "keys", "headers", "timestamps", "log_times")


class Proxy:
    """Another object, except for what a subclass overrides."""

    def __init__(self, inner, mutant):
        self.inner = inner
        self.mutant = mutant

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Mutant:
    """The memory backend as a plugin object whose parts can be replaced. This one is sound."""

    case: str  # the case for which it was made
    scale = 1.0  # the factor for the waits that cases do themselves
    sound: type[Mutant]  # the same without the defect
    patches: tuple[tuple[object, str, object], ...] = ()  # of the core: (object, attribute, replacement)
    Connection = Consumer = Producer = Proxy

    def __init_subclass__(cls):
        for place, name, _ in cls.patches:
            if not hasattr(place, name) and f"self.{name} = " not in inspect.getsource(place):
                raise AttributeError(f"{cls.__name__} patches {name}, which {place} does not have")
        if KINDS.setdefault(cls.__name__, cls) is not cls:
            raise TypeError(f"there are two mutants {cls.__name__}")

    def __init__(self, name):
        self.name = name
        self.consumers = []

    @hookimpl
    def mqplug_describe(self):
        sound = memory.mqplug_describe()
        return attrs.evolve(sound, name=self.name, capabilities=self.capabilities(sound.capabilities))

    @hookimpl
    def mqplug_connect(self, settings):
        inner = memory.mqplug_connect(settings)
        inner.capabilities = self.capabilities(inner.capabilities)
        return self.Connection(inner, self)

    @hookimpl
    def mqplug_open_producer(self, connection, options):
        return self.Producer(memory.mqplug_open_producer(connection, options), self)

    @hookimpl
    def mqplug_open_consumer(self, connection, options, listener):
        inner = self.open(connection, options, listener)
        self.consumers.append(inner)
        return self.Consumer(inner, self)

    @hookimpl
    def mqplug_open_stage(self, connection, topic):
        return memory.mqplug_open_stage(connection, topic)

    @hookimpl
    def mqplug_open_transactions(self, connection, options):
        return memory.mqplug_open_transactions(connection, options)

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        return {log: self.start(start, each) for log, each in connection.resolve(start, logs).items()}

    @hookimpl
    def mqplug_move_group(self, connection, group, positions):
        return memory.mqplug_move_group(connection, group, positions)

    @hookimpl
    def mqplug_watermarks(self, connection, logs, since):
        return {log: self.marks(each) for log, each in connection.watermarks(logs, self.since(since or {})).items()}

    @hookimpl
    def mqplug_bounds(self, connection, logs):
        return {log: self.bounds(each) for log, each in connection.bounds(logs).items()}

    @hookimpl
    def mqplug_administer(self, connection, action):
        return self.administer(connection, action)

    def hooks(self, connect):
        """Return the hooks of the harness besides connecting."""
        intruder = partial(mqplug.connect, self.name, name="intruder")
        return {
            "restart": lambda: None, "enforce": lambda client, topic: None, "codecs": {"none": connect},
            "intruder": lambda timeout: intruder(timeout=timeout),
            "extended": lambda extensions: connect(extensions=extensions),
        }  # fmt: skip

    def capabilities(self, sound: Capabilities) -> Capabilities:
        return sound

    def open(self, connection, options, listener):
        return memory.mqplug_open_consumer(connection, options, listener)

    def start(self, start, position):
        return position

    def since(self, positions):
        return positions

    def marks(self, marks):
        return marks

    def bounds(self, bounds):
        return bounds

    def administer(self, connection, action):
        return memory.mqplug_administer(connection, action)


Mutant.sound = Mutant
KINDS["Mutant"] = Mutant


def moved(position: Position, by: int) -> Position:
    """Return a position this many messages later."""
    return Position(position.log, (position.coordinates[0] + by,))


def rebuilt(batch: Batch, **columns) -> Batch:
    """Return a batch with some of its columns replaced."""
    made = [list(columns.get(name, getattr(batch, name))) for name in COLUMNS]
    sound = batch._columns
    kept = (sound.details(), sound.attempts()) if len(made[0]) == len(batch) else ()
    return Batch(batch.log, batch.next_position, len(made[0]), ListColumns(*made, *kept))


class Reading(Proxy):
    """A consumer whose batches are changed on their way."""

    def poll(self, most, timeout):
        return [self.change(batch) for batch in self.inner.poll(most, timeout)]


class Sender(Proxy):
    """A producer that takes records one by one, even if it could take columns."""

    def send_run(self, run):
        self.send(run.sendings())


class Sending(Sender):
    """A producer whose records are changed on their way."""

    def send(self, sendings):
        for sending in sendings:
            changed = self.change(Record(sending.value, sending.key, sending.headers, sending.timestamp))
            sending.value, sending.key = changed.value, changed.key
            sending.headers, sending.timestamp = changed.headers, changed.timestamp
        self.inner.send(sendings)
