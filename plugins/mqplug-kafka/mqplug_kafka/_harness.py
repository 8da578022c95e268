"""The contract kit's harness over a running broker, which it uses like any client and does not disturb.

``mqplug test kafka://host:port`` finds ``harness`` here. No other module of the plugin needs this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import mqplug
from mqplug import Client
from mqplug_testing import DISTURBING_HOOKS, Harness

POLL_LIMIT_S: Final = 6.0  # the shortest session that a broker allows by default
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")


@contextmanager
def harness(url: str) -> Iterator[Harness]:
    """Yield a harness over the broker at a URL."""

    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(url, extensions=extensions)

    def hasty() -> Client:
        limits = {"max.poll.interval.ms": f"{POLL_LIMIT_S * 1000:.0f}"}
        if "group_protocol=consumer" in url:  # the brokers set the session's length
            return mqplug.connect(url, librdkafka=limits)
        return mqplug.connect(url, session_timeout=POLL_LIMIT_S, librdkafka=limits)

    def compressing(codec: str) -> Client:
        return mqplug.connect(url, librdkafka={"compression.type": codec})

    yield Harness(
        connect=connect,
        extended=connect,
        second_process=url,
        unreachable=lambda host, port, timeout: mqplug.connect(f"kafka://{host}:{port}", timeout=timeout),
        hasty=hasty,
        poll_limit=POLL_LIMIT_S,
        codecs={codec: partial(compressing, codec) for codec in CODECS},
        absent=dict.fromkeys(DISTURBING_HOOKS, "the kit does not disturb a broker that it did not start"),
    )
