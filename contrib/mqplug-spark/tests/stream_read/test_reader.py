"""A stream's reader, called as Spark calls it, over each backend."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import pytest
from clusters import Cluster, new_name, over, points, send, trim
from queries import Query, needs_limits, numbers
from spark_options import drop_client_of

import mqplug
from mqplug import (
    ConfigError,
    ConsumerBusy,
    InvalidMessageId,
    PositionLost,
    Record,
    TopicNotFound,
    Unsupported,
)

if TYPE_CHECKING:
    from mqplug_devbrokers import KafkaServer

pytestmark = [needs_limits, pytest.mark.timeout(180)]  # the first test that needs a broker starts it

CHECKPOINT = Path(__file__).parent / "spark-sql-kafka-4.2.0"
TRIMMING = ("rocksmq", "kafka")


@pytest.fixture
def query(cluster: Cluster, topic: str) -> Iterator[Callable[..., Query]]:
    """Return a function that creates a query of the topic from the earliest, with additional options."""
    with queries(cluster.url, topic) as make:
        yield make


@contextmanager
def queries(url: str, topic: str) -> Iterator[Callable[..., Query]]:
    """Yield the function that the fixture ``query`` returns."""
    base = {"url": url, "subscribe": topic, "startingOffsets": "earliest", "pollTimeoutMs": "30000"}

    def make(**options: str) -> Query:
        return Query({name: text for name, text in {**base, **options}.items() if text})

    try:
        yield make
    finally:
        drop_client_of(url)


@over("rocksmq", "kafka", "pulsar")
def test_a_query_reads_everything_once(query: Callable[..., Query], cluster: Cluster, topic: str) -> None:
    """Batches adjoin without gap or overlap, also after a restart; without new messages there is no batch."""
    made = query().start()
    assert made.batch() is None or made.done
    send(cluster, topic, 100, partition=0)
    send(cluster, topic, 50, partition=1)
    assert Counter(made.batch()) == Counter(
        [*((topic, 0, number) for number in range(100)), *((topic, 1, number) for number in range(50))]
    )
    assert made.batch() is None
    send(cluster, topic, 10)
    made.start()
    assert numbers(made.batch()) == list(range(10))
    assert made.batch() is None


def test_a_batch_that_was_not_done_is_read_again_as_it_was(
    query: Callable[..., Query], cluster: Cluster, topic: str
) -> None:
    """After a crash, the planned batch is repeated with the same ranges, before anything new."""
    send(cluster, topic, 100)
    made = query().start()
    first = made.batch(fail=True)
    send(cluster, topic, 100)
    made.start()
    assert made.batch() == first
    assert numbers(made.batch()) == list(range(100))


@over("rocksmq", "kafka", at_night=["pulsar"])
def test_a_query_begins_at_the_latest_and_loses_nothing(
    query: Callable[..., Query], cluster: Cluster, topic: str
) -> None:
    """The default is latest. Spark asks twice where a query begins; messages that arrive in between are read."""
    send(cluster, topic, 5)
    made = query(startingOffsets="").start()
    assert made.batch(fail=True) == [], "the first batch stores where the query began, which Spark does not"
    sent = send(cluster, topic, 7)
    cluster.client.add_partitions(topic, 3)
    assert made.start().batch() == []
    assert numbers(made.batch()) == list(range(7))
    begun = query(startingOffsets=points(topic, str(sent[3]), -1, -1)).start()
    assert numbers(begun.batch()) == [3, 4, 5, 6]


@over("rocksmq", at_night=["kafka"])
def test_a_limit_is_split_by_lag_and_exact(query: Callable[..., Query], cluster: Cluster, topic: str) -> None:
    """80,000 messages at 20,000 per trigger are four batches, each divided in proportion to the lags."""
    send(cluster, topic, 60_000, partition=0)
    send(cluster, topic, 20_000, partition=1)
    made = query(maxOffsetsPerTrigger="20000").start(available_now=True)
    batches = made.to_the_end()
    assert [(len(numbers(rows, 0)), len(numbers(rows, 1))) for rows in batches] == [(15_000, 5_000)] * 4
    assert numbers(list(chain(*batches))) == list(range(60_000))


@over("rocksmq", at_night=["kafka"])
def test_available_now_ends_at_what_was_there(
    query: Callable[..., Query], cluster: Cluster, topic: str, make_topic: Callable[..., str]
) -> None:
    """Messages and partitions that are added during the run are left to the next run."""
    send(cluster, topic, 100)
    made = query(maxOffsetsPerTrigger="60", minOffsetsPerTrigger="50").start(available_now=True)
    assert numbers(made.batch()) == list(range(60))
    send(cluster, topic, 100)
    cluster.client.add_partitions(topic, 3)
    send(cluster, topic, 5, partition=2)
    assert numbers(made.batch()) == list(range(60, 100))
    assert made.batch() is None
    made.start(available_now=True)
    rows = list(chain(*made.to_the_end()))
    assert (numbers(rows), numbers(rows, 2)) == (list(range(100)), list(range(5)))


@over("rocksmq", at_night=["kafka"])
def test_a_trigger_that_takes_all_ignores_limits(query: Callable[..., Query], cluster: Cluster, topic: str) -> None:
    """Trigger.Once reads all messages."""
    send(cluster, topic, 500)
    made = query(maxOffsetsPerTrigger="60").start()
    assert numbers(made.batch(once=True)) == list(range(500))


@over("rocksmq")
def test_a_batch_waits_for_enough_messages(query: Callable[..., Query], cluster: Cluster, topic: str) -> None:
    """After the first batch of a run, each batch waits for minOffsetsPerTrigger, at most for maxTriggerDelay."""
    send(cluster, topic, 3)
    made = query(minOffsetsPerTrigger="10", maxTriggerDelay="1h").start()
    assert numbers(made.batch()) == [0, 1, 2]
    send(cluster, topic, 9)
    assert made.batch() is None
    send(cluster, topic, 1)
    assert numbers(made.batch()) == [*range(9), 0]
    hasty = query(minOffsetsPerTrigger="10", maxTriggerDelay="1ms").start()
    hasty.batch()
    send(cluster, topic, 1)
    assert numbers(hasty.batch()) == [0]


def test_a_query_that_waits_for_enough_messages_records_where_it_begins(
    query: Callable[..., Query], cluster: Cluster, topic: str
) -> None:
    """With minOffsetsPerTrigger, too, an empty first batch is planned, so that a restart loses no later messages."""
    send(cluster, topic, 5)
    made = query(startingOffsets="latest", minOffsetsPerTrigger="10").start()
    assert made.batch() == []
    send(cluster, topic, 7)
    assert numbers(made.start().batch()) == list(range(7))


@over("pulsar")
@pytest.mark.parametrize(
    "limit", ["maxOffsetsPerTrigger", pytest.param("minOffsetsPerTrigger", marks=pytest.mark.night)]
)
def test_limits_are_refused_by_name_where_positions_cannot_be_counted(query: Callable[..., Query], limit: str) -> None:
    """Pulsar's positions cannot be advanced: an error names the option before the first batch."""
    with pytest.raises(Unsupported, match=f"{limit} needs positions that can be counted"):
        query(**{limit: "10"}).start().batch()


