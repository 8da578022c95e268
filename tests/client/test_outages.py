"""While the server is away: the core logs it once, and a driver's close that fails still releases everything."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest
from waiting import wait_until

import mqplug
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ConnectionProxy, ConsumerProxy, ProducerProxy


class Away:
    """An extension whose drivers fail like those of an unreachable server, for the calls in ``calls``."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        self.error = error
        self.calls: set[str] = set()

    def check(self, call: str) -> None:
        if call in self.calls:
            raise self.error()

    @hookimpl(wrapper=True)
    def mqplug_connect(self):
        return failing(ConnectionProxy)((yield), self, "connection.")

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self):
        return failing(ConsumerProxy)((yield), self, "consumer.")

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self):
        return failing(ProducerProxy)((yield), self, "producer.")


def failing(kind):
    """Return a proxy of this kind whose calls may fail."""

    def init(self, inner, away, prefix):
        kind.__init__(self, inner)
        self._away, self._prefix = away, prefix

    def made(name):
        def call(self, *arguments):
            self._away.check(self._prefix + name)
            return getattr(kind, name)(self, *arguments)

        return call

    names = [name for name in ("poll", "commit", "tend", "close") if hasattr(kind, name)]
    return type("Failing", (kind,), {"__init__": init, **{name: made(name) for name in names}})


def lines(caplog):
    """Return the logger of each warning."""
    return [record.name for record in caplog.records if record.levelno >= logging.WARNING]


def opened(away):
    """A client with a topic of three messages."""
    client = mqplug.connect("memory", extensions=[away])
    client.create_topic("orders")
    with client.producer("orders") as out:
        out.send_many([b"1", b"2", b"3"])
    return client


@pytest.mark.parametrize("kind", [mqplug.ConnectError, mqplug.Timeout])
def test_an_outage_is_told_once_and_so_is_its_end(kind, caplog):
    """However often background commits fail, the logger mqplug.outage reports the outage once, and then its end."""
    away = Away(lambda: kind("no broker answers"))
    with opened(away) as client, client.consumer("orders", group="g") as member:
        away.calls = {"consumer.commit"}
        member.ack(member.receive(5))
        wait_until(lambda: lines(caplog))
        for _ in range(3):
            with pytest.raises(kind):
                member.commit()
        assert lines(caplog) == ["mqplug.outage"]
        away.calls = set()
        wait_until(lambda: len(lines(caplog)) > 1)
        assert lines(caplog) == ["mqplug.outage"] * 2
        assert "answers again" in caplog.text


@pytest.mark.parametrize("group", [None, "g"])
def test_a_poll_that_nobody_answers_brings_nothing(group, caplog):
    """A driver's Timeout in poll is no error of receive; it is logged once, and so is its end."""
    away = Away(lambda: mqplug.Timeout("no broker answers"))
    with opened(away) as client, client.consumer("orders", group=group, start=mqplug.EARLIEST) as member:
        away.calls = {"consumer.poll"}
        begun = time.thread_time()
        assert [member.receive(0.2) for _ in range(5)] == [None] * 5
        assert time.thread_time() - begun < 0.5  # it waits between two polls
        assert lines(caplog) == ["mqplug.outage"]
        assert caplog.messages[0].endswith("does not answer, retrying: no broker answers")  # without Timeout's advice
        away.calls = set()
        assert member.receive(5).value == b"1"
        assert lines(caplog) == ["mqplug.outage"] * 2
        assert "answers again" in caplog.text


def test_what_cannot_mend_itself_comes_out_of_receive():
    """A driver's ConnectError in poll is raised by receive."""
    away = Away(lambda: mqplug.ConnectError("the client gave up"))
    with opened(away) as client, client.consumer("orders", start=mqplug.EARLIEST) as member:
        away.calls = {"consumer.poll"}
        with pytest.raises(mqplug.ConnectError, match="gave up"):
            member.receive(5)


def test_servers_that_come_and_go_do_not_fill_the_log(caplog):
    """Two outages within half a minute are logged once, and so is the end."""
    away = Away(lambda: mqplug.Timeout("no answer"))
    with opened(away) as client, client.consumer("orders", group="g") as member:
        for _ in range(3):
            away.calls = {"consumer.commit"}
            member.ack(member.receive(5))
            with pytest.raises(mqplug.Timeout):
                member.commit()
            away.calls = set()
            member.commit()
    assert lines(caplog) == ["mqplug.outage"] * 2


def test_what_is_no_outage_is_told_as_it_is(caplog):
    """A background commit that fails for another reason is logged by the core's own logger."""
    away = Away(lambda: mqplug.NotAssigned("it went to another member"))
    with opened(away) as client, client.consumer("orders", group="g") as member:
        away.calls = {"consumer.commit"}
        member.ack(member.receive(5))
        wait_until(lambda: lines(caplog))
        away.calls = set()
    assert set(lines(caplog)) == {"mqplug"}


@pytest.mark.parametrize("error", [mqplug.ConnectError("gone"), OSError("gone"), mqplug.Timeout("gone")])
@pytest.mark.parametrize("part", ["consumer", "producer", "connection"])
def test_an_error_in_a_drivers_close_is_close_incomplete(part, error):
    """A driver's close that fails raises CloseIncomplete once, with its error as the cause, and releases everything."""
    away = Away(lambda: error)
    client = opened(away)
    parts = {
        "consumer": client.consumer("orders", group="g"),
        "producer": client.producer("orders"),
        "connection": client,
    }
    away.calls = {f"{part}.close"}
    with pytest.raises(mqplug.CloseIncomplete, match="gone") as caught:
        parts[part].close()
    assert caught.value.__cause__ is error
    assert (caught.value.backend, caught.value.operation) == ("memory", "close")
    parts[part].close()
    away.calls = set()
    client.close()
    with pytest.raises(mqplug.Closed):
        client.topics()


def test_acks_that_were_not_stored_come_first():
    """If both storing the acks and the driver's close fail, the error is the one about the acks."""
    away = Away(lambda: mqplug.ConnectError("gone"))
    with opened(away) as client:
        member = client.consumer("orders", group="g")
        member.ack(member.receive(5))
        away.calls = {"consumer.commit", "consumer.close"}
        with pytest.raises(mqplug.CloseIncomplete, match="last acks"):
            member.close()
        with pytest.raises(mqplug.Closed):
            member.receive(0)
