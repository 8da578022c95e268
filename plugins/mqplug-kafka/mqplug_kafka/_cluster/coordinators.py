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

from mqplug import Error
from mqplug.spi import Deadline
from mqplug_kafka._cluster.admin_requests import AdminRequests
from mqplug_kafka._cluster.credentials import Credentials
from mqplug_kafka._cluster.errors import is_transient

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
        """Return these groups as their coordinators describe them. A group that does not exist is described as dead.

        Groups whose coordinator moves, or still loads, are asked about again.
        """
        if not groups:
            return {}
        deadline = Deadline(min(timeout, MAX_WAIT_S))
        with self._client() as requests:
            asked = _describe(requests, groups)
            return {name: _described(requests, name, asked[name], deadline) for name in groups}

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


def _describe(requests: AdminRequests, groups: Sequence[str]) -> dict[str, Future[ConsumerGroupDescription]]:
    return requests.admin.describe_consumer_groups(list(groups), request_timeout=NATIVE_TIMEOUT_S)


def _described(
    requests: AdminRequests, group: str, asked: Future[ConsumerGroupDescription], deadline: Deadline
) -> ConsumerGroupDescription:
    """Return the answer about one group, of several that were asked about at once."""
    what = f"group {group!r}"
    try:
        return requests.wait(what, asked, deadline.remaining())
    except Error as error:
        if not is_transient(error):
            raise
    return requests.ask(what, lambda _: _describe(requests, [group])[group], deadline.remaining())
