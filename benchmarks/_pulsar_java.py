"""Java's ``pulsar-perf`` as a rival. Each turn is a whole process, so it includes the start of its JVM."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

from benchmarks._contests import Side, Work
from mqplug_devbrokers import PulsarServer

TURN_TIMEOUT_S = 300
SENT_MESSAGES = 200_000  # more than the other sides send, so that the start of the JVM weighs less
UNLIMITED = str(10**7)  # messages a second
DONE = "--- DONE "  # logged by the tool some seconds before it ends


class JavaTools:
    """``pulsar-perf produce`` and ``consume``. Without Java there are no rivals."""

    def __init__(self, server: PulsarServer, *, quick: bool) -> None:
        self._server = server
        self._quick = quick
        self.missing = "" if shutil.which("java") else "java is not on the search path"
        """Why the tools are missing; empty if they are not."""

    def producing(self, topic: str, size: int) -> Sequence[Side]:
        """Return the rival that sends messages of one size in batches."""
        messages = SENT_MESSAGES // 10 if self._quick else SENT_MESSAGES
        options = ("-au", self._server.admin_url, "-s", str(size), "-r", UNLIMITED, "-bm", "1000", "-o", "10000")
        return self._side("produce", lambda: (*options, "-m", str(messages), topic), messages)

    def consuming(self, topic: str, messages: int) -> Sequence[Side]:
        """Return the rival that reads messages, with a subscription that acks each."""
        options = ("-sp", "Earliest", "-q", "1000", "-m", str(messages))
        return self._side("consume", lambda: (*options, "-ss", f"perf-{uuid4().hex}", topic), messages)

    def _side(self, tool: str, options: Callable[[], Sequence[str]], messages: int) -> Sequence[Side]:
        if self.missing:
            return ()

        @contextmanager
        def prepare() -> Iterator[Work]:
            command = self._server.tool("perf", tool, "-u", self._server.service_url, *options())
            yield lambda: _run_until_done(command, messages)

        return (Side("java", f"Java's pulsar-perf {tool} in its own process, including the start of its JVM", prepare),)


def _run_until_done(command: Sequence[str], messages: int) -> int:
    """Run the tool until it is done, without waiting for its report, ten seconds after its start."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if DONE in line:
                process.kill()
                return messages
    raise RuntimeError(f"pulsar-perf ended without sending or reading all messages:\n{''.join(lines[-20:])}")
