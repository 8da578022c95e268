"""Reading one range, in the process of a task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Literal

import mqplug
from mqplug import Batch, Client, ConnectError, Consumer, Position, PositionLost, Timeout, Unsupported
from mqplug_spark._options import ReadOptions
from mqplug_spark._planning import ReadRange

MAX_BATCH_ROWS = 10_000  # messages of one record batch: as many as Spark itself puts into one
RECONNECT_PAUSE_S = 0.2  # seconds between two attempts to connect


def connect(url: str) -> Client:
    """A client of a backend that other processes can reach, too."""
    client = mqplug.connect(url)
    able = client.capabilities
    if able.persistent or able.multi_node:
        return client
    client.close()
    raise Unsupported(
        "persistent", f"{client.backend} keeps its messages in one process; Spark's tasks run in others",
        backend=client.backend, operation="plan a Spark read", fix="Use a backend such as rocksmq, kafka or pulsar",
    )  # fmt: skip


def read_planned(opening: Callable[[], Client], planned: ReadRange, options: ReadOptions) -> Iterator[Batch]:
    """The messages of a range in batches. A connection that is lost is made again, and reading goes on where it was.

    ``PositionLost`` where retention overtook the range, unless that was allowed. Where nothing comes for as long as
    ``pollTimeoutMs`` says, the last error, or ``Timeout``.
    """
    position, until = Position.parse(planned.start), Position.parse(planned.until)
    heard = time.monotonic()
    while position < until:
        try:
            with opening() as client:
                for batch in _read(client, position, until, options):
                    position = batch.next_position
                    yield batch
                    heard = time.monotonic()
                return
        except ConnectError:
            if time.monotonic() - heard > options.poll_timeout:
                raise
            time.sleep(RECONNECT_PAUSE_S)


def _read(client: Client, start: Position, until: Position, options: ReadOptions) -> Iterator[Batch]:
    """What one connection yields."""
    log = start.log
    missing: Literal["error", "next"] = "error" if options.fail_on_data_loss else "next"
    with client.consumer(log.topic, start=start, until=until, partitions=[log.partition], missing=missing) as consumer:
        while consumer.position()[log.partition] < until:
            batch = _receive(consumer, options)
            if len(batch):
                yield batch
            elif consumer.position()[log.partition] < until:
                raise Timeout(
                    f"nothing came from {log.topic}[{log.partition}] for {options.poll_timeout:g} s, "
                    f"though messages are stored there",
                    topic=log.topic, operation="read", fix="See whether the backend is well, or raise pollTimeoutMs",
                )  # fmt: skip


def _receive(consumer: Consumer, options: ReadOptions) -> Batch:
    """The next messages. What was lost is stepped over where that was allowed."""
    while True:
        try:
            return consumer.receive_many(MAX_BATCH_ROWS, options.poll_timeout)
        except PositionLost as error:
            if options.fail_on_data_loss or error.low is None:
                raise
            consumer.seek(error.low, missing="next")
