"""Drivers that hang, the kit's tools that cause faults, and what the cases about defects must notice."""

from __future__ import annotations

import random
import socket
import threading

import pytest

import mqplug
from mqplug import memory
from mqplug.spi import hookimpl
from mqplug_testing._case_tools.broken_promise import PromiseBroken
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.wrong_servers import WRONG_SERVERS


class Stuck:
    """The memory backend with a consumer in which one call hangs until ``let_go`` is set."""

    def __init__(self, call):
        self.call = call
        self.let_go = threading.Event()
        self.entered = threading.Event()

    def __getattr__(self, name):
        return getattr(memory, name)

    @hookimpl
    def mqplug_open_consumer(self, connection, options, listener):
        driver = memory.mqplug_open_consumer(connection, options, listener)
        setattr(driver, self.call, self._hang)
        return driver

    def _hang(self, *_):
        self.entered.set()
        self.let_go.wait(30)
        return []


@pytest.fixture
def stuck(request, monkeypatch):
    """A reader of an empty topic, whose driver hangs, and the event that ends that."""
    trouble = Stuck(request.param)
    for hook in ("mqplug_describe", "mqplug_connect", "mqplug_administer", "mqplug_resolve_start"):
        setattr(trouble, hook, getattr(memory, hook))
    mqplug.register("memory", trouble)
    client = mqplug.connect("memory")
    client.create_topic("t")
    yield client.consumer("t", start=mqplug.EARLIEST), trouble
    trouble.let_go.set()
    client.close()
    mqplug.register("memory", memory)


@pytest.mark.parametrize("stuck", ["close"], indirect=True)
def test_a_native_close_that_hangs_is_abandoned_in_time(stuck):
    """Close ends in time with a warning, although the driver's own close hangs."""
    consumer, trouble = stuck
    with pytest.warns(ResourceWarning, match="abandoned"):
        consumer.close(0.2)
    assert not trouble.let_go.is_set()  # it still hangs


@pytest.mark.parametrize("stuck", ["poll"], indirect=True)
def test_a_poll_that_hangs_holds_up_no_other_call_for_ever(stuck):
    """While a driver's poll hangs and cannot be woken, seek times out and close still ends in time."""
    consumer, trouble = stuck
    thread = threading.Thread(target=_receive, args=(consumer,), daemon=True)
    thread.start()
    assert trouble.entered.wait(10)
    with pytest.raises(mqplug.Timeout):
        consumer.seek(mqplug.EARLIEST, timeout=0.2)
    with pytest.raises(mqplug.CloseIncomplete):
        consumer.close(0.2)
    trouble.let_go.set()
    thread.join(10)
    assert not thread.is_alive()


def _receive(consumer):
    try:
        consumer.receive(20)
    except mqplug.Closed:
        return


@pytest.mark.parametrize("name", WRONG_SERVERS)
def test_the_peers_of_the_kit_are_what_they_say(name):
    """A closed port refuses, a silent server accepts and never answers, and the others give their answer."""
    with WRONG_SERVERS[name]() as address:
        if name == "a closed port":
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, 10)
            return
        with socket.create_connection(address, 10) as connection:
            connection.sendall(b"hello")
            connection.settimeout(0.2 if name == "a silent server" else 10)
            if name == "a silent server":
                with pytest.raises(TimeoutError):
                    connection.recv(1)
            elif name == "a server that hangs up":
                assert _read(connection) == b""
            else:
                answer = {"a web server": b"HTTP/1.1", "garbage": random.Random(7).randbytes(400)[:8]}
                assert connection.recv(8) == answer[name]


def _read(connection):
    try:
        return connection.recv(1)
    except ConnectionResetError:
        return b""


def test_a_child_is_killed_and_keeps_what_it_said():
    """The kit's child process is killed in the middle of its work; an incomplete line is not counted."""
    program = "import sys, time\nprint('one')\nprint(sys.argv[1])\nsys.stdout.write('cut')\ntime.sleep(60)"
    with ChildProcess(program, "two") as child:
        child.wait_for(2, 30)
        child.kill()
        assert child.lines == ["one", "two"]


def test_a_child_that_ends_too_soon_fails_the_case():
    """A child that ends before it has printed enough fails the case instead of making it wait."""
    with ChildProcess("print('one')") as child, pytest.raises(PromiseBroken, match="2 lines within"):
        child.wait_for(2, 30)
