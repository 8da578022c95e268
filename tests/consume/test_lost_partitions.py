"""A member that loses its logs delivers nothing more, if its driver detects the loss without a poll."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import mqplug
import mqplug.aio
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ConsumerProxy


class Shaken(ConsumerProxy):
    """A member whose hold on its logs the test controls."""

    def __init__(self, inner: Any, membership: Membership) -> None:
        super().__init__(inner)
        self.membership = membership

    @property
    def still_holds(self) -> Callable[[], bool]:
        return lambda: self.membership.holds

    def poll(self, most: int, timeout: float) -> Any:
        if self.membership.holds:
            return self.inner.poll(most, timeout)
        self.membership.asked.set()
        return ()


class Membership:
    """An extension that makes every member's driver query it. ``asked`` is set by a poll after the loss."""

    def __init__(self) -> None:
        self.holds = True
        self.asked = threading.Event()

    def stop_when_asked(self, orders: mqplug.Consumer) -> None:
        """End the iteration of a consumer as soon as it has no deliverable message in hand."""
        threading.Thread(target=lambda: self.asked.wait(30) and orders.stop()).start()

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self) -> Generator[None, Any, Any]:
        return Shaken((yield), self)


Receive = Callable[[mqplug.Consumer], object]
WAYS: dict[str, Receive] = {
    "receive": lambda orders: orders.receive(0.2),
    "receive_many": lambda orders: orders.receive_many(10, 0.2) or None,
}


@pytest.fixture
def membership() -> Membership:
    """A membership that holds until a test ends it."""
    return Membership()


@contextmanager
def connected(extension: Any) -> Iterator[mqplug.Client]:
    """Connect a client with this extension and a few messages."""
    with mqplug.connect("memory", extensions=[extension]) as client:
        client.create_topic("orders")
        with client.producer("orders") as out:
            out.send_many([b"%d" % number for number in range(9)])
        yield client


@pytest.fixture
def mq(membership: Membership) -> Iterator[mqplug.Client]:
    """A client with a few messages."""
    with connected(membership) as client:
        yield client


def left(mq: mqplug.Client) -> list[bytes | None]:
    """Return the messages that the group's next member gets."""
    with mq.consumer("orders", group="g") as heir:
        return [message.value for message in heir.receive_many(10, 5)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("auto_ack", [False, True])
def test_what_is_in_hand_stays_there(mq: mqplug.Client, membership: Membership, way: str, auto_ack: bool) -> None:
    """Once its logs are lost a member delivers none of the messages in hand, and acks none of them."""
    with mq.consumer("orders", group="g", auto_ack=auto_ack) as orders:
        assert orders.receive(5).value == b"0"  # type: ignore[union-attr]
        membership.holds = False
        assert WAYS[way](orders) is None
        assert orders.position()[0].coordinates == (1,)
    membership.holds = True
    assert left(mq)[0] == (b"1" if auto_ack else b"0")


def test_iteration_ends_in_the_midst_of_a_batch(mq: mqplug.Client, membership: Membership) -> None:
    """An iteration checks its membership before each message, and not once for the whole batch."""
    with mq.consumer("orders", group="g", auto_ack=True) as orders:
        membership.stop_when_asked(orders)
        seen = []
        for message in orders:
            seen.append(message.value)
            membership.holds = len(seen) < 3
    assert seen == [b"0", b"1", b"2"]
    membership.holds = True
    assert left(mq)[0] == b"3"


def test_what_was_given_back(mq: mqplug.Client, membership: Membership) -> None:
    """A nacked message that is due again is not delivered either."""
    with mq.consumer("orders", group="g") as orders:
        first = orders.receive(5)
        assert first is not None
        orders.nack(first, delay=0)
        membership.holds = False
        assert orders.receive(0.2) is None
        membership.holds = True


def test_run_asks_before_each_message(mq: mqplug.Client, membership: Membership) -> None:
    """A handler gets no more of the messages that a thread has taken together."""
    seen: list[bytes | None] = []

    def handle(message: mqplug.Message) -> None:
        seen.append(message.value)
        membership.holds = False

    with mq.consumer("orders", group="g") as orders:
        membership.stop_when_asked(orders)
        orders.run(handle)
    assert seen == [b"0"]
    membership.holds = True
    assert left(mq)[0] == b"1"


def test_with_asyncio() -> None:
    """The asyncio consumer checks its membership as well."""
    membership = Membership()

    async def story() -> None:
        async with mqplug.aio.connect("memory", extensions=[membership]) as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
                await out.send_many([b"%d" % number for number in range(9)])
                assert (await orders.receive(timeout=5)).value == b"0"
                membership.holds = False
                assert await orders.receive(timeout=0.2) is None
                assert not await orders.receive_many(5, timeout=0.2)

    asyncio.run(story())


class Losing(ConsumerProxy):
    """A member that loses all its logs at the next poll, when the test says."""

    def __init__(self, inner: Any, losses: Losses) -> None:
        super().__init__(inner)
        self.losses = losses

    def poll(self, most: int, timeout: float) -> Any:
        if self.losses.due:
            self.losses.due = False
            self.losses.listener.lost(self.losses.logs)
            return ()
        return self.inner.poll(most, timeout)

    def tend(self, timeout: float) -> None:
        self.poll(0, 0)

    def membership(self) -> bytes:
        raise mqplug.Timeout("the group does not answer")


class Losses:
    """An extension that lets members lose their logs."""

    def __init__(self) -> None:
        self.due = False
        self.listener: Any = None
        self.logs: Any = ()

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self, options: Any, listener: Any) -> Generator[None, Any, Any]:
        self.listener, self.logs = listener, options.logs
        return Losing((yield), self)


