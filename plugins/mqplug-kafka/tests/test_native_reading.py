"""Reading through the compiled part: the same batches, positions and errors as through confluent-kafka."""

from __future__ import annotations

import itertools
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from compiled_kafka_faults import (
    PART,
    change_answers,
    change_runs,
    count_fetched,
    forget_checks,
    need_no_sender,
    proven as proven_uses,
    refused,
)
from compiled_parts import compiled_part
from foreign_logs import ForeignLog
from kafka_driver import Seam, fill, new_name, seeds, take

import mqplug

native = compiled_part("mqplug_kafka_native")

pytestmark = pytest.mark.python

ARROW_COLUMNS = ["key", "value", "topic", "partition", "offset", "id", "headers", "timestamp", "log_time",
                 "timestamp_type"]  # fmt: skip


@pytest.fixture
def plain(kafka_server):
    """A client that reads through confluent-kafka."""
    with mqplug.connect(kafka_server.url, native="off") as client:
        yield client


@pytest.fixture
def unproven(monkeypatch):
    """Forget what this process has found out about the compiled part."""
    forget_checks(monkeypatch)


@pytest.fixture
def proven(monkeypatch, unproven):
    """Take the compiled part as already checked, so that no reader uses confluent-kafka instead."""
    PART.prove("reads")


@pytest.fixture
def native_reads(monkeypatch):
    """Collect the number of messages in each run that the compiled part fetched."""
    return count_fetched(monkeypatch)


def all_of(mq, topic, positions):
    """Read from these positions to the end. Return rows, Arrow tables and last positions by log, or the error."""
    rows, tables, ends = {}, {}, {}
    highs = {mark.high.log: mark.high for mark in mq.watermarks(topic).values()}
    with Seam(mq, topic) as seam:
        seam.driver.seek(positions, 10)
        deadline = time.monotonic() + 60
        while any(ends.get(log, positions[log]).coordinates < high.coordinates for log, high in highs.items()):
            assert time.monotonic() < deadline
            try:
                batches = seam.driver.poll(1000, 0.1)
            except mqplug.PositionLost as error:
                return error.low, str(error)
            for each in batches:
                rows.setdefault(each.log, []).extend(
                    zip(each.ids, each.keys, each.values, each.headers, each.timestamps, each.log_times, strict=True)
                )
                tables.setdefault(each.log, []).append(each.to_arrow(ARROW_COLUMNS))
                ends[each.log] = each.next_position
    for each in itertools.chain(*tables.values()):
        each.validate(full=True)
    return rows, {log: pa.Table.from_batches(some).combine_chunks() for log, some in tables.items()}, ends


@pytest.mark.parametrize("seed", seeds(2, 5))
def test_both_paths_read_the_same(kafka_server, mq, plain, proven, native_reads, seed):
    """Both paths return the same rows, Arrow columns, end positions and errors for any log that Kafka can hold."""
    log = ForeignLog(kafka_server, mq, seed, partitions=1 + seed % 3)
    log.grow(6)
    marks = mq.watermarks(log.topic)
    first, last = log.positions(dict.fromkeys(marks, 0)), {mark.high.log: mark.high for mark in marks.values()}
    somewhere = [log.positions({p: log.chance.randint(0, mark.high.coordinates[0]) for p, mark in marks.items()})
                 for _ in range(3)]  # fmt: skip
    for start in (log.low(), first, last, *somewhere):
        assert all_of(mq, log.topic, start) == all_of(plain, log.topic, start)
    assert sum(native_reads)


def test_a_native_batch_can_be_kept_and_taken_apart(mq, topic, proven, native_reads):
    """Slices, copies and Arrow views of a batch stay valid after the batch and its reader are gone."""
    sent = fill(mq, topic, 50)
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        batch = reader.receive_many(50, timeout=20)
        while len(batch) < 50:
            batch = reader.receive_many(50, timeout=20)
    assert native_reads
    part, table = batch[10:20], batch[5:].to_arrow(["value", "headers"])
    copy = batch.detached()
    del batch
    assert part.ids == sent[10:20]
    assert part.values == [b"m%d" % number for number in range(10, 20)]
    assert table.column("value").to_pylist() == [b"m%d" % number for number in range(5, 50)]
    assert table.column("headers").to_pylist() == [[]] * 45
    assert copy.values == [b"m%d" % number for number in range(50)]


def test_huge_messages_and_many_partitions(kafka_server, plain, proven, native_reads):
    """Values of 1 MiB between empty ones, in 64 partitions, all arrive with a prefetch limit of 4 MiB."""
    size = 1 << 20
    topic = new_name()
    with mqplug.connect(kafka_server.url, message_max_bytes=size) as mq:
        mq.create_topic(topic, partitions=64, options={"max.message.bytes": str(2 * size)})
        values = [bytes([number]) * (size if number % 2 else 0) for number in range(64)]
        with mq.producer(topic) as out:
            out.send_many([mqplug.Record(each, partition=number) for number, each in enumerate(values)], timeout=60)
        with mq.consumer(topic, start=mqplug.EARLIEST, prefetch_bytes=4 * size) as reader:
            found = {message.partition: message.value for message in take(reader, 64)}
    assert [found[number] for number in range(64)] == values
    assert native_reads


