"""LIF: opening, declared capabilities, wrong settings, and wrong servers."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import attrs

import mqplug
from mqplug import EARLIEST, Client, Closed, ConfigError, ConnectError, Consumer, Producer, TopicNotFound, connect
from mqplug.spi import Mode
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.operation_calls import OPERATION_CALLS, refuses, works
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing._case_tools.wrong_servers import WRONG_SERVERS

case = Registry()


@case("LIF-01")
def test_name(bench: Bench) -> None:
    """The client, its ids and its errors report the name by which the backend was opened."""
    _, ids = bench.filled(1)
    bench.that(bench.client.backend in repr(bench.client), "the client names it")
    bench.equal({each.log.backend for each in ids}, {bench.client.partitions(ids[0].log.topic)[0].backend})
    with bench.raises(TopicNotFound) as caught:
        bench.client.watermarks(bench.name())
    bench.equal(getattr(caught.value, "backend", None), bench.client.backend)


@case("LIF-02")
def test_leaves_nothing(bench: Bench) -> None:
    """Opening and closing leaves no thread, open file or socket, not even until garbage is collected."""
    topic, ids = bench.filled(3)
    before: dict[str, list[str]] = {}
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            with bench.harness.connect() as client:
                producer, reader = client.producer(topic), client.consumer(topic, start=EARLIEST)
                ids.append(producer.send(b"x", partition=0))
                bench.delivers(reader, ids)
                for mode in _modes(client):
                    member = client.consumer(topic, group=bench.name(), start=EARLIEST, mode=mode)
                    bench.that(member.receive(bench.patience) is not None, "a member receives")
            before = before or _in_use()  # the first round may set up resources of the process
        bench.wait(lambda: not _more(before), "all is released", seen=lambda: _more(before))
    finally:
        gc.enable()


def _modes(client: Client) -> list[Mode]:
    able = client.capabilities
    modes: list[Mode] = ["ordered", "shared"]
    return [mode for mode in modes if able.durable_groups and getattr(able, mode)]


def _in_use() -> dict[str, list[str]]:
    """Return the names of Python's threads, and on Linux those of all threads and of open files and sockets."""
    used = {"threads of Python": [each.name for each in threading.enumerate()]}
    for what, folder in (("threads", Path("/proc/self/task")), ("open files and sockets", Path("/proc/self/fd"))):
        if folder.exists():
            used[what] = [_name(each) for each in folder.iterdir()]
    return used


def _name(entry: Path) -> str:
    with suppress(OSError):  # it has just ended
        return str(entry.readlink()) if entry.is_symlink() else (entry / "comm").read_text().strip()
    return ""


def _more(before: dict[str, list[str]]) -> str:
    """Return what is in use now in addition; an empty text if nothing is."""
    more = []
    for what, now in _in_use().items():
        if len(now) > len(before[what]):
            names = ", ".join(sorted((Counter(now) - Counter(before[what])).elements()))
            more.append(f"{len(before[what])} {what} after the first round, now {len(now)}, with {names}")
    return "; ".join(more)


@case("LIF-03")
def test_many_times(bench: Bench) -> None:
    """A backend can be opened and closed twenty times in one process."""
    topic, ids = bench.filled(1)
    for _ in range(20):
        with bench.connect() as client:
            bench.equal([message.id for message in client.read(topic)], ids)


@case("LIF-04")
def test_health(bench: Bench) -> None:
    """``health`` returns on a backend that answers, and raises ``Closed`` after close."""
    client = bench.connect()
    bench.equal(client.health(10 * bench.scale), None)  # type: ignore[func-returns-value]
    client.close()
    with bench.raises(Closed):
        client.health()


