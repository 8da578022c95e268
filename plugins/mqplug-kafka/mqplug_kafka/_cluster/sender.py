"""The interface through which a shared producer sends: to confluent-kafka's producer or the compiled part's sender.

This is the only seam between the two. ``PlainSender`` and ``CompiledSender`` implement it, and ``new_sender`` of the
shared producers chooses. Each hand-over has an object that takes the reports, in a polling thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import KafkaError, Message, TopicPartition

from mqplug.spi import Run, Sending

if TYPE_CHECKING:
    from mqplug_kafka_native import Report

Result = tuple[int, int | None, KafkaError | None]
"""The partition, the offset of a stored record, the error of a failed one. At an unknown offset, both are None."""


class RecordReports(Protocol):
    """Takes the report on a record that was handed over by itself."""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of confluent-kafka's producer."""

    def take_report(self, report: Report) -> None:
        """Take the report of the compiled part, or an early one that has only the code of a failure."""


class RunReports(Protocol):
    """Takes the reports on a run: the compiled part's as one, confluent-kafka's when they are matched to the rows."""

    def take_report(self, report: Report) -> None:
        """Take the report of the compiled part, or an early one that has only the code of a failure."""

    def note_failure(self, code: int) -> None:
        """Note that a record failed, while other reports may still come."""

    def settle_stored(self, coordinates: Sequence[tuple[int]]) -> None:
        """Settle a run that is stored in its partition, at these offsets."""

    def settle_each(self, results: Iterable[tuple[int, Sending, Result]]) -> None:
        """Settle each record by its own result. The results come with the record's row."""


class Sender(Protocol):
    """The common interface of both senders. A record or a run that is not accepted raises ``KafkaException``."""

    @property
    def is_unsound(self) -> bool:
        """Whether a report contradicted itself, so that another sender should send the next records."""
        ...

    def send(self, record: Sending, reports: RecordReports) -> None:
        """Hand over a record that can be stored unchanged."""

    def send_run(self, run: Run, reports: RunReports, future_max: float) -> bool:
        """Hand over a run. Return False, with nothing sent, if its records must be sent one by one."""
        ...

    def __len__(self) -> int: ...

    def poll(self, timeout: float) -> Any: ...

    def flush(self, timeout: float) -> int: ...

    def purge(self) -> None: ...

    def list_topics(self, topic: str, timeout: float) -> Any: ...

    def init_transactions(self, timeout: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def commit_transaction(self, timeout: float) -> None: ...

    def abort_transaction(self, timeout: float) -> None: ...

    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: Any, timeout: float) -> None: ...
