"""One server for all workers of a pytest-xdist run, held by a process that ends when the run does, however it ends.

The first worker that needs the server starts the holder, and the others attach to its server. The holder watches the
process that started the workers.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mqplug_devbrokers._cache import locked
from mqplug_devbrokers._errors import BrokerError, MissingTool
from mqplug_devbrokers.kafka import KafkaServer
from mqplug_devbrokers.kafka_cluster import KafkaCluster
from mqplug_devbrokers.pulsar import PulsarServer

KINDS: dict[str, type[KafkaServer | KafkaCluster | PulsarServer]] = {
    "kafka": KafkaServer,
    "kafka-cluster": KafkaCluster,
    "pulsar": PulsarServer,
}
START_LIMIT_S = 900.0  # the holder may have to download first
POLL_S = 0.2

_holders: list[subprocess.Popen[bytes]] = []  # they outlive this process and are never waited for


def attached(kind: str, run: str) -> Any:
    """Return the server of this kind that all workers of a run share. Start it if no other worker has."""
    folder = Path(tempfile.gettempdir()) / f"mqplug-devbrokers-{os.getuid()}-{run}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder / f"{kind}.json"
    with locked(folder / f"{kind}.lock"):
        server = KINDS[kind]()
        if state.exists():
            server.attach(json.loads(state.read_text()))
            if server.running:
                return server
        handle = _hold(kind, folder)
        state.write_text(json.dumps(handle))
    server = KINDS[kind]()
    server.attach(handle)
    return server


def _hold(kind: str, folder: Path) -> dict[str, Any]:
    """Start a holder, and return the handle of its server."""
    holder = subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", __name__, kind, str(os.getppid()), str(folder)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    _holders.append(holder)
    with holder.stdout as output:  # type: ignore[union-attr]
        ready, _, _ = select.select([output], [], [], START_LIMIT_S)
        line = output.readline() if ready else b""
    answer: dict[str, Any] = json.loads(line or b'{"error": "the process that holds the shared server has ended"}')
    if "missing" in answer:
        raise MissingTool(answer["missing"])
    if "error" in answer:
        raise BrokerError(answer["error"])
    return answer


def hold(kind: str, run: int, folder: Path) -> None:
    """Start a server, print its handle, and end it when the process `run` has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # only the end of the run ends this process
    server = KINDS[kind]()
    try:
        server.start()
        _say(server.handle())
        _wait_for_end_of(run)
    except MissingTool as error:
        _say({"missing": str(error)})
    except BrokerError as error:
        _say({"error": str(error)})
    finally:
        server.close()
        for file in (folder / f"{kind}.json", folder / f"{kind}.lock"):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # other servers of the run still use it
            folder.rmdir()


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    sys.stdout.close()


def _wait_for_end_of(process: int) -> None:
    with suppress(ProcessLookupError):
        if sys.platform == "linux":
            select.select([os.pidfd_open(process)], [], [])
        else:
            while True:
                os.kill(process, 0)
                time.sleep(POLL_S)


if __name__ == "__main__":
    hold(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
