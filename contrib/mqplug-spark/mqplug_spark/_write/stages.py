"""Staged writes: tasks put files next to the store, and the driver ingests all of them in one step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from mqplug import Client, Error, OutcomeUnknown, Stage, Staged
from mqplug_spark._clients import AWAY, ask
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._options.write_options import Partitioner, WriteMark
from mqplug_spark._write.rows import WrittenRows

if TYPE_CHECKING:
    from types import TracebackType

INGEST_RETRY_S = 120.0  # how long an ingest is retried while its outcome is unknown
MAX_OPEN_STAGES = 8  # each may hold a file's worth of messages in memory


def stage_rows(client: Client, rows: WrittenRows, partitioner: Partitioner) -> tuple[Staged, ...]:
    """Stage the rows of a task. If that fails, none of them remain staged."""
    with StagesOfTopics(client, partitioner) as stages:
        for each in rows:
            stages.write(each.topic, each.columns)
        return stages.finish()


def ingest_all(backend: BackendSettings, staged: Sequence[Staged], mark: WriteMark) -> None:
    """Make the staged rows of all tasks visible in one step, exactly once. Retry while the outcome is unknown."""
    ask(
        backend, lambda client: client.ingest(staged, writer=mark.writer, number=mark.number),
        patience=INGEST_RETRY_S, repeatable=(*AWAY, OutcomeUnknown),
    )  # fmt: skip


class StagesOfTopics:
    """The stages of a task's topics. Leaving the block by an exception discards all of them."""

    def __init__(self, client: Client, partitioner: Partitioner) -> None:
        self._client = client
        self._partitioner = partitioner
        self._open: dict[str, Stage] = {}  # in the order of their last use
        self._finished: list[Staged] = []

    def write(self, topic: str, columns: pa.RecordBatch) -> None:
        """Stage rows of a topic."""
        stage = self._open.pop(topic, None) or self._another(topic)
        self._open[topic] = stage
        stage.write(columns)

    def finish(self) -> tuple[Staged, ...]:
        """Write all rows to disk and return the stages."""
        while self._open:
            self._finish_oldest()
        return tuple(self._finished)

    def _another(self, topic: str) -> Stage:
        if len(self._open) >= MAX_OPEN_STAGES:
            self._finish_oldest()
        return self._client.stage(topic, partitioner=self._partitioner)

    def _finish_oldest(self) -> None:
        topic = next(iter(self._open))
        self._finished.append(self._open.pop(topic).finish())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for stage in self._open.values():
                stage.discard()
            discard(self._client, self._finished)


def discard(client: Client, staged: Sequence[Staged]) -> None:
    """Remove staged rows. The backend later removes any that cannot be removed now."""
    if staged:
        with suppress(Error):
            client.discard(staged)