def test_a_run_is_split_before_its_offsets_overflow(kafka_server, mq, topic):
    """Messages beyond the byte limit of one run go to the next run of the same partition, in order."""
    fill(mq, topic, 100, prefix="0123456789")
    options = {"bootstrap.servers": kafka_server.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    reader = native.Reader(options, 1 << 20, 50)
    reader.assign([(topic, 0, 0)])
    values, lengths = [], []
    while len(values) < 100:
        runs, _ = reader.poll(100, 1)
        for _, _, run in runs:
            values += run.values()
            lengths.append(len(run))
    reader.close()
    assert values == [b"0123456789%d" % number for number in range(100)]
    assert max(lengths) == 4


def varied_runs(server, mq, topic):
    """Return a reader, its runs and the sent records, whose keys, values and headers vary in length, with nulls."""
    records = [
        mqplug.Record(None if number % 7 == 0 else b"v" * (number % 3), key=b"k" if number % 2 else None,
                      headers=[("name", b"content")] * (number % 4))
        for number in range(60)
    ]  # fmt: skip
    with mq.producer(topic) as out:
        out.send_many(records)
    options = {"bootstrap.servers": server.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    reader, runs = native.Reader(options, 1 << 20), []
    reader.assign([(topic, 0, 0)])
    while sum(map(len, runs)) < 60:
        runs += [run for _, _, run in reader.poll(10, 1)[0]]
    return reader, runs, records


def columns_of(run):
    """Return what a run builds from librdkafka's messages while it still holds them."""
    return run.keys(), run.values(), run.coordinates(), run.next_offset()


def test_a_run_is_the_same_when_it_is_copied(kafka_server, mq, topic):
    """Keys, values and offsets are the same before and after a run is copied from librdkafka's messages."""
    reader, runs, records = varied_runs(kafka_server, mq, topic)
    last = runs[-1]
    before = columns_of(last)
    assert last.headers() == [tuple(each.headers) for each in records[60 - len(last) :]]
    assert columns_of(last) == before
    lists = [columns_of(run)[:2] for run in runs]
    keys, values = (list(itertools.chain.from_iterable(column)) for column in zip(*lists, strict=True))
    assert keys == [each.key for each in records]
    assert values == [each.value for each in records]
    reader.close()


@pytest.mark.parametrize("end", ["poll", "close", "forget"])
def test_runs_outlive_their_reader(kafka_server, mq, topic, end):
    """A run copies the messages it still shares with librdkafka before the next poll and before its reader ends."""
    reader, runs, records = varied_runs(kafka_server, mq, topic)
    before = [columns_of(run) for run in runs]
    if end == "poll":
        reader.poll(1, 0)
    elif end == "close":
        reader.close()
    else:
        del reader
    assert [columns_of(run) for run in runs] == before
    assert [each for run in runs for each in run.headers()] == [tuple(each.headers) for each in records]
    assert all(bytes(run) for run in runs)


@pytest.mark.parametrize("end", ["poll", "close"])
def test_many_threads_may_ask_for_columns(kafka_server, mq, topic, end):
    """Threads that read one run get the same columns while another thread polls or closes its reader."""
    reader, runs, _ = varied_runs(kafka_server, mq, topic)
    run, before = runs[-1], columns_of(runs[-1])
    with ThreadPoolExecutor(6) as threads:
        copies = [threads.submit(bytes, run) for _ in range(4)]
        ended = threads.submit(reader.poll, 1, 0) if end == "poll" else threads.submit(reader.close)
        seen = threads.submit(columns_of, run)
        assert len({each.result(10) for each in copies}) == 1
        assert seen.result(10) == before
        ended.result(10)
    assert columns_of(run) == before
    reader.close()


def test_a_run_may_be_read_in_a_child_process(kafka_server, mq, topic):
    """A forked child reads its parent's run from a copy and leaves librdkafka's messages to the parent."""
    reader, runs, _ = varied_runs(kafka_server, mq, topic)
    before = columns_of(runs[-1])
    child = os.fork()
    if child == 0:
        try:
            is_equal = bool(runs[-1].headers()) and columns_of(runs[-1]) == before
            del runs, reader
        finally:
            os._exit(7 if is_equal else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert columns_of(runs[-1]) == before
    reader.close()


def test_a_caller_that_asks_for_many_gets_large_batches(mq, topic, proven):
    """Batches of the compiled part have as many of the arrived messages as the caller asks for."""
    fill(mq, topic, 5000)
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        counts = [len(reader.receive_many(10_000, 20))]
        while sum(counts) < 5000:
            counts.append(len(reader.receive_many(10_000, 20)))
    assert max(counts) > 2000


def test_a_fetch_stops_at_its_bytes(kafka_server, mq, topic):
    """A poll stops after the first message beyond its byte limit, whatever its limit of messages."""
    fill(mq, topic, 200, prefix="x" * 1000)
    options = {"bootstrap.servers": kafka_server.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    reader = native.Reader(options, 10_000)
    reader.assign([(topic, 0, 0)])
    counts = []
    while sum(counts) < 200:
        counts += [len(run) for _, _, run in reader.poll(1000, 1)[0]]
    reader.close()
    assert max(counts) <= 12


# the check of the first messages -------------------------------------------------------------------------------


def read(mq, topic, count):
    """Return the first values of a topic."""
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        return [message.value for message in take(reader, count)]


def test_the_first_messages_prove_the_compiled_part(mq, topic, unproven, native_reads):
    """A first batch that both paths read alike is delivered once and proves the compiled part."""
    fill(mq, topic, 500)
    assert read(mq, topic, 500) == [b"m%d" % number for number in range(500)]
    assert proven_uses() == {"reads"}
    assert not refused()


class LyingRun:
    """A run with a wrong value in its last row."""

    def __init__(self, run):
        self._run = run

    def __getattr__(self, name):
        return getattr(self._run, name)

    def __len__(self):
        return len(self._run)

    def values(self):
        return [*self._run.values()[:-1], b"lie"]


def test_a_difference_ends_native_reading(mq, topic, unproven, monkeypatch, caplog):
    """If both paths differ, the right values are delivered, one warning says what differed, and the part is refused."""
    change_runs(monkeypatch, LyingRun)
    fill(mq, topic, 300)
    with caplog.at_level(logging.WARNING, "mqplug.kafka"):
        for _ in range(2):
            assert read(mq, topic, 300) == [b"m%d" % number for number in range(300)]
    told = [line.getMessage() for line in caplog.records if "values of partition 0" in line.getMessage()]
    assert len(told) == 1
    assert refused() == {"reads"}


def test_a_difference_is_an_error_where_native_is_required(kafka_server, topic, mq, unproven, monkeypatch):
    """With native="required" a difference between both paths raises ConfigError, which names it."""
    change_runs(monkeypatch, LyingRun)
    need_no_sender(monkeypatch)
    fill(mq, topic, 3)
    with (
        mqplug.connect(kafka_server.url, native="required") as client,
        client.consumer(topic, start=mqplug.EARLIEST) as reader,
        pytest.raises(mqplug.ConfigError, match="values of partition 0"),
    ):
        reader.receive(timeout=20)


def test_a_check_without_an_answer_leaves_it_to_the_plain_client(mq, topic, unproven, native_reads, monkeypatch):
    """If the check gets no answer, this reader uses confluent-kafka and the next reader tries the check again."""
    fill(mq, topic, 30)
    with monkeypatch.context() as unanswered:
        change_answers(unanswered, lambda answered, check, timeout: False, within=0.0)
        assert read(mq, topic, 30) == [b"m%d" % number for number in range(30)]
    assert not proven_uses()
    assert not refused()
    assert read(mq, topic, 30) == [b"m%d" % number for number in range(30)]
    assert proven_uses() == {"reads"}


def test_required_compares_until_there_is_an_answer(kafka_server, mq, topic, unproven, native_reads, monkeypatch):
    """With native="required" a check without an answer is repeated with newly fetched messages."""
    fill(mq, topic, 30)
    need_no_sender(monkeypatch)
    first = []

    def second_only(answered, check, timeout):
        first[:] = first or [check]
        return check is not first[0] and answered(check, timeout)

    change_answers(monkeypatch, second_only, within=1.0)
    with mqplug.connect(kafka_server.url, native="required") as client:
        assert read(client, topic, 30) == [b"m%d" % number for number in range(30)]
    assert proven_uses() == {"reads"}
    assert sum(native_reads) > 30


def test_a_seek_during_the_check(mq, topic, unproven, monkeypatch):
    """After a seek during the check, messages fetched before the seek are not delivered."""
    sent = fill(mq, topic, 300)
    began = time.monotonic()
    change_answers(
        monkeypatch, lambda answered, check, timeout: answered(check, timeout) and time.monotonic() - began > 1
    )
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        assert reader.receive(timeout=0.2) is None
        reader.seek(sent[250])
        assert [message.id for message in take(reader, 50)] == sent[250:]


def test_clients_say_which_way_they_read(mq, plain, kafka_server):
    """The notes for doctor name the compiled part and librdkafka, or the reason why confluent-kafka reads."""
    assert any("reads" in note and "mqplug-kafka-native 0" in note and "over librdkafka 2" in note
               for note in mq._connection.notes())  # fmt: skip
    assert plain._connection.notes() == ["reads and sends through confluent-kafka: native is 'off'"]
    with mqplug.connect(kafka_server.url, librdkafka={"plugin.library.paths": ""}) as client:
        assert "only confluent-kafka understands" in client._connection.notes()[0]
