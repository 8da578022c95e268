"""One workload on RocksMQ, Kafka and Pulsar, which take turns in one run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import product
from tempfile import TemporaryDirectory

import mqplug
from benchmarks._three_workload import BackendResult, Effort, Workload, take_turn
from benchmarks._time_limit import rounds_of_each
from mqplug_devbrokers import KafkaServer, PulsarServer

WORKLOADS = [Workload(*each) for each in product((128, 1024, 100 * 1024), (1, 8))]
EFFORT, QUICK_EFFORT = Effort(produce_s=0.7, timed_messages=150), Effort(produce_s=0.02, timed_messages=5)
ROUNDS = 3


def results(*, rounds: int, quick: bool, end: float = math.inf) -> Iterator[list[BackendResult]]:
    """Yield the results of each workload: one for each backend. The first round of each is a warm-up.

    Rounds that would end after `end`, a moment of ``time.monotonic``, are left out, except the first of each workload.
    """
    effort = QUICK_EFFORT if quick else EFFORT
    with _connections() as connections:
        for workload, numbers in rounds_of_each(WORKLOADS, rounds, end):
            found = [BackendResult(backend, workload, []) for backend in connections]
            for number in numbers:
                for result in found if number % 2 else reversed(found):
                    turn = take_turn(connections[result.backend], workload, effort if number >= 0 else QUICK_EFFORT)
                    if number >= 0:
                        result.turns.append(turn)
            yield found


@contextmanager
def _connections() -> Iterator[Mapping[str, mqplug.Client]]:
    """Connect to all three. No broker here syncs each message to disk, so RocksMQ does not either."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        kafka, pulsar = stack.enter_context(KafkaServer()), stack.enter_context(PulsarServer())
        yield {
            "RocksMQ": stack.enter_context(mqplug.connect("rocksmq", path=folder, sync="os")),
            "Kafka": stack.enter_context(mqplug.connect(kafka.url)),
            "Pulsar": stack.enter_context(mqplug.connect(pulsar.url)),
        }