@case("LIF-06")
def test_unknown_setting(bench: Bench) -> None:
    """An unknown setting raises a ``ConfigError`` that names it and the nearest one, before anything is opened."""
    with bench.raises(ConfigError) as caught:
        connect(bench.client.backend, no_such_setting=1)
    bench.that("no_such_setting" in str(caught.value), "the error names it")
    known = list(attrs.fields_dict(bench.client._backend.descriptor.settings))  # noqa: SLF001
    for setting in known:
        misspelt = setting[:-1] + ("x" if setting[-1] != "x" else "y")
        with bench.raises(ConfigError) as caught:
            connect({"backend": bench.client.backend, misspelt: 1})
        bench.that(misspelt in str(caught.value), str(caught.value))
        hint = str(caught.value).partition(misspelt)[2]
        bench.that(any(each in hint for each in known), "and the nearest one")
    if (url := bench.harness.second_process) is not None:
        with bench.raises(ConfigError):
            connect(f"{url}{'&' if '?' in url else '?'}no_such_setting=1")


@case("LIF-08")
def test_each_alone(bench: Bench) -> None:
    """Producer, consumer, seek and watermarks each work on a client that uses nothing else."""
    topic = bench.topic()
    with bench.connect() as client:
        sent = client.producer(topic).send(b"x", partition=0)
    with bench.connect() as client:
        reader = client.consumer(topic, start=EARLIEST)
        bench.delivers(reader, [sent])
        reader.seek(EARLIEST)
        bench.delivers(reader, [sent])
    with bench.connect() as client:
        bench.that(client.watermarks(topic)[0].high > client.watermarks(topic)[0].low, "one message")


@case("LIF-10", needs=("multi_client",))
def test_many_clients(bench: Bench) -> None:
    """Two clients see the same messages, and closing one does not affect the other."""
    topic, ids = bench.filled(2)
    one, other = bench.connect(), bench.connect()
    readers = [client.consumer(topic, start=EARLIEST) for client in (one, other)]
    for reader in readers:
        bench.delivers(reader, ids)
    one.close()
    bench.delivers(readers[1], bench.fill(topic, 2))


@case("LIF-11")
def test_context_managers(bench: Bench) -> None:
    """Leaving a ``with`` block closes its object, also after an error, and the error propagates."""
    topic, ids = bench.filled(1)
    for error in (None, RuntimeError("mine")):
        opened: list[Client | Producer | Consumer] = []
        with ExitStack() as outer:
            if error is not None:
                outer.enter_context(bench.raises(RuntimeError))
            with (
                bench.connect() as client,
                client.producer(topic) as out,
                client.consumer(topic, start=EARLIEST) as in_,
            ):
                opened += [client, out, in_]
                bench.delivers(in_, ids)
                if error is not None:
                    raise error
        bench.that(all("closed" in repr(each) for each in opened), "all are closed")


@case("LIF-12", level="should")
def test_forgotten(bench: Bench) -> None:
    """A client or consumer that is never closed causes a ``ResourceWarning``."""
    topic, _ = bench.filled(1)
    client = bench.harness.connect()
    consumer = client.consumer(topic, start=EARLIEST)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        consumer._session.__del__()  # noqa: SLF001
        client._session.__del__()  # noqa: SLF001
    client.close()
    bench.equal([warning.category for warning in caught], [ResourceWarning] * 2)


@case("LIF-14")
def test_reprs(bench: Bench) -> None:
    """The repr of a client, producer, consumer, message or id is one line and names the backend or the topic."""
    topic, ids = bench.filled(1)
    reader = bench.reader(topic)
    message = bench.take(reader, 1)[0]
    for each in (bench.producer(topic), reader, message, message.id, reader.position()[0], ids[0].log):
        text = repr(each)
        bench.that(topic in text and "\n" not in text and " object at " not in text, text)
    bench.that(bench.client.backend in repr(bench.client), "the client names its backend")


@case("LIF-16")
def test_wrong_hosts(bench: Bench) -> None:
    """A URL with an invalid port, or without a host, raises a ``ConfigError`` that shows no login."""
    backend = bench.client.backend
    for hosts in ("host:99999", "host:0", "host:x", "host:", ":9092", "one:1,,two:1", "::1:1", "[::1]:65536"):
        for login in ("", "al1ce:s3cret@", "al1ce:s3c/ret@", "al1#ce:s3cret@", "al1ce:s3c?r@et@"):
            with bench.raises(ConfigError) as caught:
                connect(f"{backend}://{login}{hosts}")
            bench.equal([part for part in ("al1", "s3c") if part in str(caught.value)], [])


