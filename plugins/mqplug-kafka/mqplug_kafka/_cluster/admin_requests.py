"""Requests to the admin client: bounded, interruptible, repeated while brokers are not ready, with typed errors.

The client reports the cause of a failing connection only to its error callback, so a request without an answer takes
the reason from there.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError as FutureTimeout
from threading import Lock, Thread
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mqplug import AuthError, ConnectError, Error, Timeout
from mqplug.spi import Deadline
from mqplug_kafka._cluster.credentials import Credentials
from mqplug_kafka._cluster.errors import client_error, is_transient, typed_error
from mqplug_kafka._cluster.log_throttle import logger

_FIXES = {
    "OAUTHBEARER token": "Check token_endpoint, client_id and client_secret, or the token provider",
    "mechanism handshake failed": "Choose a mechanism= that the broker supports; if it lists none, leave username out",
    "certificate verify failed": "Set ca_file (or ca_pem) to the authority that signed the broker's certificate, and "
    "write its host as the certificate does",
    "PLAINTEXT broker listener": "Set tls=False, or use the port at which the broker expects TLS",
    "alert": "Set cert_file and key_file to a certificate that is valid now and that the broker trusts",
    "in state SSL_HANDSHAKE": "Set tls=False if the broker expects no TLS at this port, and check the certificates",
    "SASL authentication": "Check username, password and mechanism, or the token",
}
"""Fixes, by a part of the client's error text."""
_SILENT = "the brokers closed each connection without giving a reason, or none could be opened"
_CLOSED = ("Send failed: Broken pipe", "reset by peer")  # the client's words for a connection closed by the broker
_SILENT_FIX = "Check servers=, and whether this port expects tls=True or username= and password="

REFUSAL_S = 1.0  # for this long, a refusal is not replaced by errors that follow from it and name no cause
_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL}
_OUT_OF_TURN = "Request not valid in current SASL state"
"""The error of a broker without SASL, and of one at which a connection authenticates twice within a second.

The latter happens occasionally when a token is renewed. The client then reconnects.
"""

T = TypeVar("T")

WAIT_SLICE_S = 0.05  # between two checks whether waiting still makes sense
RETRY_PAUSE_S = 0.02  # before a request is repeated that a broker was not ready for
UNANSWERED_PAUSE_S = 0.1  # before an unanswered request is repeated
FIRST_ATTEMPT_S = 10.0  # for the answer to a request; each further attempt gets twice as long
MIN_TIMEOUT_S = 0.01  # the client refuses a request timeout of 0
MIN_CLIENT_AGE_S = 10.0  # during an outage, the admin client is replaced at most this often
REPLACED_CLIENT_S = 90.0  # until a replaced client is released: by then its requests have ended, earlier is unsafe
OUTAGE_LIMIT_S = 0.9  # a connect gives up when all brokers fail for this long, and raises after a second

_NO_ANSWER = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError._DESTROY,
    KafkaError._DESTROY_BROKER,
}


