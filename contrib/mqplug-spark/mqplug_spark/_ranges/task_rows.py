"""The rows of one task, in batches and streams alike: its range, read despite lost connections and lost messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from mqplug import Batch, Client, Closed, ConnectError, Position, PositionLost, Timeout
from mqplug_spark._clients import drop_client, process_client
from mqplug_spark._columns import ReadColumns
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.data_loss import log_loss
from mqplug_spark._ranges.read_range import ReadRange

MAX_BATCH_ROWS = 10_000  # in a record batch, as in Spark itself
RECONNECT_PAUSE_S = 0.2


def task_rows(partition: InputPartition | None, options: ReadOptions, columns: ReadColumns) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one range. If none is planned, Spark passes None, or a partition whose value is None."""
    if partition is None or partition.value is None:
        return
    get, drop = partial(process_client, options.backend), partial(drop_client, options.backend)
    for batch in read_planned(get, drop, partition.value, options):
        yield columns.record_batch(batch)


def read_planned(
    get: Callable[[], Client], drop: Callable[[Client], None], planned: ReadRange, options: ReadOptions
) -> Iterator[Batch]:
    """Yield the messages of a range in batches. Reconnect after a lost connection, and continue.

    ``get`` returns the client of this process, and ``drop`` closes it, so that the next ``get`` reconnects.

    Raise ``PositionLost`` if retention overtook the range. With ``failOnDataLoss=false``, log the loss and continue
    after it. If nothing arrives within ``pollTimeoutMs``, raise the last error, or ``Timeout``.
    """
    position, until = planned.start, planned.until
    progressed = time.monotonic()
    while position < until:
        client = None
        try:
            client = get()
            for batch in _read(client, position, until, options):
                position = batch.next_position
                yield batch
                progressed = time.monotonic()
            return
        except PositionLost as error:
            if options.fail_on_data_loss or client is None or error.low is None or error.low <= position:
                raise
            log_loss(client, position, min(error.low, until))
            position = error.low
        except (Closed, ConnectError):
            if client is not None:
                drop(client)
            if time.monotonic() - progressed > options.poll_timeout:
                raise
            time.sleep(RECONNECT_PAUSE_S)


def _read(client: Client, start: Position, until: Position, options: ReadOptions) -> Iterator[Batch]:
    """Yield the batches that one connection receives."""
    log = start.log
    with client.consumer(log.topic, start=start, until=until, partitions=[log.partition]) as consumer:
        while consumer.position()[log.partition] < until:
            batch = consumer.receive_many(MAX_BATCH_ROWS, options.poll_timeout)
            if len(batch):
                yield batch
            elif consumer.position()[log.partition] < until:
                raise Timeout(
                    f"no message arrived from {log.topic}[{log.partition}] for {options.poll_timeout:g} s, "
                    f"although the range has more",
                    topic=log.topic, operation="read", fix="Check that the backend is up, or increase pollTimeoutMs",
                )  # fmt: skip
