"""Connects to backends that Spark's processes can share."""

from __future__ import annotations

from mqplug import Client, Unsupported
from mqplug_spark._options.backend_settings import BackendSettings


def connect(settings: BackendSettings) -> Client:
    """Return a client of a backend that other processes can reach. Raise ``Unsupported`` for any other."""
    client = settings.connect()
    able = client.capabilities
    if able.persistent or able.multi_node:
        return client
    client.close()
    raise Unsupported(
        "persistent", f"{client.backend} keeps its messages in one process; Spark's tasks run in others",
        backend=client.backend, operation="connect for Spark", fix="Use a backend such as rocksmq, kafka or pulsar",
    )  # fmt: skip
