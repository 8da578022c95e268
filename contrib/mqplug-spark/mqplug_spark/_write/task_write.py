"""How a task writes its rows: staged, in a transaction, or plain, depending on the backend.

With neither stages nor transactions, a repeated task sends its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pyarrow as pa

from mqplug import Client, Closed, ConnectError, Error, Producer, SendFailed, Staged
from mqplug_spark._clients import connect, drop_client, process_client
from mqplug_spark._options.write_options import Partitioner, WriteOptions
from mqplug_spark._write.exactly_once import send_marked
from mqplug_spark._write.rows import TopicRows, WrittenRows
from mqplug_spark._write.stages import stage_rows
from mqplug_spark._write.task import Task, WrittenByTask
from mqplug_spark._write.transactions import send_in_transaction

SEND_TIMEOUT_S: Final = 120.0  # for one batch of rows
MAX_ERRORS_SHOWN: Final = 5


def write_rows(options: WriteOptions, task: Task, batches: Iterator[pa.RecordBatch]) -> WrittenByTask:
    """Write the rows of a task, or stage them for the driver's commit."""
    client = process_client(options.backend)
    try:
        rows = WrittenRows(
            batches, task.number, options.topic, client.capabilities.message_max_bytes,
            lambda topic: len(client.partitions(topic)),
        )  # fmt: skip
        staged, marked = _write(client, rows, options, task)
    except (Closed, ConnectError):
        drop_client(options.backend, client)
        raise
    return WrittenByTask(rows.count, task.mark, staged, task.execution if marked else None)


def _write(client: Client, rows: WrittenRows, options: WriteOptions, task: Task) -> tuple[tuple[Staged, ...], bool]:
    """Return the stages for the driver's commit, and whether the task committed with a mark."""
    able = client.capabilities
    if able.staged_ingest:
        return stage_rows(client, rows, options.partitioner), False
    if not able.transactions:
        send_plainly(client, rows, options.partitioner)
        return (), False
    with connect(options.backend) as holder:  # a separate client, because a new one takes over the transaction's name
        if task.once:
            send_marked(client, holder, rows, task, options)
        else:
            send_in_transaction(holder, rows, task, options.partitioner)
    return (), task.once


def send_plainly(client: Client, rows: WrittenRows, partitioner: Partitioner) -> None:
    """Send the rows of a task, and wait until all are stored."""
    with ExitStack() as opened:
        producers: dict[str, Producer] = {}
        for each in rows:
            if each.topic not in producers:
                producers[each.topic] = opened.enter_context(client.producer(each.topic, partitioner=partitioner))
            _send(producers[each.topic], each)


def _send(out: Producer, rows: TopicRows) -> None:
    try:
        out.send_many(rows.columns, timeout=SEND_TIMEOUT_S)
    except SendFailed as error:
        raise _with_rows(error, rows) from None


def _with_rows(error: SendFailed, rows: TopicRows) -> SendFailed:
    """Return an error that names the rows."""
    failed = [
        (number, each) for number, each in zip(rows.numbers, error.results, strict=True) if isinstance(each, Error)
    ]
    shown = "; ".join(f"row {number}: {each.message}" for number, each in failed[:MAX_ERRORS_SHOWN])
    more = f"; and {len(failed) - MAX_ERRORS_SHOWN} more" if len(failed) > MAX_ERRORS_SHOWN else ""
    return SendFailed(
        f"{len(failed)} of {len(error.results)} rows failed or have an unknown outcome: {shown}{more}",
        results=[each for _, each in failed], topic=rows.topic, backend=error.backend, operation="write",
        fix="Correct the rows or the backend, and write again. This stores the other rows a second time",
    )  # fmt: skip