@over("rocksmq", "kafka", "pulsar")
def test_partitions_and_topics_that_come_later_begin_at_their_first_message(
    query: Callable[..., Query], cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    """New partitions and topics are read completely, even if they are added while the query is stopped."""
    first = make_topic(partitions=1)
    send(cluster, first, 3)
    made = query(subscribe="", subscribePattern=f"{first}.*", startingOffsets="latest").start()
    assert made.batch() is None or made.done
    cluster.client.add_partitions(first, 2)
    send(cluster, first, 4, partition=1)
    assert numbers(made.batch(), 1) == [0, 1, 2, 3]
    other = f"{first}-later"
    cluster.client.create_topic(other)
    send(cluster, other, 5)
    made.start()
    rows = made.batch(fail=True)
    assert rows == [(other, 0, number) for number in range(5)]
    if cluster.backend in TRIMMING:
        trim(cluster, send(cluster, other, 1)[0])
        with pytest.raises(PositionLost):
            made.start().batch()
    else:
        assert made.start().batch() == rows


@over("rocksmq", "kafka")
def test_retention_that_overtakes_a_query_is_an_error_or_a_step(
    query: Callable[..., Query], cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names topic and range; if losses are allowed, the log counts them and the rest is read."""
    sent = send(cluster, topic, 100)
    made = query(maxOffsetsPerTrigger="10").start()
    assert numbers(made.batch()) == list(range(10))
    trim(cluster, sent[40])
    with pytest.raises(PositionLost, match=rf"retention removed 30 messages of {topic}\[0\] from .* 10\) to .* 40\)"):
        made.batch()
    with pytest.raises(PositionLost, match="failOnDataLoss=false"):
        made.start().batch()
    lenient = query(maxOffsetsPerTrigger="10", failOnDataLoss="false")
    lenient.planned, lenient.done = made.planned, made.done
    lenient.start()
    assert numbers(lenient.batch()) == list(range(40, 50))
    assert [record.getMessage() for record in caplog.records if "removed 30 messages" in record.getMessage()]
    assert numbers(list(chain(*lenient.to_the_end()))) == list(range(50, 100))


@over("rocksmq", at_night=["kafka"])
def test_retention_that_overtakes_a_planned_batch_is_an_error_in_its_task(
    query: Callable[..., Query], cluster: Cluster, topic: str
) -> None:
    """A batch that was planned but not done is not silently shorter when it is read again."""
    sent = send(cluster, topic, 100)
    made = query().start()
    made.batch(fail=True)
    trim(cluster, sent[40])
    with pytest.raises(PositionLost):
        made.start().batch()
    lenient = query(failOnDataLoss="false")
    lenient.planned = made.planned
    assert numbers(lenient.start().batch()) == list(range(40, 100))


@over("rocksmq", "kafka")
@pytest.mark.parametrize("lenient", ["false", pytest.param("true", marks=pytest.mark.night)])
def test_a_topic_made_again_is_an_error(
    query: Callable[..., Query], cluster: Cluster, make_topic: Callable[..., str], lenient: str
) -> None:
    """A recreated topic is an error in a running query, and in one that restarts from its checkpoint."""
    again = make_topic()
    send(cluster, again, 5)
    made = query(subscribe=again, failOnDataLoss=lenient).start()
    made.batch()
    cluster.client.delete_topic(again)
    cluster.client.create_topic(again, partitions=2)
    send(cluster, again, 50)
    for _ in range(2):
        with pytest.raises(InvalidMessageId, match=f"'{again}' was deleted and created again"):
            made.start().batch()


@over("pulsar")
def test_a_topic_made_again_on_pulsar_is_a_loss(
    query: Callable[..., Query], cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    """Pulsar's positions do not distinguish a new topic from one that retention has emptied: both are a loss."""
    again = make_topic()
    send(cluster, again, 5)
    made = query(subscribe=again).start()
    made.batch()
    cluster.client.delete_topic(again)
    cluster.client.create_topic(again, partitions=2)
    send(cluster, again, 50)
    for _ in range(2):
        with pytest.raises(PositionLost):
            made.start().batch()
    lenient = query(subscribe=again, failOnDataLoss="false")
    lenient.planned, lenient.done = made.planned, made.done
    assert numbers(lenient.start().batch()) == list(range(50))


@over("rocksmq", "kafka")
def test_a_deleted_topic_is_a_loss(
    query: Callable[..., Query], cluster: Cluster, topic: str, make_topic: Callable[..., str]
) -> None:
    """A deleted topic is an error; if losses are allowed, the others are read, and its position is kept."""
    gone = make_topic()
    send(cluster, gone, 5)
    made = query(subscribe=f"{topic},{gone}", failOnDataLoss="false").start()
    made.batch()
    cluster.client.delete_topic(gone)
    send(cluster, topic, 5)
    assert made.batch() == [(topic, 0, number) for number in range(5)]
    strict = query(subscribe=f"{topic},{gone}")
    strict.planned, strict.done = made.planned, made.done
    with pytest.raises(PositionLost, match=rf"{gone}\[0\] is gone"):
        strict.start().batch()


def test_a_topic_that_was_never_there_is_named(query: Callable[..., Query]) -> None:
    """A new query does not wait for a topic that does not exist."""
    with pytest.raises(TopicNotFound, match="nowhere"):
        query(subscribe="nowhere").start().batch()


def behind(cluster: Cluster, topic: str) -> int:
    """The lag of the group that follows a query. Pulsar counts batches of messages."""
    lag = sum(cluster.client.lag(topic, group=f"lag-{topic}").values())
    return lag if cluster.has_offsets or lag == 0 else 5


@over("rocksmq", "kafka", "pulsar")
def test_a_group_follows_the_query(query: Callable[..., Query], cluster: Cluster, topic: str) -> None:
    """The lag of commitGroup is the query's lag when the last batch was planned, also after restarts."""
    send(cluster, topic, 5)
    made = query(commitGroup=f"lag-{topic}").start()
    made.batch()
    assert behind(cluster, topic) == 5
    assert made.batch() is None
    assert behind(cluster, topic) == 0
    send(cluster, topic, 5)
    made.batch(fail=True)
    made.start()
    made.batch()
    assert behind(cluster, topic) == 5
    made.batch()
    assert behind(cluster, topic) == 0


def test_a_group_with_consumers_of_its_own_is_refused(
    query: Callable[..., Query], cluster: Cluster, topic: str
) -> None:
    """A starting query does not move a group that has consumers; a running query continues."""
    send(cluster, topic, 3)
    with cluster.client.consumer(topic, group=f"used-{topic}") as consumer:
        assert consumer.receive(20) is not None
        with pytest.raises(ConsumerBusy, match=f"commitGroup: the group 'used-{topic}' has consumers"):
            query(commitGroup=f"used-{topic}").start().batch()
    made = query(commitGroup=f"used-{topic}").start()
    assert numbers(made.batch()) == [0, 1, 2]
    with cluster.client.consumer(topic, group=f"used-{topic}") as consumer:
        consumer.receive(5)
        send(cluster, topic, 3)
        assert numbers(made.batch()) == [0, 1, 2]


@pytest.mark.parametrize("scheme", ["file://", pytest.param("", marks=pytest.mark.night)])
@over("kafka")
def test_a_checkpoint_of_spark_sql_kafka_is_taken_over(
    query: Callable[..., Query], cluster: Cluster, topic: str, tmp_path: Path, scheme: str
) -> None:
    """The files come from a real query of the connector: batch 1 ended at 3000 and 1000, and batch 2 was not done."""
    checkpoint = tmp_path / "checkpoint"
    copytree(CHECKPOINT, checkpoint)
    for file in (checkpoint / "offsets").iterdir():
        file.write_text(file.read_text().replace('{"t":', f'{{"{topic}":'))
    send(cluster, topic, 6_000, partition=0)
    send(cluster, topic, 2_000, partition=1)
    cluster.client.add_partitions(topic, 3)
    send(cluster, topic, 10, partition=2)
    made = query(startingOffsets=f"checkpoint:{scheme}{checkpoint}").start()
    rows = made.batch()
    assert [numbers(rows, each) for each in range(3)] == [
        list(range(3_000, 6_000)), list(range(1_000, 2_000)), list(range(10)),
    ]  # fmt: skip
    rmtree(checkpoint)
    send(cluster, topic, 5)
    assert numbers(made.start().batch()) == list(range(5)), "then the query has a checkpoint of its own"
    copytree(CHECKPOINT, checkpoint)
    with pytest.raises(ConfigError, match="belongs to a query that also reads 't'"):
        query(startingOffsets=f"checkpoint:{checkpoint}").start().batch()


@pytest.mark.disturbs
def test_a_broker_that_is_killed_and_comes_back(kafka_server: KafkaServer) -> None:
    """A query that plans its next batch while the broker is down gets the stored messages when it is back."""
    topic = new_name("orders")
    with mqplug.connect(kafka_server.url) as client, queries(kafka_server.url, topic) as query:
        client.create_topic(topic)
        cluster = Cluster(kafka_server.url, client)
        send(cluster, topic, 100)
        made = query().start()
        made.batch()
        send(cluster, topic, 50)
        kafka_server.kill()
        with ThreadPoolExecutor(1) as pool:
            back = pool.submit(kafka_server.start)
            assert numbers(made.batch()) == list(range(50))
            back.result()


@over("pulsar")
def test_a_new_ledger_is_no_loss(query: Callable[..., Query], cluster: Cluster, topic: str) -> None:
    """When a broker reloads a topic, positions advance without messages, and an empty ledger is dropped."""
    send(cluster, topic, 5)
    made = query(pollTimeoutMs="15000").start()
    made.batch()
    assert made.batch() is None
    for partition in (0, 1):
        unload(cluster, topic, partition)
    while made.batch() is not None:
        pass
    send(cluster, topic, 3)
    send(cluster, topic, 4, partition=1)
    rows = made.batch()
    assert (numbers(rows), numbers(rows, 1)) == ([0, 1, 2], [0, 1, 2, 3])


def unload(cluster: Cluster, topic: str, partition: int) -> None:
    """Make Pulsar's broker unload a partition, as it does when it stops."""
    admin = parse_qs(urlsplit(cluster.url).query)["admin_url"][0]
    url = f"{admin}/admin/v2/persistent/public/default/{topic}-partition-{partition}/unload"
    with urlopen(Request(url, method="PUT")) as answer:
        assert answer.status == 204


def test_starting_again_and_again_loses_and_repeats_nothing(
    query: Callable[..., Query], cluster: Cluster, topic: str
) -> None:
    """In twenty runs, each stopped during a batch while messages arrive, each number is in exactly one batch."""
    chance = Random(15)
    made, batches = query(maxOffsetsPerTrigger="70" if cluster.has_offsets else ""), {}
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: [send_from(cluster, topic, 50 * each, 50) for each in range(40)])
        for _ in range(20):
            made.start()
            for fail in [False] * chance.randint(0, 3) + [True]:
                rows = made.batch(fail=fail)
                if rows is not None:
                    batches[len(made.planned)] = rows
        sending.result()
    made.start()
    while (rows := made.batch()) is not None:
        batches[made.done] = rows
    assert sorted(batches) == list(range(1, len(made.planned) + 1))
    every = [row for number in sorted(batches) for row in batches[number]]
    assert [numbers(every, partition) for partition in (0, 1)] == [list(range(2_000))] * 2


def send_from(cluster: Cluster, topic: str, first: int, amount: int) -> None:
    """Send numbers to both partitions."""
    with cluster.client.producer(topic) as out:
        out.send_many(
            [Record(str(first + each).encode(), partition=partition) for each in range(amount) for partition in (0, 1)]
        )


@over("rocksmq", at_night=["kafka"])
def test_tasks_follow_from_the_offsets(query: Callable[..., Query], cluster: Cluster, topic: str) -> None:
    """The options minPartitions and maxRecordsPerPartition split a batch, always in the same way."""
    send(cluster, topic, 100)
    made = query(maxRecordsPerPartition="30").start()
    made.batch(fail=True)
    again = query(maxRecordsPerPartition="30").start()._reader
    assert again is not None
    assert made._reader is not None
    offsets = json.loads(made._first or ""), json.loads(made.planned[0])
    ranges = [each.value for each in made._reader.partitions(*offsets)]
    assert ranges == [each.value for each in again.partitions(*offsets)]
    sizes = [each.until.coordinates[0] - each.start.coordinates[0] for each in ranges]
    assert sum(sizes) == 100
    assert max(sizes) <= 30
