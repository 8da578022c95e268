"""What a shared producer sends through: confluent-kafka's producer, or the compiled part's sender. Both do the same.

This is the only seam between the two. ``PlainSender`` and ``CompiledSender`` implement it, and ``new_sender`` of the
shared producers chooses. What is handed over comes with an outcome, which takes the reports on it in a thread that
polls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import KafkaError, Message, TopicPartition

from mqplug.spi import Run, Sending

if TYPE_CHECKING:
    from mqplug_kafka_native import Report

Result = tuple[int, int | None, KafkaError | None]
"""The partition, the offset of a stored record, the error of another. Stored at an unknown offset, it has neither."""


class RecordReports(Protocol):
    """Takes the report on a record that was handed over alone."""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of confluent-kafka's producer."""

    def take_report(self, report: Report) -> None:
        """Take the report of the compiled part, or the code of a failure before all is known."""


class RunReports(Protocol):
    """Takes the reports on a run: the compiled part's as one, confluent-kafka's when they are matched to the rows."""

    def take_report(self, report: Report) -> None:
        """Take the report of the compiled part, or the code of a failure before all is known."""

    def note_failure(self, code: int) -> None:
        """Take note that a record failed, while other reports may still come."""

    def settle_stored(self, coordinates: Sequence[tuple[int]]) -> None:
        """Settle a run that is stored in its partition, at these offsets."""

    def settle_each(self, results: Iterable[tuple[int, Sending, Result]]) -> None:
        """Settle each record, of which the row is given."""


class Sender(Protocol):
    """What both producers of the client have. A record or a run that is not accepted raises ``KafkaException``."""

    @property
    def is_unsound(self) -> bool:
        """Whether a report contradicted itself. Then another sender should send what comes next."""
        ...

    def send(self, record: Sending, reports: RecordReports) -> None:
        """Hand over a record that can be stored as it is."""

    def send_run(self, run: Run, reports: RunReports, future_max: float) -> bool:
        """Hand over a run. Return False, with nothing sent, if its records have to go one by one."""
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
