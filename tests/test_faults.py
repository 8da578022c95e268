"""Drivers that hang, the parts of the kit that make trouble, and what the cases about mistakes have to notice."""

from __future__ import annotations

import random
import socket
import threading
import time
import uuid

import pytest
from mutants import Mutant, Proxy

import mqplug
from mqplug import ConnectError, Error, Timeout, TopicNotFound, Unsupported, _administration, memory
from mqplug._config import reading, settings
from mqplug._consume import opening
from mqplug._consume.acks import Tracker
from mqplug._consume.holdings import Holdings
from mqplug._consume.settling import Settler
from mqplug._position import Latest
from mqplug.spi import GroupPosition, hookimpl
from mqplug.testing import CASES, Harness, run
from mqplug.testing._child import Child
from mqplug.testing._peers import PEERS

BY_ID = {case.id: case for case in CASES}

pytestmark = pytest.mark.kit


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
    """Close ends in time with a warning, although the driver's own close does not."""
    consumer, _ = stuck
    began = time.monotonic()
    with pytest.warns(ResourceWarning, match="abandoned"):
        consumer.close(0.2)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("stuck", ["poll"], indirect=True)
def test_a_poll_that_hangs_holds_up_no_other_call_for_ever(stuck):
    """While a driver's poll hangs and cannot be woken, seek is a timeout and close still ends in time."""
    consumer, trouble = stuck
    thread = threading.Thread(target=_receive, args=(consumer,), daemon=True)
    thread.start()
    assert trouble.entered.wait(10)
    with pytest.raises(mqplug.Timeout):
        consumer.seek(mqplug.EARLIEST, timeout=0.2)
    began = time.monotonic()
    with pytest.raises(mqplug.CloseIncomplete):
        consumer.close(0.2)
    assert time.monotonic() - began < 3
    trouble.let_go.set()
    thread.join(10)
    assert not thread.is_alive()


def _receive(consumer):
    try:
        consumer.receive(20)
    except mqplug.Closed:
        return


@pytest.mark.parametrize("name", PEERS)
def test_the_peers_of_the_kit_are_what_they_say(name):
    """Nobody refuses, a silent server accepts and says nothing, the others give their answer."""
    with PEERS[name]() as address:
        if name == "nobody":
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
    """The kit's child process is killed in the middle of its work; a line that was cut off is not counted."""
    program = "import sys, time\nprint('one')\nprint(sys.argv[1])\nsys.stdout.write('cut')\ntime.sleep(60)"
    with Child(program, "two") as child:
        child.wait_for(2, 30)
        child.kill()
        assert child.lines == ["one", "two"]


def test_a_child_that_ends_too_soon_fails_the_case():
    """A child that ends before it has said enough is a failure, and not a wait."""
    with Child("print('one')") as child, pytest.raises(pytest.fail.Exception, match="1 lines of 2"):
        child.wait_for(2, 30)


# what the cases have to notice -----------------------------------------------------------------------------


class Sluggish(Mutant):
    """Polls for as long as it likes."""

    case = "TO-01"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            time.sleep(1.5)
            return self.inner.poll(most, 0)


class LatestAgain(Mutant):
    """Resolves LATEST whenever a member joins."""

    case = "GRP-19"

    def open(self, connection, options, listener):
        driver = super().open(connection, options, listener)
        if isinstance(options.start, Latest):
            again = connection.resolve(options.start, options.logs)
            connection.store.store_positions(options.group, {log: GroupPosition(at) for log, at in again.items()})
        return driver


class KeepsPosition(Mutant):
    """Stores a group for consumers without one: the second begins where the first stopped."""

    case = "GRP-03"
    stopped: dict[object, tuple[int, ...]] = {}  # noqa: RUF012 - shared by all

    class Consumer(Proxy):
        def close(self, timeout):
            KeepsPosition.stopped.update(self.inner._positions)
            self.inner.close(timeout)

    def open(self, connection, options, listener):
        driver = super().open(connection, options, listener)
        driver._positions.update({log: at for log, at in KeepsPosition.stopped.items() if log in driver._positions})
        return driver


class CreatesWhatIsMissing(Mutant):
    """Makes a topic that is asked for."""

    case = "TOP-06"

    def administer(self, connection, action):
        try:
            return super().administer(connection, action)
        except TopicNotFound:
            return memory.mqplug_administer(connection, mqplug.spi.CreateTopic(action.topic))


