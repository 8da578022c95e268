"""The suite of many partitions: watermarks and lag of all topics, compared with confluent-kafka's ``list_offsets``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

import mqplug
from benchmarks._contests import Contest, Side, Work
from mqplug_devbrokers import KafkaServer

TOPIC_PARTITIONS = 100
DEFAULT_PARTITIONS, QUICK_PARTITIONS = 2_000, 200
GROUP = "watched"
TIMEOUT_S = 120.0
PATIENT = {"broker.session.timeout.ms": "60000", "broker.heartbeat.interval.ms": "2000"}
"""A small broker misses its heartbeats while it creates thousands of partitions."""


@contextmanager
def contests(*, quick: bool, partitions: int | None = None) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the broker runs within the block."""
    count = partitions or (QUICK_PARTITIONS if quick else DEFAULT_PARTITIONS)
    topics = [f"topic-{number}" for number in range(-(-count // TOPIC_PARTITIONS))]
    every = [TopicPartition(topic, number) for topic in topics for number in range(TOPIC_PARTITIONS)]
    with KafkaServer(settings=PATIENT) as server, mqplug.connect(server.url) as mq:
        for topic in topics:
            mq.create_topic(topic, partitions=TOPIC_PARTITIONS, timeout=TIMEOUT_S)
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        _begin_group(admin, every)
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": GROUP, "log_level": 0})
        size = f"{len(every):,} partitions in {len(topics)} topics"
        yield [
            Contest(
                name=f"kafka: watermarks of {size}", unit="partition", min_speed_ratios={"list_offsets": 0.9},
                ours=_side("mqplug", "watermarks(topics)", lambda: _watermarks(mq, topics)),
                rivals=[_side(
                    "list_offsets", "confluent-kafka: list_offsets() twice, first and end", lambda: _raw(admin, every)
                )],
            ),
            Contest(
                name=f"kafka: lag of a group in {size}", unit="partition", min_speed_ratios={"list_offsets": 0.9},
                ours=_side("mqplug", "lag(topics, group=)", lambda: _lag(mq, topics)),
                rivals=[_side(
                    "list_offsets", "confluent-kafka: the same and committed(), subtracted",
                    lambda: _raw_lag(admin, consumer, every),
                )],
            ),
        ]  # fmt: skip
        consumer.close()


def _side(name: str, words: str, work: Work) -> Side:
    @contextmanager
    def prepare() -> Iterator[Work]:
        yield work

    return Side(name, words, prepare)


def _begin_group(admin: AdminClient, every: Sequence[TopicPartition]) -> None:
    places = [TopicPartition(each.topic, each.partition, 0) for each in every]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP, places)])[GROUP].result(TIMEOUT_S)


def _watermarks(mq: mqplug.Client, topics: list[str]) -> int:
    return sum(map(len, mq.watermarks(topics, timeout=TIMEOUT_S).values()))


def _lag(mq: mqplug.Client, topics: list[str]) -> int:
    return sum(map(len, mq.lag(topics, group=GROUP, timeout=TIMEOUT_S).values()))


def _raw(admin: AdminClient, every: Sequence[TopicPartition]) -> int:
    return len(_raw_ranges(admin, every))


def _raw_lag(admin: AdminClient, consumer: Consumer, every: Sequence[TopicPartition]) -> int:
    stored = consumer.committed(list(every), timeout=TIMEOUT_S)
    ranges = _raw_ranges(admin, every)
    return len({(each.topic, each.partition): ranges[each][1] - each.offset for each in stored})


def _raw_ranges(admin: AdminClient, every: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    first: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    end: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    low = admin.list_offsets(dict.fromkeys(every, first), request_timeout=TIMEOUT_S)
    high = admin.list_offsets(dict.fromkeys(every, end), request_timeout=TIMEOUT_S)
    return {each: (low[each].result().offset, high[each].result().offset) for each in every}
