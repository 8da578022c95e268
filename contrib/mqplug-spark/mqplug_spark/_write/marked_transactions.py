"""Writes in transactions: the rows of a task become visible together, and a mark in the transaction makes them once."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from typing import Final

import pyarrow as pa

from mqplug import Client, Transaction
from mqplug_spark._options.write_options import Partitioner
from mqplug_spark._rows.written_rows import TopicRows, WrittenRows
from mqplug_spark._write.task import Task
from mqplug_spark._write.task_steps import STEP_TIMEOUT_S, MarkedStep, TaskStep

NO_LIMIT: Final = (1 << 63) - 1  # of a step: the flushes bound what is in memory


def send_in_transaction(client: Client, rows: WrittenRows, task: Task, partitioner: Partitioner) -> None:
    """Send the rows of a task in one transaction, which nothing marks: a task that is repeated sends them again."""
    with TaskStep(_step(client, f"{task.mark.writer}-{task.number}", partitioner)) as step:
        for each in rows:
            step.send(_naming_topic(each))


def send_marked(client: Client, rows: WrittenRows, task: Task, partitioner: Partitioner) -> None:
    """Send the rows of a task in a transaction for each topic. What was committed under this mark is not sent again."""
    with ExitStack() as committing:
        steps: dict[str, MarkedStep] = {}
        for each in rows:
            if each.topic not in steps:
                name = transaction_name(task, each.topic)
                step = _step(client, name, partitioner, each.topic, task.mark.number)
                steps[each.topic] = committing.enter_context(MarkedStep(step, task))
            steps[each.topic].send(each.columns)
        for marked in steps.values():
            marked.mark()


def transaction_name(task: Task, topic: str) -> str:
    """Return the name under which a task sends to a topic: the same for each attempt, which fences those before."""
    return f"{task.mark.writer}-{task.number}-{hashlib.sha256(topic.encode()).hexdigest()[:12]}"


def _step(
    client: Client, name: str, partitioner: Partitioner, topic: str | None = None, number: int | None = None
) -> Transaction:
    return client.transaction(
        name, topic, number=number, partitioner=partitioner, queue_messages=NO_LIMIT, queue_bytes=NO_LIMIT,
        timeout=STEP_TIMEOUT_S,
    )  # fmt: skip


def _naming_topic(rows: TopicRows) -> pa.RecordBatch:
    return rows.columns.append_column("topic", pa.repeat(pa.scalar(rows.topic), len(rows.columns)))
