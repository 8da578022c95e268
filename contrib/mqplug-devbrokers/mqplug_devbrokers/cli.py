"""The command `mqplug-devbrokers`, which runs a broker until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqplug_devbrokers import _kafka_files, _pulsar_files
from mqplug_devbrokers._cache import cache_root
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers.kafka import KafkaServer
from mqplug_devbrokers.pulsar import PulsarServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mqplug_devbrokers._server import BrokerServer

SERVERS: dict[str, type[KafkaServer | PulsarServer]] = {"kafka": KafkaServer, "pulsar": PulsarServer}
VERSIONS = {"kafka": _kafka_files.VERSIONS, "pulsar": _pulsar_files.VERSIONS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit status: 0 for success, 1 for a broker's failure, 2 for wrong usage."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.version and asked.broker is None:
        parser.error("--version needs the name of a broker")
    if asked.version and asked.version not in (known := VERSIONS[asked.broker]):
        parser.error(f"unknown {asked.broker} version {asked.version}; expected one of {', '.join(known)}")
    # SIGTERM unwinds as Ctrl-C does, so that the broker is stopped cleanly and its directory deleted.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if asked.verb == "fetch":
            _fetch([_server(asked)] if asked.broker else [make() for make in SERVERS.values()])
        else:
            _up(_server(asked, port=asked.port, directory=asked.keep))
    except KeyboardInterrupt:
        return 0 if asked.verb == "up" else 1
    except BrokerError as error:
        sys.stderr.write(f"mqplug-devbrokers: {error}\n")
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _server(asked: argparse.Namespace, **how: Any) -> BrokerServer:
    return SERVERS[asked.broker](version=asked.version, **how)


def _up(server: BrokerServer) -> None:
    """Run a server until a signal, or until it ends by itself."""
    _say(f"starting {server.name} {server.version} ...")
    with server:
        _say(server.url)
        _say(f"ready; log: {server.log}; stop with Ctrl-C, or: kill {os.getpid()}")
        _say(f"\n# for mqplug.toml\n{server.toml}")
        while True:
            server.check()
            time.sleep(0.5)


def _fetch(servers: Sequence[BrokerServer]) -> None:
    for server in servers:
        _say(f"fetching {server.name} {server.version} into {cache_root()} ...")
        server.fetch()
        _say(f"{server.name} is ready to start")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("mqplug-devbrokers", description="Kafka and Pulsar servers for tests.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start a broker and print its URL; Ctrl-C stops it")
    up.add_argument("broker", choices=SERVERS)
    up.add_argument("--port", type=_port, default=0, help="the port for clients (default: a free one)")
    up.add_argument("--keep", type=Path, metavar="DIR", help="keep the data in DIR for the next start")
    fetch = verbs.add_parser("fetch", help="fill the cache so that later starts need no network")
    fetch.add_argument("broker", nargs="?", choices=SERVERS)
    for verb in (up, fetch):
        shown = "; ".join(f"{broker}: {', '.join(known)}" for broker, known in VERSIONS.items())
        verb.add_argument("--version", help=f"the broker's version (default: the first; {shown})")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port: use 1 to 65535, or 0 for a free one")
    return port
