"""Sending through the compiled part: the same messages, ids and errors as through pulsar-client."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import _pulsar
import pulsar
import pytest
from compiled_parts import compiled_part

import mqplug
from mqplug import Log, Record
from mqplug_pulsar import PulsarSettings
from mqplug_pulsar._cluster import compiled_part as part
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._produce.client_sender import ClientSender
from mqplug_pulsar._produce.compiled_sender import NOT_REPORTED, CompiledSender, coordinates, details, doubt
from mqplug_pulsar._produce.producer import open_sender

compiled_part("mqplug_pulsar_native")

SOON_S = 15.0  # a send without an answer waits twice this long
WAYS = ("required", "off")
"""Values of ``native``: with the compiled part, and without it."""


# random records, with and without the compiled part -------------------------------------------------------------

KEYS = (
    None, b"", b"key", b"key\0", b"\0", b"\xff", "schlüssel".encode(), b"mqplug", b"mqplug:base64:", b"\xed\xa0\x80",
    b"mqplug:base64:YQ==", b"k" * 3000, "\U0010ffff".encode(),
)  # fmt: skip
NAMES = ("a", "b", "", "a\0b", "ü", "mqplug.headers", "mqplug.epoch", "mqplug.schema-version", "z" * 300)
TEXTS = (b"1", b"", None, b"\xff", b"\0", b"x\0y", "ü".encode(), b"t" * 2000)
TIMES = (None, None, 0, 1, 1_700_000_000_123, 2**41)


def random_value(chance):
    """Return a value of a random size, or None."""
    size = chance.choice([0, 1, 30, 30, 30, 2000, 100_000])
    return None if chance.random() < 0.1 else chance.randbytes(size)


def random_record(chance, plain):
    """Return a record with random oddities, or a plain one with only the fields that all clients support."""
    if plain:
        return Record(random_value(chance), chance.choice([None, b"k1", b"k2"]), [("n", b"v")] * chance.randrange(2))
    headers = [(chance.choice(NAMES), chance.choice(TEXTS)) for _ in range(chance.choice([0, 0, 1, 1, 2, 5]))]
    return Record(random_value(chance), chance.choice(KEYS), headers, chance.choice(TIMES))


def random_batches(seed):
    """Return batches of records, some plain, some odd."""
    chance = random.Random(seed)
    batches = []
    for _ in range(8):
        plain = chance.random() < 0.5
        batches.append([random_record(chance, plain) for _ in range(chance.choice([1, 2, 20, 300]))])
    return batches


def outcome(result):
    """Return the part of a record's outcome that is equal with and without the compiled part."""
    return ("stored",) if isinstance(result, mqplug.MessageId) else (type(result), result.message)


def sent(client, topic, batches):
    """Send the batches alternately record by record and together. Return the outcome of each record, in order."""
    results = []
    with client.producer(topic) as out:
        for number, batch in enumerate(batches):
            if number % 2:
                results += _sent_together(out, batch)
            else:
                results += _sent_one_by_one(out, batch)
    return results


def _sent_together(out, batch):
    try:
        return list(out.send_many(batch))
    except mqplug.SendFailed as error:
        return list(error.results)


def _sent_one_by_one(out, batch):
    handles = [out.submit(each.value, key=each.key, headers=each.headers, timestamp=each.timestamp) for each in batch]
    results = []
    for handle in handles:
        try:
            results.append(handle.result(60))
        except mqplug.Error as error:
            results.append(error)
    return results


