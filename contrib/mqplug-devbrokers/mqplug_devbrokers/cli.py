"""The command `mqplug-devbrokers`, which runs a broker until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import cache_root
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers.kafka import KafkaServer
from mqplug_devbrokers.pulsar import PulsarServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mqplug_devbrokers._server import BrokerServer

SERVERS: dict[str, type[BrokerServer]] = {"kafka": KafkaServer, "pulsar": PulsarServer}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit status: 0 for success, 1 for a broker's failure, 2 for wrong usage."""
    asked = _parser().parse_args(arguments)
    # SIGTERM unwinds as Ctrl-C does, so that the broker is stopped cleanly and its directory deleted.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if asked.verb == "fetch":
            _fetch([asked.broker] if asked.broker else list(SERVERS))
        else:
            _up(SERVERS[asked.broker](port=asked.port, directory=asked.keep))
    except KeyboardInterrupt:
        return 0 if asked.verb == "up" else 1
    except BrokerError as error:
        sys.stderr.write(f"mqplug-devbrokers: {error}\n")
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _up(server: BrokerServer) -> None:
    """Run a server until a signal, or until it ends by itself."""
    _say(f"starting {server.name} {server.version} ...")
    with server:
        _say(server.url)
        _say(f"ready; log: {server.log}; stop with Ctrl-C, or: kill {os.getpid()}")
        while True:
            server.check()
            time.sleep(0.5)


def _fetch(names: Sequence[str]) -> None:
    for name in names:
        _say(f"fetching {name} {SERVERS[name].version} into {cache_root()} ...")
        SERVERS[name].fetch()
        _say(f"{name} is ready to start")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("mqplug-devbrokers", description="Kafka and Pulsar servers for tests.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start a broker and print its URL; Ctrl-C stops it")
    up.add_argument("broker", choices=SERVERS)
    up.add_argument("--port", type=_port, default=0, help="the port for clients (default: a free one)")
    up.add_argument("--keep", type=Path, metavar="DIR", help="keep the data here, for the next time")
    fetch = verbs.add_parser("fetch", help="fill the cache, so that later starts need no network")
    fetch.add_argument("broker", nargs="?", choices=SERVERS)
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port: use 1 to 65535, or 0 for a free one")
    return port
