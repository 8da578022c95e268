"""Java's performance tools as rivals. Each turn is a whole process, so it includes the start of its JVM."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks._contests import Side, Work
from mqplug_devbrokers import BrokerError, KafkaServer

TOOL_TIMEOUT_S = 300
BATCH_BYTES = 131_072  # Java's default of 16 KiB is slower


class JavaTools:
    """Kafka's ``ProducerPerformance`` and ``ConsumerPerformance``. Without Java or the tools there are no rivals."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server
        self.missing = ""
        """Why the tools are missing; empty if they are not."""
        try:
            server.tool("ProducerPerformance")
        except BrokerError as error:
            self.missing = str(error)

    def producing(self, topic: str, size: int, messages: int) -> Sequence[Side]:
        """Return the rival that sends messages of one size."""
        options = (
            "--topic", topic, "--num-records", str(messages), "--record-size", str(size), "--throughput", "-1",
            "--command-property", "acks=all", f"batch.size={BATCH_BYTES}", "linger.ms=5",
        )  # fmt: skip
        return self._side("ProducerPerformance", options, messages)

    def consuming(self, topic: str, messages: int) -> Sequence[Side]:
        """Return the rival that reads messages."""
        return self._side("ConsumerPerformance", ("--topic", topic, "--num-records", str(messages)), messages)

    def _side(self, tool: str, options: Sequence[str], messages: int) -> Sequence[Side]:
        if self.missing:
            return ()
        command = self._server.tool(tool, *options)

        def work() -> int:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TOOL_TIMEOUT_S)
            return messages

        @contextmanager
        def prepare() -> Iterator[Work]:
            yield work

        return (Side("java", f"Java's {tool} in its own process, including the start of its JVM", prepare),)
