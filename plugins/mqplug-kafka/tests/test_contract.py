"""The contract, over a real Kafka."""

from __future__ import annotations

from functools import partial

import pytest

import mqplug
from mqplug.testing import Harness, prove


@pytest.fixture(scope="session")
def harness(kafka_server):
    """A broker that can be restarted, killed and frozen, and looks by itself for what retention removed."""

    def compressing(codec):
        return mqplug.connect("kafka", servers=[kafka_server.bootstrap], native={"compression.type": codec})

    return Harness(
        connect=lambda: mqplug.connect(kafka_server.url),
        extended=lambda extensions: mqplug.connect(kafka_server.url, extensions=extensions),
        restart=kafka_server.restart,
        second_process=f"{kafka_server.url}?session_timeout=4",
        unreachable=lambda host, port, timeout: mqplug.connect(f"kafka://{host}:{port}", timeout=timeout),
        kill=kafka_server.kill,
        start=kafka_server.start,
        pause=kafka_server.pause,
        unpause=kafka_server.unpause,
        cut_network=kafka_server.cut_network,
        heal_network=kafka_server.heal_network,
        behind_network=lambda: mqplug.connect(kafka_server.relayed_url),
        enforce=lambda client, topic: None,
        hasty=lambda: mqplug.connect(
            "kafka", servers=[kafka_server.bootstrap], session_timeout=2, native={"max.poll.interval.ms": "2000"}
        ),
        poll_limit=2.0,
        codecs={codec: partial(compressing, codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
        intruder=lambda timeout: mqplug.connect(
            "kafka", servers=[kafka_server.login], username="bob", password="guessed", timeout=timeout
        ),
    )


test_contract = prove()
