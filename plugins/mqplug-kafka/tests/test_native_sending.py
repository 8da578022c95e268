"""Sending through the compiled part: the same messages, outcomes and refusals as with confluent-kafka's producer."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import attrs
import pyarrow as pa
import pytest
from compiled_parts import compiled_part
from kafka_driver import new_name, seeds

import mqplug
from mqplug import Record
from mqplug_kafka._cluster import compiled_part as part
from mqplug_kafka._cluster.compiled_sender import CompiledSender

compiled_part("mqplug_kafka_native")

pytestmark = pytest.mark.python

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def both(kafka_server):
    """A client that sends through the compiled part, and one that sends through confluent-kafka."""
    with (
        mqplug.connect(kafka_server.url, native="required") as compiled,
        mqplug.connect(kafka_server.url, native="off") as plain,
    ):
        yield compiled, plain


def some_bytes(draw, *, nothing=0.15):
    """Draw a value, a key or a header's value."""
    if draw.random() < nothing:
        return draw.choice([None, b""])
    return draw.randbytes(draw.choice([1, 7, 100, 3000]))


def some_headers(draw):
    """Draw no headers, or some that may have equal names."""
    names = ["a", "a", "ключ", "", "x" * 300]
    return tuple((draw.choice(names), some_bytes(draw, nothing=0.5)) for _ in range(draw.choice([0, 0, 1, 2, 5])))


def some_time(draw, now):
    """Draw a timestamp, sometimes one that cannot be stored."""
    far = 5_000_000
    return draw.choice([None, None, now - 1000, now + 60_000, 1, now + far, 0] if draw.random() < 0.1 else [None, now])


def some_records(draw, now):
    """Draw the records of a batch: most have the same fields."""
    fields = {name for name in ("key", "headers", "timestamp", "partition") if draw.random() < 0.5}
    made = []
    for _ in range(draw.choice([1, 3, 50, 400])):
        more = {
            "key": some_bytes(draw), "headers": some_headers(draw),
            "timestamp": some_time(draw, now), "partition": draw.randrange(3),
        }  # fmt: skip
        made.append(Record(some_bytes(draw), **{name: more[name] for name in fields if draw.random() < 0.9}))
    if draw.random() < 0.1:
        made[draw.randrange(len(made))].headers = (("a\0b", b""),)
    return made


