"""Debug mode: a driver of any backend that breaks a rule gets an error that names the rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from memory_drivers import Seam, Sent, through

import mqplug
from mqplug import Log, PluginError, Position, PositionLost, Watermarks
from mqplug.spi import Batch, GroupPosition, hookimpl
from mqplug.spi.proxies import (
    ConnectionProxy,
    ConsumerProxy,
    ListenerProxy,
    ProducerProxy,
    SendingProxy,
    TransactionProxy,
)
from mqplug_testing.debug import Debug, Rules


class Broken:
    """An extension that replaces the drivers and answers of the memory backend."""

    def __init__(self, **made: Callable[..., Any]) -> None:
        self.made = made

    def _make(self, what: str, answer: Any) -> Any:
        return self.made[what](answer) if what in self.made else answer

    @hookimpl(wrapper=True)
    def mqplug_connect(self):
        return self._make("connection", (yield))

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self):
        return self._make("producer", (yield))

    @hookimpl(wrapper=True)
    def mqplug_open_transactions(self):
        return self._make("transactions", (yield))

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self, listener):
        if "listener" in self.made:
            listener.insert(self.made["listener"])
        consumer = self._make("consumer", (yield))
        consumer.listener = listener
        return consumer

    @hookimpl(wrapper=True)
    def mqplug_resolve_start(self):
        return self._make("resolved", (yield))

    @hookimpl(wrapper=True)
    def mqplug_watermarks(self):
        return self._make("watermarks", (yield))

    @hookimpl(wrapper=True)
    def mqplug_bounds(self):
        return self._make("bounds", (yield))


# the drivers -----------------------------------------------------------------------------------------------


class StoredTwice(SendingProxy):
    def stored(self, log, coordinates, detail=()):
        super().stored(log, coordinates, detail)
        super().stored(log, coordinates, detail)


class StoredElsewhere(SendingProxy):
    def stored(self, log, coordinates, detail=()):
        super().stored(Log(log.backend, log.cluster, log.topic, 7, log.incarnation), coordinates, detail)


class StoredBackwards(SendingProxy):
    def stored(self, log, coordinates, detail=()):
        super().stored(log, (100 - coordinates[0],), detail)


def settling(kind: type[SendingProxy]) -> type[ProducerProxy]:
    """Return a producer proxy that settles in this way."""

    class Settling(ProducerProxy):
        def send(self, sendings):
            self.inner.send([kind(each) for each in sendings])

    return Settling


class NeverStored(ProducerProxy):
    stores_at_once = True

    def store(self, sending):
        """Do nothing."""


class RunTwice(ProducerProxy):
    def send_run(self, run):
        super().send_run(run)
        run.failed(mqplug.SendFailed("no"))


def polling(change: Callable[[Batch], Batch]) -> type[ConsumerProxy]:
    """Return a consumer proxy that changes its batches in this way."""

    class Polling(ConsumerProxy):
        def poll(self, most, timeout):
            return [change(batch) if len(batch) else batch for batch in self.inner.poll(most, timeout)]

    return Polling


class Greedy(ConsumerProxy):
    def poll(self, most, timeout):
        return self.inner.poll(most + 1, timeout)


class Unpaused(ConsumerProxy):
    def pause(self, logs):
        """Do nothing."""


class Unmoved(ConsumerProxy):
    def seek(self, positions, timeout):
        """Do nothing."""


class LostSomewhere(ConsumerProxy):
    def poll(self, most, timeout):
        raise PositionLost("it was removed")


class Wavering(ConsumerProxy):
    asked = 0

    @property
    def still_holds(self):
        return self._hold

    def _hold(self):
        self.asked += 1
        return self.asked > 1


class Talkative(ConsumerProxy):
    def poll(self, most, timeout):
        self.listener.assigned({})
        return self.inner.poll(most, timeout)


class Late(ConsumerProxy):
    def commit(self, positions, timeout):
        self.listener.lost(list(positions))


class ForgetsRecords(TransactionProxy):
    def send(self, sendings):
        """Drop the records."""


class Silent(ListenerProxy):
    def assigned(self, positions):
        """Drop the assignment."""


class Repeating(ListenerProxy):
    def assigned(self, positions):
        super().assigned(positions)
        super().assigned(positions)


class Untidy(ListenerProxy):
    def assigned(self, positions):
        super().assigned({log: GroupPosition(each.position, (((5,), (4,)),)) for log, each in positions.items()})


class RefusesAll(ConnectionProxy):
    def is_possible(self, coordinates):
        return False


class TakesAll(ConnectionProxy):
    def is_possible(self, coordinates):
        return True


class Beside(ConnectionProxy):
    def after(self, message_id):
        return Position(message_id.log, message_id.coordinates)


class Backward(ConnectionProxy):
    def advance(self, position, count):
        return Position(position.log, (position.coordinates[0] - count,))


class Restless(ConnectionProxy):
    def advance(self, position, count):
        return Position(position.log, (position.coordinates[0] + count + 1,))


class LessThanNone(ConnectionProxy):
    def distance(self, start, until):
        return start.coordinates[0] - until.coordinates[0]


# calls of the user -----------------------------------------------------------------------------------------


def sends(mq):
    """Send two records."""
    with mq.producer("orders") as out:
        out.send(b"4")
        out.send(b"5")


def sends_many(mq):
    """Send two records together, and one."""
    with mq.producer("orders") as out:
        out.send_many([b"4", b"5"])
        out.send(b"6")


def reads(mq):
    """Read without a group."""
    with mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        orders.receive(5)
        orders.receive(5)


def joins(mq):
    """Read and ack as a member."""
    with mq.consumer("orders", group="g", start=mqplug.EARLIEST) as orders:
        orders.ack(orders.receive(5))
        orders.commit()


def shares(mq):
    """Read as a member in shared mode."""
    with mq.consumer("orders", group="g", mode="shared", start=mqplug.EARLIEST) as orders:
        orders.receive(5)


def pauses(mq):
    """Pause everything, and receive."""
    with mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        orders.pause()
        orders.receive(0.3)


def seeks(mq):
    """Seek to the last message, and receive it."""
    with mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        orders.seek(mqplug.last(1))
        orders.receive(5)


def seeks_behind(mq):
    """Seek past a received message."""
    with mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        orders.seek(mqplug.after(orders.receive(5).id))


def steps(mq):
    """Commit a transaction of two records and a batch, and abort one."""
    with mq.transaction("biller", "orders") as step:
        step.send(b"4")
        step.send(b"5")
        step.send_many([b"6", b"7"])
    mq.transaction("biller", "orders").abort()


def looks(mq):
    """Read the topic's watermarks and bounds."""
    mq.watermarks("orders")
    mq.bounds("orders")