def stored(server, topic, count):
    """Return the messages of a topic with all fields, by id, as pulsar-client reads them."""
    client = pulsar.Client(server.service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    try:
        reader = client.create_reader(f"{topic}-partition-0", pulsar.MessageId.earliest)
        return dict(fields(reader.read_next(20_000)) for _ in range(count))
    finally:
        client.close()


def fields(message):
    """Return the id and the fields of a message."""
    place = message.message_id()
    native = message._message
    return (place.ledger_id(), place.entry_id(), place.batch_index()), (
        None if native.has_null_value() else message.data(),
        native.partition_key(), native.properties(), native.event_timestamp(), message_ids.detail(place),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (1, {}),
        pytest.param(2, {}, marks=pytest.mark.night),
        (3, {"compression": "lz4", "batch_messages": 7}),
        (4, {"batching": "none"}),
        pytest.param(5, {"batching": "none", "compression": "zstd"}, marks=pytest.mark.night),
        (6, {"batching": "by_key", "batch_delay": 0.02}),
    ],
)
def test_both_ways_are_one(connected, mq, name, pulsar_server, seed, settings):
    """Random records are stored alike with and without the compiled part, with the ids and errors that are reported."""
    batches = random_batches(seed)
    records = [record for batch in batches for record in batch]
    found = {}
    for native in WAYS:
        topic = f"{name}-{native}"
        mq.create_topic(topic)
        results = sent(connected(native=native, **settings), topic, batches)
        ids = [each for each in results if isinstance(each, mqplug.MessageId)]
        messages = stored(pulsar_server, topic, len(ids))
        assert {each.coordinates for each in ids} == set(messages)
        assert all(each.detail == messages[each.coordinates][4] for each in ids)
        found[native] = [(outcome(each), messages.get(getattr(each, "coordinates", None), ())[:4]) for each in results]
        if settings.get("batching") != "by_key":
            assert ids == sorted(ids)
    assert len(found["off"]) == len(records)
    assert found["required"] == found["off"]


def test_arrow_columns(connected, mq, name, pulsar_server):
    """Arrow columns, whole or sliced, with nulls, are stored alike with and without the compiled part."""
    pa = pytest.importorskip("pyarrow")
    chance, found = random.Random(7), []
    table = pa.table(
        {
            "value": pa.array([random_value(chance) for _ in range(500)], pa.large_binary()),
            "key": pa.array(chance.choices(KEYS, k=500), pa.binary()),
            "timestamp": pa.array(chance.choices([None, 5, 2**41], k=500), pa.timestamp("ms", "UTC")),
            "headers": [[{"key": "b", "value": b"1"}, {"key": "a", "value": None}], []] * 250,
        }
    )
    for native in WAYS:
        topic = f"{name}-{native}"
        mq.create_topic(topic)
        with connected(native=native).producer(topic) as out:
            ids = [*out.send_many(table), *out.send_many(table.slice(100, 37)), *out.send_many(table.select(["value"]))]
        messages = stored(pulsar_server, topic, len(ids))
        found.append([messages[each.coordinates][:4] for each in ids])
    assert found[0] == found[1]


def test_what_is_too_large(connected, topic):
    """With and without the compiled part a key that is too large as text fails, and other batches are stored."""
    records = [Record(b"%d" % number, key=b"\xff" * (4_500_000 if number == 5 else 1)) for number in range(10)]
    for native in WAYS:
        with connected(native=native, batching="none").producer(topic) as out:
            with pytest.raises(mqplug.SendFailed) as caught:
                out.send_many(records)
            kinds = [type(each) for each in caught.value.results]
            assert kinds == [*[mqplug.MessageId] * 5, mqplug.MessageTooLarge, *[mqplug.MessageId] * 4]


# disturbances during sends --------------------------------------------------------------------------------------


@pytest.fixture
def frozen(pulsar_server):
    """A broker that the test may freeze, and that is unfrozen at the end of the test."""
    yield pulsar_server
    pulsar_server.unpause()


@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("native", ["required", pytest.param("off", marks=pytest.mark.night)])
def test_an_interrupt_ends_a_send(connected, topic, frozen, native):
    """Ctrl-C ends a waiting send at once; earlier submitted messages are stored later."""
    with connected(native=native).producer(topic) as out:
        out.send(b"first")
        frozen.pause()
        handle = out.submit(b"second")
        began = time.monotonic()

        def send_and_be_interrupted():
            threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
            out.send(b"third")

        with pytest.raises(KeyboardInterrupt):
            send_and_be_interrupted()
        assert time.monotonic() - began < SOON_S
        assert not handle.done
        frozen.unpause()
        out.flush()
        assert handle.result() < out.send(b"fourth")


