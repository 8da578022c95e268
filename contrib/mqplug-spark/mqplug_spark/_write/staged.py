"""Writes by stages: tasks put files beside the store, and the driver has all of them ingested as one."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mqplug import Client, Closed, ConnectError, OutcomeUnknown, Staged, Timeout
from mqplug_spark._clients.process_clients import drop_client, process_client
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._options.write_options import Partitioner, WriteMark
from mqplug_spark._rows.written_rows import WrittenRows
from mqplug_spark._write.stages_of_topics import StagesOfTopics

INGEST_RETRY_S = 120.0  # for which an ingest is repeated whose outcome is not known
RETRY_PAUSE_S = 0.5


def stage_rows(client: Client, rows: WrittenRows, partitioner: Partitioner) -> tuple[Staged, ...]:
    """Stage the rows of a task. If that fails, nothing of them stays."""
    with StagesOfTopics(client, partitioner) as stages:
        for each in rows:
            stages.write(each.topic, each.columns)
        return stages.finish()


def ingest_all(backend: BackendSettings, staged: Sequence[Staged], mark: WriteMark) -> None:
    """Make the staged rows of all tasks visible, at once and once. While the outcome is not known, repeat it."""
    began = time.monotonic()
    while True:
        try:
            client = process_client(backend)
            try:
                client.ingest(staged, writer=mark.writer, number=mark.number)
            except (Closed, ConnectError):
                drop_client(backend, client)
                raise
            return
        except (Closed, ConnectError, OutcomeUnknown, Timeout):
            if time.monotonic() - began > INGEST_RETRY_S:
                raise
            time.sleep(RETRY_PAUSE_S)
