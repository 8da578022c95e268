"""Delivery reports on a run: in any order, each record gets its own outcome. No broker is needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

import mqplug
from mqplug_kafka._cluster.plain_sender import DeliveryReports
from mqplug_kafka._cluster.shared_producer import ProducersBySize
from mqplug_kafka._produce.outcomes import RunOutcome

LOG = mqplug.Log("kafka", "cluster", "topic", 0, "incarnation")
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


class Settled:
    """A record that keeps its outcome."""

    topic, partition = "topic", 0

    def __init__(self, value, key):
        self.value, self.key, self.outcome = value, key, None

    def stored(self, log, coordinates):
        self.outcome = coordinates if log is LOG else (log.partition, *coordinates)

    def failed(self, error):
        self.outcome = ("failed", error)

    def unknown(self, error):
        self.outcome = ("unknown", error)


class Run:
    """A run that keeps its outcome."""

    topic = "topic"

    def __init__(self, values, keys=None, partition=0):
        self.values, self.keys, self.whole, self.alone = values, keys, None, []
        self.partition = partition

    def __len__(self):
        return len(self.values)

    def sendings(self):
        self.alone = [Settled(*each) for each in zip(self.values, self.keys or [None] * len(self), strict=True)]
        return self.alone

    def stored(self, log, coordinates):
        self.whole = (log, list(coordinates))

    def outcomes(self):
        return [each.outcome[0] if isinstance(each.outcome[0], str) else each.outcome for each in self.alone]


class Native:
    """A producer that accepts all rows but the refused ones, and reports at once or when a test calls on_delivery."""

    def __init__(self, refused=(), at_once=()):
        self.refused, self.at_once = refused, at_once

    def produce_batch(self, topic, messages, partition, on_delivery):
        self.on_delivery = on_delivery
        for row in self.refused:
            messages[row]["_error"] = TOO_LARGE
        for error, message in self.at_once:
            on_delivery(error, message)


class Report:
    """The message that a delivery report is about."""

    def __init__(self, offset=None, value=b"", key=None, partition=0, error=None):
        self._fields = offset, value, key, partition
        self._error = error

    def error(self):
        return self._error

    def offset(self):
        return self._fields[0]

    def value(self):
        return self._fields[1]

    def key(self):
        return self._fields[2]

    def partition(self):
        return self._fields[3]


class Names:
    """Settles records with the name of their log."""

    def stored(self, records, partition, coordinates):
        records.stored(mqplug.Log("kafka", "cluster", records.topic, partition, "incarnation"), coordinates)


@pytest.fixture
def reports():
    """Return a function that hands a run to a producer and returns the callback for its reports."""

    def make(run, native=None):
        made = DeliveryReports(run, RunOutcome(run, Names()))
        native = native or Native()
        made.produce(native)
        return native.on_delivery

    return make


def test_a_run_that_is_stored_is_settled_at_once(reports):
    """When the last report arrives, the run is stored at its offsets in ascending order."""
    run = Run([b"a", b"b", b"c"])
    report = reports(run)
    for offset in (7, 9):
        report(None, Report(offset))
    assert run.whole is None
    report(None, Report(8))
    assert run.whole == (LOG, [(7,), (8,), (9,)])


def test_reports_may_come_before_the_call_returns(reports):
    """A run whose reports arrive before produce_batch returns is settled."""
    run = Run([b"a", b"b"])
    reports(run, Native(at_once=[(None, Report(0)), (None, Report(1))]))
    assert run.whole == (LOG, [(0,), (1,)])


def test_a_failure_is_its_own_records(reports):
    """A failed record is found by its content, whatever the order of reports; the others get the offsets."""
    run = Run([b"a", b"b", b"a", b"c"], [b"1", b"1", b"2", None])
    report = reports(run)
    report(TIMED_OUT, Report(value=b"a", key=b"2", error=TIMED_OUT))
    report(None, Report(5, b"a", b"1"))
    report(TOO_LARGE, Report(value=b"b", key=b"1", error=TOO_LARGE))
    report(None, Report(6, b"c"))
    assert run.outcomes() == [(5,), "failed", "unknown", (6,)]
    assert isinstance(run.alone[2].outcome[1], mqplug.OutcomeUnknown)
    assert isinstance(run.alone[1].outcome[1], mqplug.MessageTooLarge)


def test_of_equal_records_one_failed(reports):
    """If one of two equal records failed, one has an id and the other the error."""
    run = Run([b"same", b"same"])
    report = reports(run)
    report(None, Report(5, b"same"))
    report(TIMED_OUT, Report(value=b"same", error=TIMED_OUT))
    assert run.outcomes() == [(5,), "unknown"]


@pytest.mark.parametrize(("failed", "outcomes"), [(2, [(5,), (6,), "unknown"]), (0, ["unknown", (5,), (6,)])])
def test_the_order_of_the_reports_says_which_of_equal_records_failed(reports, failed, outcomes):
    """Of two equal records with another in between, the place of the failed report shows which one failed."""
    run = Run([b"a", b"b", b"a"])
    report = reports(run)
    offsets = iter((5, 6))
    for row, value in enumerate(run.values):
        if row == failed:
            report(TIMED_OUT, Report(value=value, error=TIMED_OUT))
        else:
            report(None, Report(next(offsets), value))
    assert run.outcomes() == outcomes


def test_what_the_native_client_refuses_is_failed(reports):
    """Records that librdkafka refuses fail, once the reports on the others have arrived."""
    run = Run([b"a", b"b", b"c"])
    report = reports(run, Native(refused=[1]))
    report(None, Report(0, b"a"))
    assert run.alone == []
    report(None, Report(1, b"c"))
    assert run.outcomes() == [(0,), "failed", (1,)]


def test_stored_nobody_knows_where(reports):
    """A record stored at an offset that the broker did not report is unknown."""
    run = Run([b"a", b"b"])
    report = reports(run)
    report(None, Report(None, b"b"))
    report(None, Report(3, b"a"))
    assert run.outcomes() == [(3,), "unknown"]


def test_keys_tell_the_partition(reports):
    """If librdkafka chose the partitions, each record is found by its key, in the order of its partition."""
    run = Run([b"1", b"2", b"3", b"4"], [b"a", b"b", b"a", b"b"], partition=-1)
    report = reports(run)
    report(None, Report(7, b"2", b"b", partition=2))
    report(None, Report(0, b"1", b"a", partition=1))
    report(None, Report(9, b"4", b"b", partition=2))
    report(None, Report(1, b"3", b"a", partition=1))
    assert run.outcomes() == [(1, 0), (2, 7), (1, 1), (2, 9)]


def test_keys_tell_the_partition_when_one_failed(reports):
    """If librdkafka chose the partitions and a record failed, the others still get the offsets of their keys."""
    run = Run([b"1", b"2", b"3"], [b"a", b"a", b"b"], partition=-1)
    report = reports(run)
    report(TOO_LARGE, Report(value=b"1", key=b"a", error=TOO_LARGE))
    report(None, Report(4, b"2", b"a", partition=1))
    report(None, Report(4, b"3", b"b", partition=2))
    assert run.outcomes() == ["failed", (1, 4), (2, 4)]


class Shared:
    """A client's producer whose pump meets another thread that acquires one with smaller batches."""

    outdated = busy = False

    def __init__(self, batch_bytes):
        self.batch_bytes = batch_bytes
        self.meanwhile = lambda: None
        self.pumped = 0

    def pump(self, timeout):
        self.pumped += 1
        self.meanwhile()


def test_a_producer_is_acquired_while_another_is_pumped():
    """A thread that waits for reports does not mind that another one begins to send smaller batches."""
    producers = ProducersBySize(SimpleNamespace(batch_bytes=1000, acquire=lambda wanted=1000: Shared(wanted)))
    largest = producers.largest
    largest.meanwhile = lambda: producers.of(10)
    producers.pump(0)
    assert largest.pumped == 1
    assert producers.of(10) is not largest