class AdminRequests:
    """The admin client, and the requests to it."""

    def __init__(self, options: Mapping[str, Any], credentials: Credentials) -> None:
        self.failures = ConnectionFailures()
        self._options = options
        self._servers = len(set(options["bootstrap.servers"].split(",")))
        self._credentials = credentials
        self._lock = Lock()
        self._former: deque[tuple[float, AdminClient]] = deque()  # replaced clients, and when
        self._generation = credentials.generation
        self._admin = self._create()
        self._made = time.monotonic()
        self._unanswered = False

    @property
    def admin(self) -> AdminClient:
        """The admin client, a new one after an outage, or if certificates were renewed.

        After all brokers were down, librdkafka 2.16 sometimes never answers again.
        """
        if self._unanswered or self._is_outdated() or self.failures.down_at > self._made:
            with self._lock:
                now = time.monotonic()
                if now - self._made > MIN_CLIENT_AGE_S or self._is_outdated():
                    self._replace(now)
                while self._former and now - self._former[0][0] > REPLACED_CLIENT_S:
                    self._former.popleft()
        return self._admin

    def _is_outdated(self) -> bool:
        return self._credentials.generation != self._generation

    def _create(self) -> AdminClient:
        return AdminClient(self._credentials.prepared(self._options, self.failures))

    def _replace(self, now: float) -> None:
        """Create a new client. Keep the old one if there are no valid credentials for a new one now."""
        self._made, self._generation = now, self._credentials.generation
        try:
            admin = self._create()
        except (Error, KafkaException) as error:
            logger.warning("the admin client could not be replaced: %s", error)
        else:
            self._former.append((now, self._admin))
            self._admin, self._unanswered = admin, False

    def is_fresh(self) -> bool:
        """Return whether a broker was reachable at all times since the admin client was created."""
        self._admin.poll(0)
        return not self._unanswered and not self._is_outdated() and self.failures.down_at < self._made

    def end(self) -> None:
        """End the admin client and its open requests, without waiting."""
        clients = [self._admin, *(admin for _, admin in self._former)]
        self._former.clear()
        del self._admin
        Thread(target=clients.clear, name="mqplug-kafka-end", daemon=True).start()

    def note_unanswered(self) -> None:
        """Note that a request got no answer: the next one may use a new client."""
        self._unanswered = True

    def ask(
        self, what: str, ask: Callable[[float], Future[T]], timeout: float, check: Callable[[T], None] | None = None
    ) -> T:
        """Return the answer to one request; ``ask`` gets the timeout for the client's request.

        Repeat the request while a broker is not ready yet. ``check`` raises the refusals inside an answer.
        """
        deadline = Deadline(max(timeout, MIN_TIMEOUT_S))
        while True:
            left = max(MIN_TIMEOUT_S, deadline.remaining())
            try:
                answer = self.wait(what, ask(left), left)
                if check is not None:
                    check(answer)
            except Error as error:
                if not is_transient(error) or deadline.remaining() <= RETRY_PAUSE_S:
                    raise
                time.sleep(RETRY_PAUSE_S)
            else:
                return answer

    def insist(self, ask: Callable[[float], T], timeout: float) -> T:
        """Return the answer to a request that changes nothing; ``ask`` gets a timeout, and waits.

        Ask again if the connection broke, which the client also causes for a broker that is missing in the metadata.
        Ask through a new client after a long time without an answer, because the old one may never answer.
        """
        deadline, attempt_s = Deadline(max(timeout, MIN_TIMEOUT_S)), FIRST_ATTEMPT_S
        while True:
            began = time.monotonic()
            try:
                return ask(max(MIN_TIMEOUT_S, deadline.remaining(attempt_s)))
            except (ConnectError, Timeout):
                if deadline.remaining() <= UNANSWERED_PAUSE_S or self.is_refused(began):
                    raise
            attempt_s *= 2
            time.sleep(UNANSWERED_PAUSE_S)

    def is_refused(self, since: float) -> bool:
        """Return whether the brokers refused credentials or certificates, so that asking again is pointless."""
        return self.failures.hopeless(since, math.inf, self._servers)

    def wait_for_all(self, what: str, futures: Sequence[Future[T]], timeout: float) -> list[T]:
        """Return the results of the futures of one request, as ``wait`` does.

        One answer sets them all, usually in order. So wait only for the last: each wait costs two thread switches.
        """
        deadline = Deadline(max(timeout, MIN_TIMEOUT_S))
        for future in futures[-1:]:
            self.wait(what, future, deadline.remaining())
        try:
            return [future.result(0) for future in futures]
        except (FutureTimeout, KafkaException):
            return [self.wait(what, future, deadline.remaining()) for future in futures]

    def wait(self, what: str, future: Future[T], timeout: float, outage_limit: float = math.inf) -> T:
        """Return a future's result, or raise a typed error with the reason why there is none.

        Give up early when all brokers fail again ``outage_limit`` seconds after all have failed.
        """
        began = time.monotonic()
        deadline = Deadline(max(timeout, MIN_TIMEOUT_S))
        while True:
            try:
                answer = future.result(deadline.remaining(WAIT_SLICE_S))
            except FutureTimeout:
                self._admin.poll(0)
                if deadline.expired or self.failures.hopeless(began, outage_limit, self._servers):
                    self.note_unanswered()
                    raise self.failures.explain(what, began) from None
            except KafkaException as error:
                self._admin.poll(0)
                if client_error(error).code() in _NO_ANSWER:
                    self.note_unanswered()
                    raise self.failures.explain(what, began, error) from error
                raise typed_error(error, what) from error
            else:
                self.failures.had_answer = True
                return answer


class ConnectionFailures:
    """The last errors of the connection. The client's calls themselves only time out."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self._moment = 0.0
        self._failed_at: dict[str, float] = {}
        self._down_since: float | None = None
        self.down_at = -math.inf
        """When all brokers were last down, in monotonic time."""
        self.had_answer = False
        """Whether a broker has answered a request, so that the credentials were once accepted."""

    def __call__(self, error: KafkaError) -> None:
        """Remember an error. Used as ``error_cb``."""
        if self.had_answer and _OUT_OF_TURN in error.str():
            return
        now = time.monotonic()
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.down_at = now
            self._down_since = self._down_since or self.down_at
            if self._last is not None:
                return  # the previous error is more precise
        else:
            self._failed_at[error.str().partition(": ")[0]] = now
        if error.code() in _REFUSED or not self._was_refused(now - REFUSAL_S):
            self._last, self._moment = error, now

    def _was_refused(self, since: float) -> bool:
        return self._last is not None and self._last.code() in _REFUSED and self._moment > since

    def hopeless(self, since: float, outage_limit: float, servers: int) -> bool:
        """Return whether waiting is pointless: credentials or certificates refused, or all brokers down too long."""
        if self._last is None or self._moment < since:
            return False
        return self._last.code() in _REFUSED or self._failed_again(outage_limit, servers)

    def _failed_again(self, after: float, servers: int) -> bool:
        """Return whether all ``servers`` failed again, ``after`` seconds after all had failed.

        A server that has been silent since then may be slow, and about to answer.
        """
        if self._down_since is None:
            return False
        end = self._down_since + after
        return self.down_at > end or sum(moment > end for moment in self._failed_at.values()) >= servers

    def explain(self, what: str, since: float, cause: BaseException | None = None) -> Error:
        """Return the error for an unanswered operation."""
        if self._last is None or self._moment < since:
            silent = Timeout(f"{what}: no answer in time", fix="Allow more time, or check that the brokers are up")
            silent.__cause__ = cause
            return silent
        code = self._last.code()
        said = self._last.str()
        if code == KafkaError._ALL_BROKERS_DOWN or (
            code == KafkaError._TRANSPORT and any(closed in said for closed in _CLOSED)
        ):
            made: Error = ConnectError(f"{what}: {_SILENT}", fix=_SILENT_FIX)
            made.__cause__ = KafkaException(self._last)
            return made
        made = typed_error(self._last, what, AuthError if code == KafkaError._AUTHENTICATION else ConnectError)
        made.fix = next((fix for part, fix in _FIXES.items() if part in said), made.fix)
        return made