@pytest.fixture
def losses() -> Losses:
    """Losses that the test brings about."""
    return Losses()


@pytest.fixture
def losing(losses: Losses) -> Iterator[mqplug.Client]:
    """A client whose members lose their logs when the test says."""
    with connected(losses) as client:
        yield client


def lose_after_an_ack(orders: mqplug.Consumer, losses: Losses) -> None:
    """Ack a message whose partition is lost before the ack is stored."""
    message = orders.receive(5)
    assert message is not None
    orders.ack(message)
    losses.due = True
    while losses.due:
        orders.receive_many(9, 0.1)  # the poll after the messages in hand loses the log


def test_a_commit_says_that_acks_were_lost(losing: mqplug.Client, losses: Losses) -> None:
    """A commit raises ``NotAssigned``, once, if a partition was lost before an ack in it was stored."""
    with losing.consumer("orders", group="g") as orders:
        lose_after_an_ack(orders, losses)
        with pytest.raises(mqplug.NotAssigned, match=r"'orders'\[0\] was lost before its acks were stored"):
            orders.commit()
        orders.commit()


def test_a_close_says_that_acks_were_lost(losing: mqplug.Client, losses: Losses) -> None:
    """A close raises ``CloseIncomplete`` if a partition was lost shortly before with an ack that was not stored."""
    orders = losing.consumer("orders", group="g")
    lose_after_an_ack(orders, losses)
    with pytest.raises(mqplug.CloseIncomplete, match="lost before its acks were stored"):
        orders.close()


def test_a_partition_is_lost_with_all_acks_stored(losing: mqplug.Client, losses: Losses) -> None:
    """A commit and a close raise nothing if the acks of a lost partition were stored before."""
    with losing.consumer("orders", group="g") as orders:
        message = orders.receive(5)
        assert message is not None
        orders.ack(message)
        orders.commit()
        losses.due = True
        while losses.due:
            orders.receive_many(9, 0.1)
        orders.commit()


def ack_in_a_step(mq: mqplug.Client, orders: mqplug.Consumer) -> None:
    """Ack a message in a transaction."""
    with mq.transaction("biller", consumer=orders):
        message = orders.receive(5)
        assert message is not None
        orders.ack(message)


def test_acks_of_a_failed_step_are_not_missed(losing: mqplug.Client, losses: Losses) -> None:
    """A close raises nothing if a partition is lost after a step that acked its messages has failed."""
    with losing.consumer("orders", group="g") as orders:
        with pytest.raises(mqplug.Timeout, match="does not answer"):
            ack_in_a_step(losing, orders)
        losses.due = True
        while losses.due:
            orders.receive_many(9, 0.1)
