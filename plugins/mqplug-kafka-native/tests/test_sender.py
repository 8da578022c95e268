"""Senders without a broker: accepted and refused records, reports, and the release of objects."""

from __future__ import annotations

import gc
import time
import weakref
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from mqplug_kafka_native import Sender

FOREVER_S = 1e12
OPTIONS = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": lambda _: None}


class Owner:
    """The owner of a run, which keeps its reports."""

    def __init__(self):
        self.reports = []

    def take_report(self, report):
        self.reports.append(report)


class Run:
    """A run for one partition, with the given columns."""

    topic, partition = "t", 0

    def __init__(self, count, *columns):
        self.count = count
        self.values, self.keys, self.headers, self.timestamps = [*columns, None, None, None][:4]

    def __len__(self):
        return self.count

    def arrow(self, names):
        return {}


def new_sender(**options):
    """Return a sender whose reports are sound."""
    return Sender({**OPTIONS, **options}, lambda: pytest.fail("its reports contradict each other"))


@pytest.fixture
def sender():
    """A sender whose broker does not answer."""
    return new_sender()


def send(sender, owner, values, keys=None, headers=None, times=None, future_max=FOREVER_S):
    """Send records to one partition."""
    return sender.send_run(Run(len(values), values, keys, headers, times), owner, future_max)


def serve(sender):
    """Take the reports on all runs."""
    until = time.monotonic() + 30
    while sender.poll(0.1) and time.monotonic() < until:
        pass


def test_each_dropped_record_is_reported_in_its_row(sender):
    """A purge reports each row of each run as failed, with the run's owner."""
    first, second, third = Owner(), Owner(), Owner()
    assert send(sender, first, [b"a", None, b""])
    assert send(sender, second, [b"a"], [b"k"], [(("name", None), ("name", b""))], [1])
    assert sender.send(
        SimpleNamespace(topic="t", partition=-1, value=None, key=b"k", headers=(), timestamp=None), third
    )
    sender.purge()
    serve(sender)
    reports = [each.reports[-1] for each in (first, second, third)]
    dropped = KafkaError._PURGE_QUEUE
    assert reports[0].failures == [(0, dropped, True), (1, dropped, True), (2, dropped, True)]
    assert reports[1].failures == reports[2].failures == [(0, dropped, True)]
    assert all(each.is_complete and each.is_sound and each.error == dropped for each in reports)
    assert list(reports[0].offsets) == [-1, -1, -1]
    assert [each.partitions is None for each in reports] == [True, True, False]
    assert len(sender) == 0


def test_a_record_that_is_too_large_is_refused_in_its_row(sender):
    """A record that librdkafka refuses as too large is reported in its row as never sent."""
    owner = Owner()
    assert send(sender, owner, [b"a", b"x" * 2_000_000])
    sender.purge()
    serve(sender)
    assert owner.reports[-1].failures == [(0, KafkaError._PURGE_QUEUE, True), (1, KafkaError.MSG_SIZE_TOO_LARGE, False)]


@pytest.mark.parametrize(
    "fields",
    [{"headers": [(("a\0b", b""),)]}, {"times": [0]}, {"times": [2**60], "future_max": 10}],
    ids=["NUL", "zero", "late"],
)
def test_a_run_that_would_not_be_stored_as_it_is_is_not_sent(sender, fields):
    """A run that would be stored with other fields than given is not sent: ``send`` returns False, without a report."""
    owner = Owner()
    assert not send(sender, owner, [b"a"], **fields)
    sender.purge()
    serve(sender)
    assert owner.reports == []


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (([b"a", "text"],), TypeError),
        (([b"a"], [b"k", b"l"]), ValueError),
        (([b"a"], None, [("name",)]), TypeError),
        (([b"a"], None, [[("name", b"")]]), TypeError),
        (([b"a"], None, [((b"name", b""),)]), TypeError),
        (([b"a"], None, None, ["today"]), TypeError),
        (([b"a"], None, None, [2**70]), OverflowError),
        ((object(),), (AttributeError, TypeError)),
        (([],), ValueError),
        ((None,), (TypeError, ValueError)),
    ],
)
def test_columns_of_another_kind_are_refused(sender, columns, error):
    """Columns of a wrong type, length or value raise a built-in exception, and nothing is sent."""
    owner = Owner()
    run = Run(len(columns[0]) if isinstance(columns[0], list) else 1, *columns)
    with pytest.raises(error):
        sender.send_run(run, owner, FOREVER_S)
    sender.purge()
    serve(sender)
    assert owner.reports == []


@pytest.mark.parametrize("missing", ["topic", "partition", "value", "key", "headers", "timestamp"])
def test_a_record_that_lacks_a_field_is_refused(sender, missing):
    """An object without one of a record's fields raises AttributeError, and nothing is sent."""
    fields = {"topic": "t", "partition": 0, "value": b"a", "key": None, "headers": (), "timestamp": None}
    del fields[missing]
    owner = Owner()
    with pytest.raises(AttributeError):
        sender.send(SimpleNamespace(**fields), owner)
    sender.purge()
    serve(sender)
    assert owner.reports == []


def test_wrong_options_are_refused():
    """An unknown option raises confluent-kafka's KafkaException."""
    with pytest.raises(KafkaException) as raised:
        new_sender(**{"no.such.option": 1})
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG


def test_calls_for_transactions_need_a_name(sender):
    """Transaction calls of a sender without a transactional id raise KafkaException."""
    for call in (
        sender.begin_transaction,
        lambda: sender.init_transactions(0.1),
        lambda: sender.commit_transaction(0.1),
    ):
        with pytest.raises(KafkaException) as raised:
            call()
        assert raised.value.args[0].code() == KafkaError._NOT_CONFIGURED


def test_a_sender_lets_go_of_runs_that_were_never_reported(sender):
    """Garbage collection frees a sender with unreported runs whose owner refers to the sender."""
    owner = Owner()
    owner.sender = new_sender()
    assert send(owner.sender, owner, [bytes(1000)] * 1000)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_an_exception_of_the_error_callback_is_raised_by_poll():
    """An exception in ``error_cb`` is raised by flush."""

    def fail(_error):
        raise ZeroDivisionError

    sender = new_sender(error_cb=fail)
    send(sender, Owner(), [b"a"])
    with pytest.raises(ZeroDivisionError):
        sender.flush(30)


def test_an_exception_of_an_owner_is_raised_and_the_others_are_told_later(sender):
    """An owner's exception is raised by poll, and the next call tells the outcomes that were left."""
    bad, good = SimpleNamespace(take_report=lambda _: 1 // 0), Owner()
    send(sender, bad, [b"a"])
    send(sender, good, [b"a"])
    sender.purge()
    with pytest.raises(ZeroDivisionError):
        serve(sender)
    serve(sender)
    assert good.reports[-1].is_complete
    assert len(sender) == 0
