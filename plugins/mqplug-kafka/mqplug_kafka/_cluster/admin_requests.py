"""Waiting for the native client: bounded, interruptible, and with the reason why nothing came."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from threading import Lock, Thread
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mqplug import Error
from mqplug_kafka._cluster.connection_failures import ConnectionFailures
from mqplug_kafka._cluster.errors import TRANSIENT_CODES, code_of, error_from_native, native
from mqplug_kafka._cluster.log_throttle import logger

T = TypeVar("T")

WAIT_SLICE_S = 0.05
RETRY_PAUSE_S = 0.02  # seconds before a question is asked again that a broker was not ready for
MIN_TIMEOUT_S = 0.01  # seconds: the native client refuses a request timeout of 0
MIN_CLIENT_AGE_S = 10.0  # seconds between two native admin clients: there are no more than that in an outage
REPLACED_CLIENT_S = (
    90.0  # seconds until a replaced one is let go of: what was asked of it has ended, to end it before is unsafe
)
OUTAGE_LIMIT_S = 2.0  # seconds that a connect goes on after all brokers were down

_NO_ANSWER = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError._DESTROY,
    KafkaError._DESTROY_BROKER,
}


class AdminRequests:
    """Waits for the futures of one admin client."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.failures = ConnectionFailures()
        self._options: dict[str, Any] = {**options, "error_cb": self.failures, "logger": logger}
        self._lock = Lock()
        self._former: deque[tuple[float, AdminClient]] = deque()  # those that were replaced, and when
        self._admin = AdminClient(self._options)
        self._made = time.monotonic()
        self._unanswered = False

    @property
    def admin(self) -> AdminClient:
        """The native admin client; a new one after an outage.

        Where all brokers were away, librdkafka 2.16 now and then never answers again.
        """
        if self._unanswered or self.failures.down_at > self._made:
            with self._lock:
                now = time.monotonic()
                if now - self._made > MIN_CLIENT_AGE_S:
                    self._former.append((now, self._admin))
                    self._admin, self._made, self._unanswered = AdminClient(self._options), now, False
                while self._former and now - self._former[0][0] > REPLACED_CLIENT_S:
                    self._former.popleft()
        return self._admin

    def is_fresh(self) -> bool:
        """Whether a broker was in reach ever since the native admin client was made."""
        self._admin.poll(0)
        return not self._unanswered and self.failures.down_at < self._made

    def end(self) -> None:
        """End the native admin client, whatever it was asked; does not wait."""
        clients = [self._admin, *(admin for _, admin in self._former)]
        self._former.clear()
        del self._admin
        Thread(target=clients.clear, name="mqplug-kafka-end", daemon=True).start()

    def doubt(self) -> None:
        """A question got no answer: the next one may be asked by a new native client."""
        self._unanswered = True

    def ask(
        self, what: str, ask: Callable[[float], Future[T]], timeout: float, check: Callable[[T], None] | None = None
    ) -> T:
        """The answer to one question; ``ask`` gets the native request's timeout.

        It asks again when a broker is not ready yet. ``check`` raises the refusals that are inside an answer.
        """
        end = time.monotonic() + max(timeout, MIN_TIMEOUT_S)
        while True:
            left = max(MIN_TIMEOUT_S, end - time.monotonic())
            try:
                answer = self.wait(what, ask(left), left)
                if check is not None:
                    check(answer)
            except Error as error:
                if code_of(error) not in TRANSIENT_CODES or time.monotonic() + RETRY_PAUSE_S >= end:
                    raise
                time.sleep(RETRY_PAUSE_S)
            else:
                return answer

    def wait(self, what: str, future: Future[T], timeout: float, patience: float = math.inf) -> T:
        """A future's result. What it raises is typed; when none comes, the error says why.

        ``patience`` bounds how long it goes on while all brokers are down.
        """
        began = time.monotonic()
        end = began + max(timeout, MIN_TIMEOUT_S)
        while True:
            try:
                return future.result(max(0.0, min(WAIT_SLICE_S, end - time.monotonic())))
            except FutureTimeout:
                self._admin.poll(0)
                if time.monotonic() >= end or self.failures.hopeless(began, patience):
                    self.doubt()
                    raise self.failures.explain(what, began) from None
            except KafkaException as error:
                self._admin.poll(0)
                if native(error).code() in _NO_ANSWER:
                    self.doubt()
                    raise self.failures.explain(what, began, error) from error
                raise error_from_native(error, what) from error
