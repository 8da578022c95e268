"""Connects to backends that Spark's processes can share."""

from __future__ import annotations

import mqplug
from mqplug import Client, Unsupported


def connect(url: str) -> Client:
    """Return a client of a backend that other processes can reach. Raise ``Unsupported`` for any other."""
    client = mqplug.connect(url)
    able = client.capabilities
    if able.persistent or able.multi_node:
        return client
    client.close()
    raise Unsupported(
        "persistent", f"{client.backend} keeps its messages in one process; Spark's tasks run in others",
        backend=client.backend, operation="plan a Spark read", fix="Use a backend such as rocksmq, kafka or pulsar",
    )  # fmt: skip