@case("LIF-17", needs=("retention",))
def test_short_retention(bench: Bench) -> None:
    """A retention below 60 raises a ``ValueError`` that shows the timedelta, and no topic is created."""
    for number in (0, 7, 59.9):
        topic = bench.name()
        with bench.raises(ValueError) as caught:
            bench.client.create_topic(topic, retention=number)
        bench.that(f"timedelta(days={number:g})" in str(caught.value), str(caught.value))
        with bench.raises(TopicNotFound):
            bench.client.partitions(topic)


@case("LIF-15", level="should")
def test_native(bench: Bench) -> None:
    """``unwrap`` returns None if there is no object of that type."""

    class Stranger:
        pass

    bench.equal(bench.client.unwrap(Stranger), None)


@case("LIF-13", timeout=300)
def test_declared(bench: Bench) -> None:
    """A declared operation can be called; an undeclared one raises ``Unsupported``, which names the capability."""
    able = bench.client.capabilities
    for capability in OPERATION_CALLS:
        (works if getattr(able, capability) else refuses)(bench, capability)


@case("LIF-05", hooks=("unreachable",), timed=True)
def test_unreachable(bench: Bench) -> None:
    """A server that refuses, is silent, or speaks another protocol causes a ``ConnectError`` within the timeout."""
    connect_to, timeout = bench.harness.unreachable, bench.sized(quick=1, full=3) * bench.scale
    assert connect_to is not None
    for name, peer in WRONG_SERVERS.items():
        with peer() as (host, port):
            began = time.monotonic()
            with bench.raises(ConnectError) as caught, closing(connect_to(host, port, timeout)):
                pass
            took = time.monotonic() - began
        error = caught.value
        bench.that(took < timeout + 2 * bench.scale, f"{name}: it took {took:.1f} s")
        bench.that(error.retryable and error.message and error.fix, f"{name}: {error!r}")  # type: ignore[attr-defined]
        bench.that(str(port) in str(error), f"{name}: {error} names the address")


@case("LIF-07")
def test_wrong_setting(bench: Bench) -> None:
    """A setting of a wrong type raises a ``ConfigError`` that names it, before anything is opened."""
    for name in _settings(bench):
        with bench.raises(ConfigError) as caught, mqplug.connect({"backend": bench.client.backend, name: object()}):
            pass
        bench.that(name in str(caught.value), str(caught.value))
        bench.equal(caught.value.retryable, False)  # type: ignore[attr-defined]


def _settings(bench: Bench) -> list[str]:
    return list(attrs.fields_dict(bench.client._backend.descriptor.settings))  # noqa: SLF001


@case("LIF-09", needs=("exclusive_open",), hooks=("second_process",))
def test_open_elsewhere(bench: Bench) -> None:
    """A backend for one process at a time raises ``AlreadyOpen`` in a second, until the first has closed it."""
    topic, ids = bench.filled(2)
    bench.equal(_elsewhere(bench, topic), "AlreadyOpen")
    ids += bench.fill(topic, 1)
    bench.equal([message.id for message in bench.read(topic)], ids, "the first one continues")
    with bench.away():
        bench.equal(_elsewhere(bench, topic), "3 messages")
    ids += bench.fill(topic, 1)
    bench.equal([message.id for message in bench.read(topic)], ids)


def _elsewhere(bench: Bench, topic: str) -> str:
    with ChildProcess(OPENS, str(bench.harness.second_process), topic) as child:
        child.wait_for(1, bench.patience)
    return child.lines[0]


OPENS = """
import sys, mqplug
url, topic = sys.argv[1:]
try:
    with mqplug.connect(url) as client:
        found = f"{len(list(client.read(topic)))} messages"
except mqplug.AlreadyOpen:
    found = "AlreadyOpen"
print(found)
"""
