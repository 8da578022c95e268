"""Drivers that hang, the kit's tools that cause faults, and what the cases about defects must notice."""

from __future__ import annotations

import threading

import pytest

import mqplug
from mqplug import memory
from mqplug.spi import hookimpl


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
