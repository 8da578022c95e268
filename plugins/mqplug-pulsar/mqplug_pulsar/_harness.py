"""The contract kit's harness over a running broker, which it uses like any client and does not disturb.

``mqplug test pulsar://host:port`` finds ``harness`` here. No other module of the plugin needs this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import mqplug
from mqplug import Client
from mqplug_testing import DISTURBING_HOOKS, Harness

UNANSWERED: Final = "a commit of a member that was stopped until another took over gets no answer: it ends with Timeout"
KNOWN_FAILURES: Final[dict[str, str]] = dict.fromkeys(("GRP-41", "GRP-42"), UNANSWERED)
"""Cases that fail over any Pulsar, and why. The README lists the limits that users meet."""


@contextmanager
def harness(url: str) -> Iterator[Harness]:
    """Yield a harness over the broker at a URL."""

    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(url, extensions=extensions)

    yield Harness(
        connect=connect,
        extended=connect,
        second_process=url,
        unreachable=lambda host, port, timeout: mqplug.connect(f"pulsar://{host}:{port}", timeout=timeout),
        absent=dict.fromkeys(DISTURBING_HOOKS, "the kit does not disturb a broker that it did not start"),
        known_failures=KNOWN_FAILURES,
    )
