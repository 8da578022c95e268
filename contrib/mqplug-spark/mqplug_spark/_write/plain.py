"""Plain writes, where there are neither stages nor transactions: a task that is repeated sends its rows again."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from mqplug import Client, Error, Producer, SendFailed
from mqplug_spark._options.write_options import Partitioner
from mqplug_spark._rows.written_rows import TopicRows, WrittenRows

SEND_TIMEOUT_S: Final = 120.0  # for one batch of rows
MAX_ERRORS_TOLD: Final = 5


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
    told = "; ".join(f"row {number}: {each.message}" for number, each in failed[:MAX_ERRORS_TOLD])
    more = f"; and {len(failed) - MAX_ERRORS_TOLD} more" if len(failed) > MAX_ERRORS_TOLD else ""
    return SendFailed(
        f"{len(failed)} of {len(error.results)} rows may not be stored: {told}{more}",
        results=[each for _, each in failed], topic=rows.topic, backend=error.backend, operation="write",
        fix="Correct the rows or the backend, and write again: the other rows are stored, and come twice then",
    )  # fmt: skip
