"""A backend that overrides only the required members: four calls of its drivers, with defaults for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pytest

import mqplug
from mqplug import Log, MessageId, Position, spi
from mqplug.spi import hookimpl

LOG = Log("least", "here", "notes", 0)


class Notebook(spi.Connection):
    """A list of values."""

    capabilities = spi.Capabilities(null_payload=True)

    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def after(self, message_id: MessageId) -> Position:
        return Position(message_id.log, (message_id.coordinates[0] + 1,))

    def health(self, timeout: float) -> None:
        """Do nothing: a list always answers."""


class Producer(spi.ProducerDriver):
    """A producer driver that appends to the list."""

    def __init__(self, notebook: Notebook) -> None:
        self._values = notebook.values

    def send(self, sendings: Sequence[spi.Sending]) -> None:
        for sending in sendings:
            self._values.append(sending.value)
            sending.stored(LOG, (len(self._values) - 1,))


class Consumer(spi.ConsumerDriver):
    """A consumer driver that reads the list from its beginning."""

    def __init__(self, notebook: Notebook) -> None:
        self._values, self._next = notebook.values, 0

    def poll(self, most: int, timeout: float) -> list[spi.Batch]:
        values = self._values[self._next : self._next + most]
        first, self._next = self._next, self._next + len(values)
        size, places = len(values), [(place,) for place in range(first, self._next)]
        columns = spi.ListColumns(places, values, [None] * size, [()] * size, [0] * size, [0] * size)
        return [spi.Batch(LOG, Position(LOG, (self._next,)), size, columns)] if values else []


class Beside:
    """An object that looks like a consumer driver, and is not derived from one."""

    def poll(self, most: int, timeout: float) -> list[spi.Batch]:
        return []

    def close(self, timeout: float) -> None:
        """Do nothing: a list holds no resources."""


@attrs.frozen
class Settings:
    """A settings class without settings."""


class Backend:
    """The hooks."""

    consumer: Any = Consumer

    @hookimpl
    def mqplug_describe(self) -> spi.Descriptor:
        return spi.Descriptor(
            name="least", settings=Settings, capabilities=Notebook.capabilities, from_url=lambda url: {}
        )

    @hookimpl
    def mqplug_connect(self) -> spi.Connection:
        return Notebook()

    @hookimpl
    def mqplug_administer(self, action: spi.Action) -> Any:
        return spi.TopicInfo("notes", (LOG,)) if isinstance(action, spi.DescribeTopic) else None

    @hookimpl
    def mqplug_open_producer(self, connection: Notebook) -> spi.ProducerDriver:
        return Producer(connection)

    @hookimpl
    def mqplug_open_consumer(self, connection: Notebook) -> Any:
        return self.consumer(connection)

    @hookimpl
    def mqplug_resolve_start(self, logs: Sequence[Log]) -> Mapping[Log, Position]:
        return {log: Position(log, (0,)) for log in logs}


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of the backend."""
    registration = mqplug.register("least", Backend())
    with mqplug.connect("least") as client:
        yield client
    registration.undo()


def test_four_calls_send_and_read(mq: mqplug.Client) -> None:
    """Single records, batches, collected records and reading work with every default."""
    with mq.producer("notes") as out:
        out.send(b"1")
        out.send_many([b"2", b"3"])
        out.submit(b"4").result(timeout=5)
        out.flush()
    with mq.consumer("notes", start=mqplug.EARLIEST) as reader:
        assert [each.value for each in reader.receive_many(10, timeout=5)] == [b"1", b"2", b"3", b"4"]
    mq.health()
    assert mq.unwrap(list) is None


def test_a_missing_method_is_named(mq: mqplug.Client) -> None:
    """A seek that the driver lacks is a PluginError, and a missing capability is Unsupported."""
    with mq.consumer("notes", start=mqplug.EARLIEST) as reader:
        with pytest.raises(mqplug.PluginError, match="Consumer has no seek"):
            reader.seek(mqplug.EARLIEST)
        with pytest.raises(mqplug.PluginError, match="Consumer has no pause"):
            reader.pause()
    with pytest.raises(mqplug.Unsupported):
        mq.consumer("notes", group="billing")


@pytest.mark.parametrize("method", ["commit", "settle", "follow", "membership"])
def test_a_default_of_a_capability_is_unsupported(method: str) -> None:
    """A member that a capability requires raises Unsupported until it is overridden."""
    consumer, notebook = Consumer(Notebook()), Notebook()
    arguments: dict[str, Any] = {"membership": (), "follow": (None, 1.0)}
    with pytest.raises(mqplug.Unsupported):
        getattr(consumer, method)(*arguments.get(method, ({}, 1.0)))
    with pytest.raises(mqplug.Unsupported):
        notebook.owns(LOG)


def test_a_gap_is_passed_by_a_seek_unless_overridden() -> None:
    """The default of pass_over seeks past the gap."""

    class Seeking(Consumer):
        def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
            self._next = positions[LOG].coordinates[0]

    consumer = Seeking(Notebook())
    consumer.pass_over({LOG: Position(LOG, (7,))}, 1.0)
    assert consumer._next == 7


def test_an_object_that_is_not_derived_needs_every_member(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object without the base class is refused; the error names missing members, and the class to derive from."""
    monkeypatch.setattr(Backend, "consumer", lambda self, connection: Beside())
    with pytest.raises(mqplug.PluginError, match=r"Beside has no commit, follow, .*wake") as caught:
        mq.consumer("notes", start=mqplug.EARLIEST).receive(timeout=1)
    assert "mqplug.spi.ConsumerDriver" in (caught.value.fix or "")
