"""The client's producer of one transaction name. Its calls run on their own thread, so that a wait can end.

A call that its caller gave up continues: a commit with a late answer is still carried out, or refused. The next step of
the name waits for it. The name is claimed only once: a client's producer that claimed it again would take it back from
a holder that fenced this one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from threading import Event

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mqplug import Error, Fenced, Timeout
from mqplug.spi import Deadline
from mqplug_kafka._cluster.admin_requests import WAIT_SLICE_S
from mqplug_kafka._cluster.client_options import ALONE, transacting
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import FENCED_CODES, client_error, code_of, typed_error
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._cluster.sender import Sender
from mqplug_kafka._cluster.shared_producer import SharedProducer
from mqplug_kafka._cluster.worker import Worker

NO_REASON_CODES = {KafkaError._INCONSISTENT, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER}
"""Codes that report only that a record of this transaction or the previous one was lost."""

BATCH_DIVISOR = 8  # of the batch size, after a batch was too large for its topic
SMALLEST_BATCH_BYTES = 2048  # below this size, each batch has one record
CALL_SLICE_S = 1.0  # a client's call is resumed this often, to see whether this object was closed
RESUME_PAUSE_S = 0.02  # before a client's call that returned early is resumed
CHECK_EVERY_S = 1.0  # while records are being delivered
FLUSH_SLICE_S = 0.05  # Ctrl-C waits this long for the delivery of records


class TransactionalClient:
    """A client's producer that holds a transaction name.

    ``batch_bytes`` is the size of its batches; None: from the settings.
    """

    def __init__(self, connection: KafkaConnection, name: str, batch_bytes: int | None = None) -> None:
        self.name = name
        self._connection = connection
        self._timeout_s = connection.settings.transaction_timeout
        self._failures = connection.requests.failures
        self._fatal: KafkaError | None = None
        self._worker = Worker("mqplug-kafka-transaction")
        self._closing = Event()
        self._claiming: Future[None] | None = None
        self._strangers: dict[str, bytes] = {}
        self._batch_bytes = batch_bytes
        self._create()

    def _create(self) -> None:
        options = transacting(self._connection.settings, self.name, self._batch_bytes)
        self.producer = SharedProducer(options, self._connection.credentials, self._failures, self._connection.compiled)
        """The client's producer, with the threads that wait for its reports."""
        self._sender = self.producer.sender
        self._fatal = None
        self._claiming = self._start(lambda sender, seconds: sender.init_transactions(seconds))

    def replace(self) -> None:
        """Continue with a new client's producer, which must claim the name.

        Call this only directly after an abort, which proved that this one held the name: later another may hold it.
        """
        self._end_sender()
        self._create()

    def make_smaller_batches(self) -> bool:
        """Make the next producer use an eighth of the batch size. Return False if batches already have one record."""
        before = self.producer.batch_bytes
        self._batch_bytes = before // BATCH_DIVISOR if before > SMALLEST_BATCH_BYTES else ALONE
        return before > ALONE

    def close(self) -> None:
        """End the client's producer. Unsent records are dropped."""
        self._closing.set()
        self._worker.stop()
        self._end_sender()

    def _end_sender(self) -> None:
        with self.noting_fatal():
            self._sender.purge()
            self._sender.poll(0)
        with self.noting_fatal():
            self.producer.end(0)
        del self._sender

    @contextmanager
    def noting_fatal(self) -> Iterator[None]:
        """Note a fatal error of the client's producer, which any poll of it may raise instead of calling back."""
        try:
            yield
        except KafkaException as error:
            if not client_error(error).fatal():
                raise
            self._fatal = client_error(error)

    # calls --------------------------------------------------------------------------------------------------

    def claim(self, deadline: Deadline) -> None:
        """Fence the older holder of the name, and abort its open transaction, unless this was already done."""
        began = time.monotonic()
        if self._claiming is not None:
            try:
                self.wait(f"transaction name {self.name!r}", self._claiming, deadline)
            except Timeout as error:
                raise self._failures.explain(f"transaction name {self.name!r}", began, error) from error
            self._claiming = None

    def begin(self, deadline: Deadline) -> None:
        """Begin a transaction."""
        self.wait("begin the transaction", self._worker.run(self._sender.begin_transaction), deadline)

    def commit(self) -> Future[None]:
        """Begin to commit. The commit continues until it succeeds or is refused."""
        return self._start(lambda sender, seconds: sender.commit_transaction(seconds))

    def abort(self) -> Future[None]:
        """Begin to abort. The abort continues until it succeeds."""
        return self._start(lambda sender, seconds: sender.abort_transaction(seconds))

    def store_positions(self, group: str, offsets: list[TopicPartition], member: bytes | None, left: Deadline) -> None:
        """Store positions of a group in the transaction, as this member, or as a program outside the group."""
        proof = member or self._stranger(group)
        seconds = max(RESUME_PAUSE_S, left.remaining(self._timeout_s))
        job = self._worker.run(lambda: self._sender.send_offsets_to_transaction(offsets, proof, seconds))
        self.wait(f"positions of the group {group!r}", job, left)

    def deliver(self, deadline: Deadline, enough: Callable[[], bool], check: Callable[[], None]) -> None:
        """Wait until all records are delivered, or ``enough`` returns true. Raise ``Timeout`` after the deadline.

        Call ``check`` every second: the client waits forever for a deleted topic.
        """
        due = time.monotonic() + CHECK_EVERY_S
        while len(self._sender) and not enough() and self._fatal is None:
            if deadline.expired:
                raise Timeout(f"{len(self._sender)} records were not confirmed in time")
            if time.monotonic() >= due:
                check()
                due = time.monotonic() + CHECK_EVERY_S
            with self.noting_fatal():
                self._sender.flush(deadline.remaining(FLUSH_SLICE_S))

    def reason(self, deadline: Deadline) -> Error | None:
        """Return why the transaction must be aborted, which the client reports in answer to a commit.

        Only for a transaction that lost a record: its commit is refused. None if only that record is the reason.
        """
        try:
            self.wait("the transaction failed", self.commit(), deadline)
        except Error as error:
            return None if code_of(error) in NO_REASON_CODES else error
        return None

    def wait(self, what: str, future: Future[None], deadline: Deadline) -> None:
        """Wait for a call. Raise its error, typed, or ``Timeout`` if it does not end in time."""
        while not future.done():
            if deadline.expired:
                fix = "Allow more time, or check that the brokers are up"
                raise Timeout(f"{what}: no answer in time", fix=fix)
            with suppress(FutureTimeout, KafkaException):  # handled below
                future.result(deadline.remaining(WAIT_SLICE_S))
        try:
            future.result()
        except KafkaException as error:
            inner = client_error(error)
            if inner.fatal() or inner.code() in FENCED_CODES:
                self._fatal = inner
            raise self.broken or typed_error(error, what) from error

    @property
    def broken(self) -> Error | None:
        """The error of a client's producer that was fenced or failed for good; None while it can be used."""
        fatal = self._fatal
        if fatal is None:
            return None
        if fatal.code() in FENCED_CODES:
            return Fenced(
                f"the transaction name {self.name!r} was taken over by another client, or one of its transactions was "
                f"open for longer than transaction_timeout ({self._timeout_s:g} s)",
                fix="Connect again to take the name back, and make sure that only one program uses it at a time",
            )
        made = typed_error(fatal, f"transaction name {self.name!r}")
        made.fix = made.fix or "Connect again to claim the name anew"
        return made

    def _start(self, attempt: Callable[[Sender, float], None]) -> Future[None]:
        producer = self._sender
        return self._worker.run(lambda: self._repeat(producer, attempt))

    def _repeat(self, producer: Sender, attempt: Callable[[Sender, float], None]) -> None:
        """Make a client's call, and resume it as long as it only times out."""
        while True:
            try:
                attempt(producer, CALL_SLICE_S)
            except KafkaException as error:
                if self._closing.is_set() or not client_error(error).retriable():
                    raise
                self._closing.wait(RESUME_PAUSE_S)
            else:
                return

    def _stranger(self, group: str) -> bytes:
        """Return the client's proof for a program that is not a member of the group."""
        proof = self._strangers.get(group)
        if proof is None:
            outside = Consumer({"group.id": group, "bootstrap.servers": "", "log_level": 0, "logger": logger})
            proof = self._strangers[group] = outside.consumer_group_metadata()
            outside.close()
        return proof