@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("native", ["required", pytest.param("off", marks=pytest.mark.night)])
def test_a_close_that_runs_out_of_time(connected, topic, frozen, native):
    """A close with a broker that does not answer ends in time; the messages in flight have an unknown outcome."""
    out = connected(native=native).producer(topic)
    out.send(b"first")
    frozen.pause()
    handles = [out.submit(b"x") for _ in range(1500)]
    began = time.monotonic()
    with pytest.raises(mqplug.CloseIncomplete):
        out.close(0.5)
    assert time.monotonic() - began < SOON_S
    assert {type(handle.error) for handle in handles} == {mqplug.OutcomeUnknown}


FORKS = """
import os, sys, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url, native="required")
out = client.producer(topic)
handles = [out.submit(b"parent") for _ in range(3000)]
child = os.fork()
if child == 0:
    try:
        out.send(b"child")
    except mqplug.Error as error:
        with mqplug.connect(url, native="required") as own, own.producer(topic) as mine:
            mine.send(b"child's own")
        print(type(error).__name__, flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
out.flush()
print(status, sum(handle.error is None for handle in handles))
client.close()
"""


def test_a_child_process(pulsar_server, topic):
    """A forked child can send only with a producer of its own; the parent's producer keeps working."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, pulsar_server.url, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["ForkedClient", "0", "3000"], "")


# inconsistent reports -------------------------------------------------------------------------------------------

LOG = Log("pulsar", "c", "t", 0)
GOOD = [(0, 2, 5, 6, 0, 2)]


class WrongBox:
    """A report box of the compiled part that returns the reports of a test."""

    def __init__(self, spans, others=()):
        self._answer = (spans, list(others))
        self._numbers = []
        self.sent = []

    def send(self, producer, number, count, *columns):
        self.sent.append(count)
        self._numbers.append(number)
        return self

    def wait(self, timeout, into):
        into += [(number, self) for number in self._numbers]
        self._numbers.clear()

    def ring(self):
        pass

    def is_complete(self):
        return True

    def read(self):
        return self._answer


class Lane:
    """A lane that settles each run that it takes."""

    log = LOG

    def begin(self, pending):
        pass

    def take(self, pending):
        pending.settle()

    def error_of(self, result):
        return True, mqplug.Error(result.name)


class Rows:
    """A run of two records and their outcomes."""

    values, keys, headers, timestamps = [b"a", b"b"], None, None, None

    def __init__(self):
        self.outcomes = []

    def __len__(self):
        return 2

    def arrow(self, names):
        return {}

    def stored(self, log, places, more):
        self.outcomes += [] if self.outcomes else zip(places, more, strict=True)

    def unknown(self, error):
        self.outcomes += [] if self.outcomes else [error]

    def sendings(self):
        return [Row(self.outcomes) for _ in range(2)]


class Row:
    """A record of a run."""

    def __init__(self, outcomes):
        self._outcomes = outcomes

    def stored(self, log, place, detail):
        self._outcomes.append((place, detail))

    def failed(self, error):
        self._outcomes.append(error.message)

    def unknown(self, error):
        self._outcomes.append("unknown")


@pytest.fixture
def given_up(monkeypatch):
    """The reasons why reading or sending was given up."""
    found = {}
    monkeypatch.setattr(part.PART, "_refused", found)
    return found


def sender_over(box, *, in_order=True):
    """Return a sender whose reports come from this box."""
    return CompiledSender(SimpleNamespace(ReportBox=lambda *functions: box), in_order=in_order)


def settled(sender):
    """Send a run and return its outcomes."""
    rows = Rows()
    sender.send_run(rows, None, Lane())
    sender.wait(0)
    return rows.outcomes


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [(0, 1, 5, 6, 0, 2)],
        [(0, 3, 5, 6, 0, 3)],
        [(1, 2, 5, 6, 0, 2)],
        [(0, 1, 5, 6, 0, 2), (0, 1, 5, 6, 1, 2)],
        [(0, 1, 5, 6, 0, 2), (1, 1, 5, 6, 0, 2)],
        [(0, 1, 5, 6, 1, 2), (1, 1, 5, 6, 0, 2)],
        [(0, 1, 5, 6, -1, 0), (1, 1, 5, 5, -1, 0)],
        [(0, 2, 5, 6, 0, 1)],
        [(0, 1, 5, -6, -1, 0), (1, 1, 5, 7, -1, 0)],
    ],
)
def test_reports_without_sense(given_up, spans):
    """After inconsistent first reports the run's outcome is unknown, and pulsar-client sends all later runs."""
    box = WrongBox(spans)
    sender = sender_over(box)
    (outcome,) = settled(sender)
    assert isinstance(outcome, mqplug.OutcomeUnknown)
    assert "inconsistent" in given_up["sends"]
    client = SimpleNamespace(send_async=lambda message, report: plain.append(message.data()))
    plain = []
    sender.send_run(Rows(), client, Lane())
    assert (plain, box.sent) == ([b"a", b"b"], [2])
    assert isinstance(open_sender(PulsarSettings()), ClientSender)