def sound(plugin):
    """A harness of this plugin."""
    mqplug.register(plugin.name, plugin)
    store = uuid.uuid4().hex
    return Harness(connect=lambda: mqplug.connect(plugin.name, name=store), restart=lambda: None)


@pytest.mark.parametrize("kind", [Sluggish, LatestAgain, KeepsPosition, CreatesWhatIsMissing])
def test_each_mutant_is_killed_by_its_case(kind):
    """KIT-02: a backend that is broken in one place fails the case that was made for it."""
    with pytest.raises((AssertionError, Error, pytest.fail.Exception)) as caught:
        run(BY_ID[kind.case], sound(kind("mutant")), scale=0.1)
    assert not isinstance(caught.value, mqplug.PluginError), "the mutant itself does not run"


def _lose_state(error):
    return type(error), error.args


def _tell_at_once(_, callback, logs):
    if callback is not None and logs:
        callback(logs)


CORE_MUTANTS = [
    ("ERR-01", _administration, "check_new_topic", lambda name, most=249: name),
    ("ERR-02", Error, "at", lambda error, **_: error),
    ("ERR-02", mqplug.TopicExists, "fix", None),
    ("ERR-03", TopicNotFound, "retryable", True),
    ("ERR-04", opening, "check_start", lambda start: mqplug.EARLIEST),
    ("ERR-07", Unsupported, "capability", property(lambda _: "something", lambda _, value: None)),
    ("ERR-08", Holdings, "_tell", _tell_at_once),
    ("ERR-09", Error, "__reduce__", _lose_state),
    ("GRP-03", Settler, "_refuse", lambda settler, message, operation: None),
    ("GRP-10", Tracker, "drop", lambda tracker: None),
    ("LIF-06", settings, "get_close_matches", lambda *_, **__: ["nothing"]),
    ("LIF-07", reading, "_exactly", lambda value, kind: value),
    ("TO-09", Timeout, "retryable", False),
    ("TOP-08", opening, "check_group", lambda name: name),
]


@pytest.mark.parametrize(
    ("case", "place", "name", "wrong"), CORE_MUTANTS, ids=[f"{each[0]}-{each[2]}" for each in CORE_MUTANTS]
)
def test_each_mutant_of_the_core_is_killed(monkeypatch, case, place, name, wrong):
    """KIT-02: the cases about mistakes notice when the core itself is broken."""
    harness = sound(Mutant("sound"))
    reading.converter.cache_clear()
    monkeypatch.setattr(place, name, wrong, raising=False)
    with pytest.raises((AssertionError, Error, pytest.fail.Exception, TypeError, ArithmeticError)):
        run(BY_ID[case], harness, scale=0.1)
    reading.converter.cache_clear()


def test_the_unbroken_core_passes():
    """Without a defect all these cases pass, so that it is the defect that kills."""
    for case in sorted({each[0] for each in CORE_MUTANTS} | {"TO-01", "GRP-19"}):
        run(BY_ID[case], sound(Mutant("sound")))


def _connect_late(host, port, timeout):
    time.sleep(timeout + 4)
    raise ConnectError(f"{host}:{port} does not answer")


def _connect_untyped(host, port, timeout):
    raise OSError(f"{host}:{port} does not answer")


def _connect_vaguely(host, port, timeout):
    raise ConnectError("no")


def _connect_anyway(host, port, timeout):
    return mqplug.connect("memory")


def _connect_well(host, port, timeout):
    raise ConnectError(f"{host}:{port} does not answer")


@pytest.mark.parametrize("connect_to", [_connect_late, _connect_untyped, _connect_vaguely, _connect_anyway])
def test_a_backend_that_connects_badly_fails(connect_to):
    """LIF-05 notices who takes too long, raises a native error, says nothing, or finds a server where none is."""
    harness = Harness(connect=lambda: mqplug.connect("memory"), unreachable=connect_to)
    with pytest.raises((AssertionError, OSError, pytest.fail.Exception)):
        run(BY_ID["LIF-05"], harness, scale=0.1)


def test_a_backend_that_connects_well_passes():
    """LIF-05 is content with a ``ConnectError`` that names the address."""
    run(BY_ID["LIF-05"], Harness(connect=lambda: mqplug.connect("memory"), unreachable=_connect_well))
