"""The two ways to hand records to a native producer, and to settle them by its reports. ``way_to`` chooses."""

from __future__ import annotations

from typing import Any, Protocol

from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.compiled_sender import CompiledSender, NativeProducer
from mqplug_kafka._produce.compiled_reports import CompiledReport, CompiledSingleReport
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.delivery_reports import DeliveryReports
from mqplug_kafka._produce.run_outcome import SendsAgain
from mqplug_kafka._produce.single_report import SingleReport


class Way(Protocol):
    """A way to a native producer. What is refused with its batch goes to ``again``; without it, it has failed."""

    def send(self, sending: Sending, logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        """Hand over a record that can be stored as it is."""

    def send_run(self, run: Run, logs: CurrentLogs, future_max: float, again: SendsAgain | None = None) -> bool:
        """Hand over a run. Return False, with nothing sent, if its records have to go one by one."""
        ...


class PlainWay:
    """To confluent-kafka's producer, which calls back for each record."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def send(self, sending: Sending, logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        """As ``Way.send``."""
        SingleReport(sending, logs, again).produce(self._native)

    def send_run(self, run: Run, logs: CurrentLogs, future_max: float, again: SendsAgain | None = None) -> bool:
        """As ``Way.send_run``: together, values and keys take a third of the time; other fields it does not take."""
        if run.headers is not None or run.timestamps is not None:
            return False
        DeliveryReports(run, logs, again).produce(self._native)
        return True


class CompiledWay:
    """To the compiled part's sender, which reports on a run once."""

    def __init__(self, native: CompiledSender) -> None:
        self._native = native

    def send(self, sending: Sending, logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        """As ``Way.send``."""
        CompiledSingleReport(sending, logs, again).produce(self._native)

    def send_run(self, run: Run, logs: CurrentLogs, future_max: float, again: SendsAgain | None = None) -> bool:
        """As ``Way.send_run``."""
        return CompiledReport(run, logs, again).produce(self._native, future_max)


def way_to(native: NativeProducer) -> Way:
    """Return the way to this native producer."""
    return CompiledWay(native) if isinstance(native, CompiledSender) else PlainWay(native)
