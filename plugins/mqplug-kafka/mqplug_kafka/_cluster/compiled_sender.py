"""The native producer of a shared producer: the compiled part's sender where that is usable, else confluent-kafka's.

Both have the same words, but for the hand-over: the sender takes whole runs, and gives back one report on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import Producer, TopicPartition

from mqplug_kafka._cluster.native_part import NativePart

if TYPE_CHECKING:
    from mqplug_kafka_native import Report


class NativeProducer(Protocol):
    """What both native producers have."""

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


class TakesReport(Protocol):
    """Whoever handed a run over."""

    def take_report(self, report: Report) -> None:
        """Take what became of the run, or the code of a failure before all of it is known."""
        ...


def native_producer(part: NativePart, options: dict[str, Any]) -> NativeProducer:
    """Return a native producer, the compiled part's if that is usable."""
    if part.usable("sends"):
        return CompiledSender(part, options)
    made: NativeProducer = Producer(options)
    return made


class CompiledSender:
    """The compiled part's sender. Each report goes to the owner of its run, in a thread that polls."""

    def __init__(self, part: NativePart, options: dict[str, Any]) -> None:
        self._part = part
        self._sender = part.module.Sender(options)
        self._reports: list[Report] = []
        self.is_unsound = False
        """Whether a report contradicted itself. Then the plain client should send what comes next."""

    def __len__(self) -> int:
        return len(self._sender) + len(self._reports)

    def hand_over(
        self, owner: TakesReport, topic: str, partition: int, columns: Sequence[Any], count: int, latest: int
    ) -> bool:
        """Hand a run over: values, keys, headers and timestamps, each a sequence, an Arrow array, or None.

        Return False, with nothing sent, if a record could not be stored as it is: its header has NUL in its name, or
        its timestamp is 0 or later than ``latest``.
        """
        taken: bool = self._sender.send(owner, topic, partition, count, *columns, latest)
        return taken

    def poll(self, timeout: float) -> None:
        """Wait for reports, and pass on those that came."""
        try:
            self._sender.poll(timeout, self._reports)
        finally:
            self._pass_on()

    def flush(self, timeout: float) -> int:
        """Wait for all reports, while nothing lingers, and pass them on. Return how many are missing."""
        try:
            missing: int = self._sender.flush(timeout, self._reports)
        finally:
            self._pass_on()
        return missing

    def _pass_on(self) -> None:
        while (report := self._next_report()) is not None:
            report.owner.take_report(report)
            if not report.is_sound:
                self._give_up()

    def _next_report(self) -> Report | None:
        try:
            return self._reports.pop(0)
        except IndexError:  # there is none, or another thread was quicker
            return None

    def _give_up(self) -> None:
        self.is_unsound = True
        self._part.refuse("sends", "its reports on a run contradicted each other")

    def purge(self) -> None:
        """Drop what is on its way. It is reported as dropped."""
        self._sender.purge()

    def list_topics(self, topic: str, timeout: float) -> None:
        """Learn of a topic's partitions."""
        self._sender.look_at(topic, timeout)

    def init_transactions(self, timeout: float) -> None:
        """Claim the transaction name."""
        self._sender.init_transactions(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._sender.begin_transaction()

    def commit_transaction(self, timeout: float) -> None:
        """Commit it."""
        self._sender.commit_transaction(timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort it."""
        self._sender.abort_transaction(timeout)

    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: Any, timeout: float) -> None:
        """Store positions of a group in it."""
        rows = [(each.topic, each.partition, each.offset, each.metadata) for each in positions]
        self._sender.send_offsets_to_transaction(rows, group, timeout)
