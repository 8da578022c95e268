"""LIF: settings that cannot be meant, and servers that are not there, or are something else."""

from __future__ import annotations

import time
from contextlib import closing

import attrs

import mqplug
from mqplug import ConfigError, ConnectError
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing._case_tools.wrong_servers import WRONG_SERVERS

case = Registry()


@case("LIF-05", hooks=("unreachable",), timed=True)
def test_unreachable(bench: Bench) -> None:
    """A server that refuses, is silent, or speaks another protocol is a ``ConnectError`` within the timeout."""
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
    """A setting of the wrong type is a ``ConfigError`` that names it, before anything is opened."""
    for name in _settings(bench):
        with bench.raises(ConfigError) as caught, mqplug.connect({"backend": bench.client.backend, name: object()}):
            pass
        bench.that(name in str(caught.value), str(caught.value))
        bench.equal(caught.value.retryable, False)  # type: ignore[attr-defined]


def _settings(bench: Bench) -> list[str]:
    return list(attrs.fields_dict(bench.client._backend.descriptor.settings))


@case("LIF-09", needs=("exclusive_open",), hooks=("second_process",))
def test_open_elsewhere(bench: Bench) -> None:
    """What one process at a time may have open is ``AlreadyOpen`` for a second one, until the first has closed it."""
    topic, ids = bench.filled(2)
    bench.equal(_elsewhere(bench, topic), "AlreadyOpen")
    ids += bench.fill(topic, 1)
    bench.equal([message.id for message in bench.read(topic)], ids, "the first one goes on")
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