def advances(mq):
    """Move a position, and count between positions."""
    high = mq.watermarks("orders")[0].high
    mq.advance(high, 0)
    mq.distance(high, mq.advance(high, 2))


def swapped(found):
    """Swap low and high."""
    return {log: attrs.evolve(each, low=each.high, high=each.low) for log, each in found.items()}


BREACHES = [
    ("settled-once", sends, {"producer": settling(StoredTwice)}),
    ("settled-once", sends, {"producer": NeverStored}),
    ("settled-once", sends_many, {"producer": RunTwice}),
    ("stored-log", sends, {"producer": settling(StoredElsewhere)}),
    ("ascending", sends, {"producer": settling(StoredBackwards)}),
    ("ascending", reads, {"consumer": polling(lambda batch: batch.take([0, 2, 1], batch.next_position))}),
    ("most", shares, {"consumer": Greedy}),
    ("next-position", reads, {"consumer": polling(lambda batch: batch.ending_at(Position(batch.log, (1,))))}),
    ("delivers-held", joins, {"listener": Silent}),
    ("paused", pauses, {"consumer": Unpaused}),
    ("after-seek", seeks, {"consumer": Unmoved}),
    ("position-lost", reads, {"consumer": LostSomewhere}),
    ("attempts", shares, {"consumer": polling(lambda batch: batch.with_attempts([0] * len(batch)))}),
    ("still-holds", joins, {"consumer": Wavering}),
    ("assigned-once", joins, {"listener": Repeating}),
    ("listener", reads, {"consumer": Talkative}),
    ("listener", joins, {"consumer": Late}),
    ("acked-ranges", joins, {"listener": Untidy}),
    ("possible", sends, {"connection": RefusesAll}),
    ("possible", sends, {"connection": TakesAll}),
    ("behind", seeks_behind, {"connection": Beside}),
    ("further", advances, {"connection": Backward}),
    ("further", advances, {"connection": Restless}),
    ("further", advances, {"connection": LessThanNone}),
    ("settled-by-end", steps, {"transactions": ForgetsRecords}),
    ("answers", looks, {"watermarks": swapped}),
    ("answers", looks, {"bounds": lambda found: {}}),
    ("answers", seeks, {"resolved": lambda found: dict.fromkeys(found, Watermarks)}),
]
IDS = [f"{rule}-{number}" for number, (rule, _, _) in enumerate(BREACHES)]


