"""Prove Kafka and Pulsar as their users do: by URL, from built wheels, over a broker that the kit does not control.

Usage: python .ci/brokers.py, where .ci/wheels.py has installed them, with mqplug-devbrokers.
"""

from __future__ import annotations

import subprocess
import sys

from mqplug_devbrokers import KafkaServer, PulsarServer


def main() -> int:
    """Prove one after the other; how many failed."""
    failed = 0
    for server in (KafkaServer(), PulsarServer()):
        with server:
            failed += (
                subprocess.run([sys.executable, "-m", "mqplug.cli", "test", server.url], check=False).returncode != 0
            )
    return failed


sys.exit(main())
