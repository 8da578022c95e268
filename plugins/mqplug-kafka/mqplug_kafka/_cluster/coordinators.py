"""Requests to the coordinators of groups, which change, delete or describe a group.

A request that times out inside librdkafka while its coordinator is down is resumed when the coordinator comes back. Its
state is gone by then, and the process is aborted (librdkafka issue 4605). So no request times out inside librdkafka:
the caller stops waiting, and the client is ended. A request that was not sent by then is never sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient, ConsumerGroupDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug.spi import Deadline
from mqplug_kafka._cluster.admin_requests import AdminRequests
from mqplug_kafka._cluster.credentials import Credentials

T = TypeVar("T")

NATIVE_TIMEOUT_S = 3600.0  # librdkafka's own limit, which is never reached
MAX_WAIT_S = 3000.0  # a caller's wait ends before librdkafka's

MAX_IDLE_CLIENTS = 4  # kept for later requests


class Coordinators:
    """Admin clients for such requests. A client is used again only if all of its requests were answered."""

    def __init__(self, options: Mapping[str, Any], credentials: Credentials) -> None:
        self._options = options
        self._credentials = credentials
        self._idle: list[AdminRequests] = []

    def ask(
        self,
        what: str,
        ask: Callable[[AdminClient, float], Future[T]],
        timeout: float,
        check: Callable[[T], None] | None = None,
    ) -> None:
        """Wait for the answer to one request; ``ask`` gets the client, and the timeout to give to the request.

        ``check`` raises the refusals inside an answer.
        """
        with self._client() as requests:
            requests.ask(what, lambda _: ask(requests.admin, NATIVE_TIMEOUT_S), min(timeout, MAX_WAIT_S), check)

    def describe(self, groups: Sequence[str], timeout: float) -> dict[str, ConsumerGroupDescription]:
        """Return these groups as their coordinators describe them. A group that does not exist is described as dead."""
        if not groups:
            return {}
        deadline = Deadline(min(timeout, MAX_WAIT_S))
        with self._client() as requests:
            asked = requests.admin.describe_consumer_groups(list(groups), request_timeout=NATIVE_TIMEOUT_S)
            return {name: requests.wait(f"group {name!r}", asked[name], deadline.remaining()) for name in groups}

    def close(self) -> None:
        """Release the idle clients."""
        self._idle.clear()

    @contextmanager
    def _client(self) -> Iterator[AdminRequests]:
        requests = self._take()
        answered = False
        try:
            yield requests
            answered = True
        finally:
            if answered and len(self._idle) < MAX_IDLE_CLIENTS:
                self._idle.append(requests)
            else:
                requests.end()

    def _take(self) -> AdminRequests:
        """Return a client that never lost all brokers, for one that did may never answer again."""
        while True:
            try:
                requests = self._idle.pop()
            except IndexError:
                return AdminRequests(self._options, self._credentials)
            if requests.is_fresh():
                return requests
            requests.end()
