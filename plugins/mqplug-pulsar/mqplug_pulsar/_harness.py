"""What the contract kit can do over a broker that somebody else runs: come and go as a client does, and nothing more.

``mqplug test pulsar://host:port`` finds ``harness`` here. Nothing else of the plugin needs this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import mqplug
from mqplug import Client
from mqplug.testing import DISTURBING_HOOKS, Harness

UNANSWERED: Final = (
    "a commit of a member that stood still until another took over is not answered: it ends with Timeout"
)
KNOWN_FAILURES: Final[dict[str, str]] = dict.fromkeys(("GRP-41", "GRP-42"), UNANSWERED)
"""Cases that fail over any Pulsar, and why. A limit that users meet stands in the README too."""


@contextmanager
def harness(url: str) -> Iterator[Harness]:
    """The broker that a URL names."""

    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(url, extensions=extensions)

    yield Harness(
        connect=connect,
        extended=connect,
        second_process=url,
        unreachable=lambda host, port, timeout: mqplug.connect(f"pulsar://{host}:{port}", timeout=timeout),
        absent=dict.fromkeys(DISTURBING_HOOKS, "the broker is not the kit's to disturb"),
        known_failures=KNOWN_FAILURES,
    )
