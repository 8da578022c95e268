"""What the driver does before and after the tasks of a write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeGuard

from pyspark.sql.datasource import WriterCommitMessage

from mqplug import Client, Staged, Unsupported
from mqplug_spark._clients.process_clients import ask
from mqplug_spark._options.write_options import WriteOptions
from mqplug_spark._write.staged import ingest_all
from mqplug_spark._write.written import WrittenByTask


def check_backend(options: WriteOptions) -> None:
    """Raise if the backend cannot do what the options ask for, or the topic does not exist."""
    ask(options.backend, partial(_check, options))


def _check(options: WriteOptions, client: Client) -> None:
    able = client.capabilities
    if options.mark is not None and not (able.staged_ingest or able.transactions):
        raise Unsupported(
            "transactions", f"{client.backend} cannot store rows once under the options 'writer' and 'number'",
            backend=client.backend, operation="write",
            fix="Leave both options out: rows of a write that is repeated come twice then",
        )  # fmt: skip
    if options.topic is not None:
        client.describe(options.topic)


def commit_all(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Make visible what tasks staged. Everything else is committed already, by its task."""
    written = list(filter(_is_written, messages))
    if staged := _staged(written):
        ingest_all(options.backend, staged, written[0].mark)


def abort_all(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Remove what tasks staged. What they sent otherwise stays."""
    if staged := _staged(list(filter(_is_written, messages))):
        ask(options.backend, lambda client: client.discard(staged))


def _staged(written: Sequence[WrittenByTask]) -> list[Staged]:
    return [each for task in written for each in task.staged]


def _is_written(message: WriterCommitMessage | None) -> TypeGuard[WrittenByTask]:
    return isinstance(message, WrittenByTask)
