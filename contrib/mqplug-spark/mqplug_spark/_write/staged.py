"""Writes by stages: tasks put files beside the store, and the driver has all of them ingested as one."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Client, OutcomeUnknown, Staged
from mqplug_spark._clients.asking import AWAY, Asking
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._options.write_options import Partitioner, WriteMark
from mqplug_spark._rows.written_rows import WrittenRows
from mqplug_spark._write.stages_of_topics import StagesOfTopics

INGEST_RETRY_S = 120.0  # for which an ingest is repeated whose outcome is not known


def stage_rows(client: Client, rows: WrittenRows, partitioner: Partitioner) -> tuple[Staged, ...]:
    """Stage the rows of a task. If that fails, nothing of them stays."""
    with StagesOfTopics(client, partitioner) as stages:
        for each in rows:
            stages.write(each.topic, each.columns)
        return stages.finish()


def ingest_all(backend: BackendSettings, staged: Sequence[Staged], mark: WriteMark) -> None:
    """Make the staged rows of all tasks visible, at once and once. While the outcome is not known, repeat it."""
    ask = Asking(backend, INGEST_RETRY_S, repeatable=(*AWAY, OutcomeUnknown))
    ask(lambda client: client.ingest(staged, writer=mark.writer, number=mark.number))
