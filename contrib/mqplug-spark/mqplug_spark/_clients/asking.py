"""Asks a backend where the first error would end a query or a write: so a lost connection is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from mqplug import Client, Closed, ConnectError, Error, Timeout
from mqplug_spark._clients.process_clients import drop_client, process_client
from mqplug_spark._options.backend_settings import BackendSettings

R = TypeVar("R")
Question = Callable[[Client], R]

PAUSE_S: Final = 0.2
AWAY: Final[tuple[type[Error], ...]] = (ConnectError, Closed, Timeout)
"""What is raised while a backend is away."""


@attrs.frozen
class Asking:
    """Asks by the client of this process, again and again for ``patience`` seconds while the backend is away.

    ``repeatable`` are the errors after which the question may be asked again.
    """

    backend: BackendSettings
    patience: float
    repeatable: tuple[type[Error], ...] = AWAY

    def __call__(self, question: Question[R]) -> R:
        """Return the answer to a question, which calls a client. Raise the last error at the end."""
        deadline = time.monotonic() + self.patience
        while True:
            client = None
            try:
                client = process_client(self.backend)
                return question(client)
            except self.repeatable as error:
                if client is not None and isinstance(error, ConnectError | Closed):
                    drop_client(self.backend, client)
                if time.monotonic() + PAUSE_S > deadline:
                    raise
                time.sleep(PAUSE_S)