def as_arrow(records):
    """Return the last two thirds of the records as columns."""
    columns = {
        "value": pa.array([each.value for each in records], pa.large_binary()),
        "key": pa.array([each.key for each in records], pa.binary()),
        "headers": pa.array([[{"key": n, "value": v} for n, v in each.headers] for each in records], HEADERS),
        "timestamp": pa.array([each.timestamp for each in records], pa.timestamp("ms", tz="UTC")),
        "partition": pa.array([0 if each.partition is None else each.partition for each in records], pa.int32()),
    }
    return pa.table(columns).slice(len(records) // 3)


def told(outcome):
    """Return an outcome without the parts that differ by topic or client."""
    if isinstance(outcome, mqplug.Error):
        return type(outcome).__name__, outcome.message, outcome.fix
    return outcome.log.partition, outcome.coordinates


def send_all(out, records):
    """Send many at once. Return the outcome of each."""
    try:
        return [told(each) for each in out.send_many(records)]
    except mqplug.SendFailed as error:
        return [told(each) for each in error.results]


def submit_all(out, records):
    """Send one by one. Return the outcome of each."""
    handles = [
        out.submit(each.value, key=each.key, headers=each.headers, timestamp=each.timestamp, partition=each.partition)
        for each in records
    ]
    outcomes = []
    for each in handles:
        try:
            outcomes.append(told(each.result()))
        except mqplug.Error as error:
            outcomes.append(told(error))
    return outcomes


SENDS = {"many": send_all, "arrow": lambda out, records: send_all(out, as_arrow(records)), "submit": submit_all}


def stored(mq, topic, sent_times):
    """Return all stored messages, and of each time only whether it was sent: others come from the clock."""
    return [
        (partition, each.id.coordinates, each.value, each.key, tuple(each.headers), to_ms(each.timestamp) in sent_times)
        for partition in range(3)
        for each in mq.read(topic, partitions=[partition])
    ]


def placed(records):
    """Return the records with an explicit partition unless they have a key that chooses it."""
    return [attrs.evolve(each, partition=each.partition or (None if each.key else 0)) for each in records]


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_both_ways_tell_and_store_the_same(both, seed):
    """Random records, sent as objects or Arrow, one by one or together, have the same outcomes on both paths."""
    topics = [new_name() for _ in both]
    draw = random.Random(seed)
    batches = [placed(some_records(draw, int(time.time() * 1000))) for _ in range(12)]
    kinds = [draw.choice(["many", "arrow", "submit"]) for _ in batches]
    outcomes = []
    for mq, topic in zip(both, topics, strict=True):
        mq.create_topic(topic, partitions=3)
        with mq.producer(topic) as out:
            outcomes.append([SENDS[kind](out, records) for kind, records in zip(kinds, batches, strict=True)])
    assert outcomes[0] == outcomes[1]
    times = {each.timestamp for records in batches for each in records if each.timestamp}
    assert stored(both[1], topics[0], times) == stored(both[1], topics[1], times)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_both_ways_commit_and_abort_the_same(both, seed):
    """Random transactions, committed or aborted, have the same outcomes and messages on both paths."""
    topics = [new_name() for _ in both]
    draw = random.Random(seed)
    now = int(time.time() * 1000)
    steps = [(draw.random() < 0.6, [without_far_times(some_records(draw, now)) for _ in range(3)]) for _ in range(5)]
    outcomes = []
    for mq, topic in zip(both, topics, strict=True):
        mq.create_topic(topic, partitions=3)
        outcomes.append([a_step(mq, topic, commits, batches) for commits, batches in steps])
    assert outcomes[0] == outcomes[1]
    found = [[(place, *rest) for place, _, *rest in stored(both[1], each, ())] for each in topics]
    assert found[0] == found[1]


def without_far_times(records):
    """Return records that can all be stored: a refused one would abort the transaction."""
    return [
        attrs.evolve(each, timestamp=None, headers=[pair for pair in each.headers if "\0" not in pair[0]])
        for each in placed(records)
    ]


def a_step(mq, topic, commits, batches):
    """Send batches in a transaction. Return each record's outcome without its offset: aborted records use offsets."""
    sent = []
    with suppress(ZeroDivisionError), mq.transaction(topic) as step:
        for records in batches:
            for each in records:
                fields = {"key": each.key, "headers": each.headers, "partition": each.partition}
                sent.append(step.send(each.value, topic=topic, **fields))
        if not commits:
            raise ZeroDivisionError
    return [told(each.error) if each.error else each.result().log.partition for each in sent]


def to_ms(moment):
    """Return a moment in milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def test_a_run_with_contradictory_reports_is_in_doubt(kafka_server, topic, monkeypatch):
    """A run with contradictory reports is unknown; confluent-kafka sends later records, and the notes say why."""
    monkeypatch.setattr(part.PART, "_refused", {})
    pass_on = CompiledSender._pass_on

    def contradict(sender):
        sender._reports[:] = [type(each)((*each[:3], False, *each[4:])) for each in sender._reports]
        pass_on(sender)

    with mqplug.connect(kafka_server.url) as mq, mq.producer(topic) as out:
        out.send(b"a")
        with monkeypatch.context() as patched:
            patched.setattr(CompiledSender, "_pass_on", contradict)
            with pytest.raises(mqplug.SendFailed) as raised:
                out.send_many([b"b", b"c"])
        assert all(isinstance(each, mqplug.OutcomeUnknown) for each in raised.value.results)
        assert out.send(b"d").coordinates == (3,)
        assert out.send_many([b"e", b"f"])[1].coordinates == (5,)
        notes = mq._connection.notes()
    assert any("sends through confluent-kafka: its reports on a run contradicted each other" in each for each in notes)


@pytest.mark.disturbs
def test_ctrl_c_ends_a_wait_and_loses_no_report(kafka_server, topic):
    """Ctrl-C ends a wait for a silent broker at once, and the record is settled later."""
    with mqplug.connect(kafka_server.url, native="required") as mq, mq.producer(topic) as out:
        out.send(b"first")
        kafka_server.pause()
        try:
            handle = out.submit(b"late")
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                handle.result()
            assert not handle.done
        finally:
            kafka_server.unpause()
        timer.join()
        assert handle.result().coordinates == (1,)


def test_a_child_process_leaves_the_sender_alone(kafka_server, topic):
    """A forked child that collects garbage and exits neither hangs nor disturbs its parent's sends."""
    run_program(PARENT, kafka_server.url, topic)


def test_a_program_may_end_without_closing(kafka_server, topic):
    """A process that does not close its producer ends even while records are being sent."""
    run_program(CARELESS, kafka_server.url, topic)


OPEN = """
import gc, os, sys, mqplug
mq = mqplug.connect(sys.argv[1], native="required")
out = mq.producer(sys.argv[2])
out.send(b"first")
handles = [out.submit(b"%d" % number) for number in range(5000)]
"""
CARELESS = OPEN
PARENT = (
    OPEN
    + """
child = os.fork()
if not child:
    del out, handles, mq
    gc.collect()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert handles[-1].result().coordinates == (5000,)
out.close()
mq.close()
"""
)


def run_program(text, *arguments):
    """Run a program, which must succeed within 60 seconds."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", text, *arguments], check=True, timeout=60)
