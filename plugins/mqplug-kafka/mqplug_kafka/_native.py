"""Waiting for the native client: bounded, interruptible, and with the reason why nothing came."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mqplug import AuthError, ConnectError, Error, Timeout
from mqplug_kafka._calm import Calm
from mqplug_kafka._errors import PASSING, code_of, native, translate

T = TypeVar("T")

SLICE = 0.05
AGAIN = 0.02  # seconds before a question is asked again that a broker was not ready for
SHORTEST = 0.01  # seconds: the native client refuses a request timeout of 0
RENEW_S = 10.0  # seconds between two native admin clients: there are no more than that in an outage
LINGER_S = 90.0  # seconds until a replaced one is let go of: what was asked of it has ended, to end it before is unsafe
PATIENCE = 2.0  # seconds that a connect goes on after all brokers were down

logger = logging.getLogger("mqplug.kafka")
logger.addHandler(logging.NullHandler())
logger.addFilter(Calm())
"""Where the native client's own log goes, instead of stderr."""

_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL}
_NO_ANSWER = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError._DESTROY,
    KafkaError._DESTROY_BROKER,
}


class Reasons:
    """Why the connection fails: the native client tells only its error callback, calls just time out."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self._moment = 0.0
        self._down_since: float | None = None
        self.down_at = -math.inf
        """When all brokers were down last."""

    def __call__(self, error: KafkaError) -> None:
        """Remember an error; serves as ``error_cb``."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.down_at = time.monotonic()
            self._down_since = self._down_since or self.down_at
            if self._last is not None:
                return  # it says less than what came before
        self._last, self._moment = error, time.monotonic()

    def hopeless(self, since: float, patience: float) -> bool:
        """Whether to wait makes no sense: credentials or certificates were refused, or all brokers are down."""
        if self._last is None or self._moment < since:
            return False
        down = self._down_since is not None and time.monotonic() - self._down_since > patience
        return down or self._last.code() in _REFUSED

    def explain(self, what: str, since: float, cause: BaseException | None = None) -> Error:
        """The error for a call that got no answer."""
        if self._last is None or self._moment < since:
            silent = Timeout(f"{what}: no answer in time", fix="Allow more time, and see that the brokers are well")
            silent.__cause__ = cause
            return silent
        refused = self._last.code() == KafkaError._AUTHENTICATION
        return translate(self._last, what, AuthError if refused else ConnectError)


class Patient:
    """Waits for the futures of one admin client."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.reasons = Reasons()
        self._options: dict[str, Any] = {**options, "error_cb": self.reasons, "logger": logger}
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
        if self._unanswered or self.reasons.down_at > self._made:
            with self._lock:
                now = time.monotonic()
                if now - self._made > RENEW_S:
                    self._former.append((now, self._admin))
                    self._admin, self._made, self._unanswered = AdminClient(self._options), now, False
                while self._former and now - self._former[0][0] > LINGER_S:
                    self._former.popleft()
        return self._admin

    def is_fresh(self) -> bool:
        """Whether a broker was in reach ever since the native admin client was made."""
        self._admin.poll(0)
        return not self._unanswered and self.reasons.down_at < self._made

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
        end = time.monotonic() + max(timeout, SHORTEST)
        while True:
            left = max(SHORTEST, end - time.monotonic())
            try:
                answer = self.wait(what, ask(left), left)
                if check is not None:
                    check(answer)
            except Error as error:
                if code_of(error) not in PASSING or time.monotonic() + AGAIN >= end:
                    raise
                time.sleep(AGAIN)
            else:
                return answer

    def wait(self, what: str, future: Future[T], timeout: float, patience: float = math.inf) -> T:
        """A future's result. What it raises is typed; when none comes, the error says why.

        ``patience`` bounds how long it goes on while all brokers are down.
        """
        began = time.monotonic()
        end = began + max(timeout, SHORTEST)
        while True:
            try:
                return future.result(max(0.0, min(SLICE, end - time.monotonic())))
            except FutureTimeout:
                self._admin.poll(0)
                if time.monotonic() >= end or self.reasons.hopeless(began, patience):
                    self.doubt()
                    raise self.reasons.explain(what, began) from None
            except KafkaException as error:
                self._admin.poll(0)
                if native(error).code() in _NO_ANSWER:
                    self.doubt()
                    raise self.reasons.explain(what, began, error) from error
                raise translate(error, what) from error


class Worker:
    """Runs native calls that cannot be bounded or interrupted on a thread of its own, one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def run(self, job: Callable[[], T]) -> Future[T]:
        """Begin a job; its future."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return future

    def stop(self) -> None:
        """End after the jobs that were begun; does not wait."""
        if self._thread is not None:
            self._jobs.put(None)

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, future = task
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001  # it belongs to whoever waits
                future.set_exception(error)
