"""What a task does with its rows, as the backend can: by stages, in transactions, or plainly."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from mqplug import Client, Closed, ConnectError, Staged
from mqplug_spark._clients.connecting import connect
from mqplug_spark._clients.process_clients import drop_client, process_client
from mqplug_spark._options.write_options import WriteOptions
from mqplug_spark._rows.written_rows import WrittenRows
from mqplug_spark._write.marked_transactions import send_in_transaction, send_marked
from mqplug_spark._write.plain import send_plainly
from mqplug_spark._write.staged import stage_rows
from mqplug_spark._write.task import Task
from mqplug_spark._write.written import WrittenByTask


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
    """Return what is staged, for the driver's commit, and whether the task has committed under a mark."""
    able = client.capabilities
    if able.staged_ingest:
        return stage_rows(client, rows, options.partitioner), False
    if not able.transactions:
        send_plainly(client, rows, options.partitioner)
        return (), False
    with connect(options.backend) as holder:  # of its own: a new client takes the name of the transaction over
        if task.once:
            send_marked(client, holder, rows, task, options)
        else:
            send_in_transaction(holder, rows, task, options.partitioner)
    return (), task.once
