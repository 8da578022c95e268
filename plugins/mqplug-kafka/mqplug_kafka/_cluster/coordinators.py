"""Asking the coordinators of groups to change something, by admin clients.

A request that times out inside librdkafka while its coordinator is away is still known there, and is taken up when the
coordinator comes back: what it belonged to is gone by then, and the process is aborted (librdkafka issue 4605). So no
request times out inside librdkafka: whoever asks gives up waiting, and the client that was asked is ended. What was not
sent is never sent then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from mqplug_kafka._cluster.admin_requests import AdminRequests

T = TypeVar("T")

NATIVE_TIMEOUT_S = 3600.0  # seconds that librdkafka waits at most
MAX_WAIT_S = 3000.0  # seconds that a caller waits at most: its wait ends first

MAX_IDLE_CLIENTS = 4  # clients that wait for the next request


class Coordinators:
    """Admin clients that wait for the next request; each has got an answer to all of its former ones."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._idle: list[AdminRequests] = []

    def ask(
        self,
        what: str,
        ask: Callable[[AdminClient, float], Future[T]],
        timeout: float,
        check: Callable[[T], None] | None = None,
    ) -> None:
        """Wait for the answer to one request; ``ask`` gets the client, and the timeout that the request must have.

        ``check`` raises the refusals that are inside an answer.
        """
        requests = self._take()
        answered = False
        try:
            requests.ask(what, lambda _: ask(requests.admin, NATIVE_TIMEOUT_S), min(timeout, MAX_WAIT_S), check)
            answered = True
        finally:
            if answered and len(self._idle) < MAX_IDLE_CLIENTS:
                self._idle.append(requests)
            else:
                requests.end()

    def close(self) -> None:
        """Let go of the clients that wait."""
        self._idle.clear()

    def _take(self) -> AdminRequests:
        """A client that never lost all brokers: one that did may be mute."""
        while True:
            try:
                requests = self._idle.pop()
            except IndexError:
                return AdminRequests(self._options)
            if requests.is_fresh():
                return requests
            requests.end()