@pytest.fixture
def stored():
    """The name of a store with a topic of three messages."""
    with mqplug.connect("memory", name="watched") as mq:
        with mq.producer("orders", create=True) as out:
            out.send_many([b"1", b"2", b"3"])
        yield "watched"


@pytest.mark.parametrize(("rule", "story", "made"), BREACHES, ids=IDS)
def test_a_driver_that_breaks_a_rule_is_told_which(stored, rule, story, made):
    """The user's call raises a PluginError that names the rule and the page, and the watcher keeps it."""
    mq = mqplug.connect("memory", name=stored, extensions=[Debug(), Broken(**made)])
    rules = mq.unwrap(Rules)
    with pytest.raises(mqplug.Error) as caught, mq:
        story(mq)
    raised = chain(caught.value)
    assert any(f"driver rule '{rule}'" in str(each) for each in raised if isinstance(each, PluginError)), raised
    assert any("driver-rules" in str(each) for each in raised)
    assert any(text.startswith(f"driver rule '{rule}'") for text in rules.broken)


def test_every_promise_of_a_driver_is_proven():
    """Each driver rule on the page is broken once here, and no other."""
    page = (Path(__file__).parents[2] / "docs/driver-rules.md").read_text()
    named = re.findall(
        r"\| `([a-z-]+)` \|$", page.partition("## What a driver promises\n")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert {rule for rule, _, _ in BREACHES} == set(named)


@pytest.mark.parametrize(
    "story", [sends, sends_many, steps, reads, joins, shares, pauses, seeks, seeks_behind, looks, advances]
)
def test_a_sound_driver_is_told_nothing(stored, story):
    """The same calls over the unchanged memory backend break no rule."""
    with mqplug.connect("memory", name=stored, extensions=[Debug(), Broken()]) as mq:
        rules = mq.unwrap(Rules)
        story(mq)
    assert rules.broken == []


def chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and its causes."""
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


# how debug mode is turned on ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        ("memory://?debug=true", {}),
        ("memory", {"debug": True}),
        ({"backend": "memory", "memory": {"debug": True}}, {}),
    ],
)
def test_any_connection_can_be_watched(target, settings):
    """``debug`` may stand in the URL, among the keywords, or in the section of a backend."""
    with mqplug.connect(target, **settings) as mq:
        assert mq.unwrap(Rules).broken == []


@pytest.mark.parametrize("target", ["memory", "memory://?debug=false"])
def test_nothing_is_watched_unless_it_is_asked_for(target):
    """Without debug, and with debug=false, the drivers are the backend's own."""
    with mqplug.connect(target) as mq:
        assert mq.unwrap(Rules) is None


def test_debug_is_yes_or_no():
    """A value of debug that is no bool raises a ConfigError that names the setting."""
    with pytest.raises(mqplug.ConfigError, match="debug"):
        mqplug.connect("memory://?debug=loud")


def test_the_error_names_the_backend(stored):
    """A broken rule is reported as the backend's, and not as an extension's."""
    with mqplug.connect("memory", name=stored, extensions=[Debug(), Broken(consumer=LostSomewhere)]) as mq:
        orders = mq.consumer("orders", start=mqplug.EARLIEST)
        with pytest.raises(PluginError) as caught:
            orders.receive(1)
        assert (caught.value.backend, caught.value.operation) == ("memory", "receive")


# optional members of a driver -------------------------------------------------------------------------------


class Storing(ProducerProxy):
    """A driver that stores at once."""

    stores_at_once = True

    def __init__(self) -> None:
        """Set no inner driver."""

    def store(self, sending):
        sending.stored(Log("memory", "c", "orders", 0), (0,))


class Offering(ConsumerProxy):
    """A driver that knows whether it still holds its logs."""

    @property
    def still_holds(self):
        return lambda: True


def test_what_a_driver_has_beside_is_kept():
    """A watched driver stores at once and detects its losses exactly if the driver does."""
    seam, sent = Seam(debug=True), Sent("orders", 0, b"x")
    watched: Any = through(Debug().mqplug_open_producer(seam.connection), Storing())
    watched.store(sent)
    assert sent.outcome == (0,)
    assert watched.stores_at_once
    assert not seam.producer.stores_at_once
    reader = seam.reader()
    assert reader.still_holds is None
    reader.inner = Offering(reader.inner)
    assert reader.still_holds()
