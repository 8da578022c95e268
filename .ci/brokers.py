"""Run the contract on Kafka and Pulsar as users do: by URL, from wheels, on brokers that the kit does not control.

Usage: python .ci/brokers.py, where .ci/wheels.py has installed the plugins and mqplug-devbrokers.
"""

from __future__ import annotations

import subprocess
import sys

from mqplug_devbrokers import KafkaServer, PulsarServer


def main() -> int:
    """Run the contract on one server after the other, and return the number of failures."""
    failed = 0
    for server in (KafkaServer(), PulsarServer()):
        with server:
            failed += (
                subprocess.run([sys.executable, "-m", "mqplug_cli", "test", server.url], check=False).returncode != 0
            )
    return failed


sys.exit(main())