def test_what_is_on_its_way_when_sense_is_lost(given_up):
    """Runs already handed over when the first report proves inconsistent have an unknown outcome, too."""
    sender, first, second = sender_over(WrongBox([])), Rows(), Rows()
    sender.send_run(first, None, Lane())
    sender.send_run(second, None, Lane())
    sender.wait(0)
    assert [type(each) for each in first.outcomes + second.outcomes] == [mqplug.OutcomeUnknown] * 2


def test_reports_with_sense(given_up):
    """Consistent reports become the records' ids; batches by key may be reported out of order and in parts."""
    assert settled(sender_over(WrongBox(GOOD))) == [((5, 6, 0), (2,)), ((5, 6, 1), (2,))]
    apart = [(0, 1, 5, 7, 0, 1), (1, 1, 5, 6, -1, 0)]
    assert settled(sender_over(WrongBox(apart), in_order=False)) == [((5, 7, 0), (1,)), ((5, 6, -1), ())]
    assert not given_up


def test_rows_that_fail(given_up):
    """Each failed row has the error of its own result, including unknown and missing results."""
    failed = [(0, int(_pulsar.Result.MessageTooBig)), (1, NOT_REPORTED)]
    assert settled(sender_over(WrongBox([], failed))) == ["MessageTooBig", "AlreadyClosed"]
    assert settled(sender_over(WrongBox([(0, 1, -1, -1, -1, 0)], [(1, 98765)]))) == ["unknown", "UnknownError"]
    assert not given_up


def test_an_interrupt_between_reports_loses_none(given_up):
    """Reports that were already taken when an interrupt came are settled by the next call."""
    sender, first, second = sender_over(WrongBox(GOOD)), Rows(), Rows()

    class InterruptedOnce(Lane):
        interrupts = iter([KeyboardInterrupt])

        def take(self, pending):
            for interrupt in self.interrupts:
                raise interrupt
            super().take(pending)

    sender.send_run(first, None, InterruptedOnce())
    sender.send_run(second, None, Lane())
    with pytest.raises(KeyboardInterrupt):
        sender.wait(0)
    sender.wait(0)
    assert first.outcomes == second.outcomes == [((5, 6, 0), (2,)), ((5, 6, 1), (2,))]


# ids as spans ---------------------------------------------------------------------------------------------------


def test_spans_are_lists_of_ids():
    """Spans behave as lists of ids: they can be indexed from either end, sliced, and iterated repeatedly."""
    spans = [(0, 3, 1, 2, 5, 9), (3, 1, 1, 3, -1, 0), (4, 2, 1, 4, 0, 2)]
    places, sizes = coordinates(spans, 6), details(spans, 6)
    expected = [(1, 2, 5), (1, 2, 6), (1, 2, 7), (1, 3, -1), (1, 4, 0), (1, 4, 1)]
    assert doubt(spans, 6, in_order=True) is None
    assert list(places) == list(places) == expected
    assert (len(places), places[0], places[-1], places[2:4]) == (6, expected[0], expected[-1], expected[2:4])
    assert list(sizes) == [(9,), (9,), (9,), (), (2,), (2,)]
    assert (sizes[3], list(sizes)) == ((), [(9,), (9,), (9,), (), (2,), (2,)])


def test_a_batch_that_a_thread_waits_for_is_sent_at_once(connected, topic):
    """A send, a batch and a result that a thread waits for do not wait ``batch_delay``."""
    with connected(native="required", batch_delay=10.0).producer(topic) as out:
        began = time.monotonic()
        out.send(b"1")
        out.send_many([b"2", b"3"])
        out.submit(b"4").result()
        assert time.monotonic() - began < 10
