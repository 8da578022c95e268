"""Asks the backend in the process of a query, which ends with the first error: so a lost connection is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from mqplug import Client, Closed, ConnectError, Timeout
from mqplug_spark._clients.process_clients import drop_client, process_client
from mqplug_spark._options.backend_settings import BackendSettings

R = TypeVar("R")
Question = Callable[[Client], R]

PAUSE_S: Final = 0.2


@attrs.frozen
class Asking:
    """Asks by the client of this process, again and again for ``patience`` seconds while the backend is away."""

    backend: BackendSettings
    patience: float

    def __call__(self, question: Question[R]) -> R:
        """Return the answer to a question, which calls a client. Raise the last error at the end."""
        deadline = time.monotonic() + self.patience
        while True:
            client = None
            try:
                client = process_client(self.backend)
                return question(client)
            except (ConnectError, Closed, Timeout) as error:
                if client is not None and not isinstance(error, Timeout):
                    drop_client(self.backend, client)
                if time.monotonic() + PAUSE_S > deadline:
                    raise
                time.sleep(PAUSE_S)
