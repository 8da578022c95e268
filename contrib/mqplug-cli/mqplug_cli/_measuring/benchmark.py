"""The rounds of ``mqplug bench`` and their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain
from statistics import median
from typing import Any, Final
from uuid import uuid4

import attrs

import mqplug
from mqplug_cli._error_text import error_line
from mqplug_cli._interrupts import HeldInterrupts
from mqplug_cli._measuring.bar_chart import Bar, Chart, Panel
from mqplug_cli._measuring.loads import (
    Latencies,
    Load,
    Throughput,
    measure_consume,
    measure_latencies,
    measure_produce,
    percentiles_ms,
)

DELETE_S: Final = 10.0
MEGABYTE: Final = 1e6
LABEL_CHARACTERS: Final = 13  # of a chart's legend


@attrs.frozen
class BenchmarkedBackend:
    """One side of a benchmark, and the results of its rounds. Without a ``topic``, each round creates its own."""

    label: str
    mq: mqplug.Client
    topic: str | None
    produced: list[Throughput] = attrs.field(factory=list)
    consumed: list[Throughput] = attrs.field(factory=list)
    latencies: list[Latencies] = attrs.field(factory=list)

    @property
    def complete_rounds(self) -> int:
        """The number of completed rounds."""
        return len(self.latencies)


class Benchmark:
    """Rounds on one backend, or alternating between two. ``warn`` receives warnings for the user."""

    def __init__(
        self,
        sides: Sequence[BenchmarkedBackend],
        load: Load,
        *,
        rounds: int,
        partitions: int,
        warn: Callable[[str], None],
    ) -> None:
        self.sides = sides
        self._load = load
        self._rounds = rounds
        self._partitions = partitions
        self._warn = warn

    @property
    def expected(self) -> int | None:
        """The number of messages of all rounds, if it is known."""
        load = self._load
        if load.count is None:
            return None
        return self._rounds * len(self.sides) * (2 * load.count + load.latencies)

    @property
    def complete_rounds(self) -> int:
        """The number of rounds that all sides have completed."""
        return min(side.complete_rounds for side in self.sides)

    def run(self, count: Callable[[int], None]) -> None:
        """Run the rounds. ``count`` receives the number of messages after each measurement."""
        for _ in range(self._rounds):
            for side in self.sides:
                self._run_round(side, count)

    def _run_round(self, side: BenchmarkedBackend, count: Callable[[int], None]) -> None:
        mq, load = side.mq, self._load
        with nullcontext(side.topic) if side.topic else self._own_topic(mq) as topic:
            before = [each.high for each in mq.watermarks(topic, timeout=load.timeout).values()] if side.topic else []
            self._partitions = len(before) or self._partitions
            produced = measure_produce(mq, topic, load)
            count(produced.messages)
            consumed = measure_consume(mq, topic, before, load)
            count(consumed.messages)
            latencies = measure_latencies(mq, topic, load)
            count(load.latencies)
        side.produced.append(produced)
        side.consumed.append(consumed)
        side.latencies.append(latencies)

    @contextmanager
    def _own_topic(self, mq: mqplug.Client) -> Iterator[str]:
        """Yield a new topic, which is always deleted afterwards. Its name contains the process id."""
        name = f"mqplug-bench-{os.getpid()}-{uuid4().hex[:8]}"
        with HeldInterrupts() as interrupts:
            try:
                mq.create_topic(name, partitions=self._partitions, timeout=self._load.timeout)
                with interrupts.let_through():
                    yield name
            finally:
                self._delete(mq, name)

    def _delete(self, mq: mqplug.Client, topic: str) -> None:
        try:
            with suppress(mqplug.TopicNotFound):
                mq.delete_topic(topic, timeout=DELETE_S)
        except (mqplug.Error, KeyboardInterrupt) as error:
            why = error_line(error) if isinstance(error, mqplug.Error) else "interrupted again"
            self._warn(f"the topic {topic} was not deleted: {why}")
            if isinstance(error, KeyboardInterrupt):
                raise

    def report(self) -> dict[str, Any]:
        """Return the results of all complete rounds as a JSON value."""
        results = [self._result(side) for side in self.sides]
        return {
            "message_bytes": self._load.size,
            "count": self._load.count,
            "seconds": None if self._load.count else self._load.seconds,
            "latencies": self._load.latencies,
            "partitions": self._partitions,
            "rounds": self.complete_rounds,
            "results": results,
            "ratios": ratios(*results) if len(results) == 2 else None,
        }

    def _result(self, side: BenchmarkedBackend) -> dict[str, Any]:
        latencies = side.latencies[: self.complete_rounds]
        return {
            "label": side.label,
            "backend": side.mq.backend,
            "produce": self._rates(side.produced[: self.complete_rounds]),
            "consume": self._rates(side.consumed[: self.complete_rounds]),
            "acknowledged_ms": percentiles_ms([*chain.from_iterable(each.acknowledged for each in latencies)]),
            "received_ms": percentiles_ms([*chain.from_iterable(each.received for each in latencies)]),
        }

    def _rates(self, rounds: Sequence[Throughput]) -> dict[str, Any]:
        rates = [round(each.rate, 1) for each in rounds]
        return {
            "messages_per_s": median(rates),
            "mb_per_s": round(median(rates) * self._load.size / MEGABYTE, 3),
            "rounds": rates,
        }

    def chart(self) -> str:
        """Return a chart of the rounds, as an SVG document."""
        rounds = range(self.complete_rounds)
        rates = "messages per second"
        return Chart(
            title=f"mqplug bench: messages of {self._load.size:,} bytes",
            hint=f"mqplug {mqplug.__version__}",
            series=self._short_labels(),
            groups=[(f"round {number + 1}", "") for number in rounds],
            panels=[
                Panel(f"Produce, {rates}", "log scale, higher is better",
                      [[Bar(side.produced[each].rate) for side in self.sides] for each in rounds]),
                Panel(f"Consume, {rates}", "log scale, higher is better",
                      [[Bar(side.consumed[each].rate) for side in self.sides] for each in rounds]),
                Panel("Latency from send to receive, ms: median (bar) and 99th percentile (line)",
                      "log scale, lower is better",
                      [[_latency_bar(side.latencies[each]) for side in self.sides] for each in rounds]),
            ],
        ).svg()  # fmt: skip

    def _short_labels(self) -> list[str]:
        """Return the names of the backends, or if they are the same, the ends of the labels."""
        names = [side.mq.backend for side in self.sides]
        return names if len(set(names)) == len(names) else [side.label[-LABEL_CHARACTERS:] for side in self.sides]


def sizes(found: dict[str, Any]) -> str:
    """Return the load of a report in one line for people."""
    rounds, partitions = found["rounds"], found["partitions"]
    many = f"{found['count']:,} messages" if found["count"] else f"{found['seconds']:g} s"
    return (
        f"{rounds} round{'' if rounds == 1 else 's'} of {many} and {found['latencies']:,} single messages, "
        f"{found['message_bytes']:,} bytes each, {partitions} partition{'' if partitions == 1 else 's'}"
    )


def measures(result: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a result by names for people."""
    found = {
        f"{verb}, {unit}": result[verb][name]
        for verb in ("produce", "consume")
        for name, unit in (("messages_per_s", "messages/s"), ("mb_per_s", "MB/s"))
    }
    for name, words in (("acknowledged_ms", "send to acknowledged"), ("received_ms", "send to received")):
        found |= {f"{words}, {percentile}, ms": value for percentile, value in result[name].items()}
    return found


def ratios(first: dict[str, Any], second: dict[str, Any]) -> dict[str, float]:
    """Return each figure of the first result divided by the second's."""
    others = measures(second)
    return {name: round(value / others[name], 3) for name, value in measures(first).items() if others[name]}


def _latency_bar(latencies: Latencies) -> Bar:
    found = percentiles_ms(latencies.received)
    return Bar(found["p50"], found["p99"])
