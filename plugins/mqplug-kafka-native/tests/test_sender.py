"""Senders without a broker: accepted and refused records, reports, and the release of objects."""

from __future__ import annotations

import gc
import time
import weakref

import pytest
from confluent_kafka import KafkaError, KafkaException

from mqplug_kafka_native import Sender

NEVER = 2**62


class Owner:
    """The owner of a run."""


@pytest.fixture
def sender():
    """A sender whose broker does not answer."""
    return Sender({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": lambda _: None})


def send(sender, owner, values, keys=None, headers=None, times=None, latest=NEVER):
    """Send records to one partition."""
    return sender.send(owner, "t", 0, len(values), values, keys, headers, times, latest)


def reports_of(sender):
    """Return the reports on all runs."""
    reports: list = []
    until = time.monotonic() + 30
    while sender.poll(0.1, reports) and time.monotonic() < until:
        pass
    return reports


def test_each_dropped_record_is_reported_in_its_row(sender):
    """A purge reports each row of each run as failed, with the run's owner."""
    first, second = Owner(), Owner()
    assert send(sender, first, [b"a", None, b""])
    assert send(sender, second, [b"a"], [b"k"], [(("name", None), ("name", b""))], [1])
    sender.purge()
    reports = {each.owner: each for each in reports_of(sender) if each.is_complete}
    dropped = KafkaError._PURGE_QUEUE
    assert reports[first].failures == [(0, dropped, True), (1, dropped, True), (2, dropped, True)]
    assert reports[second].failures == [(0, dropped, True)]
    assert all(each.is_sound and each.coordinates is None for each in reports.values())
    assert list(reports[first].offsets) == [-1, -1, -1]
    assert len(sender) == 0


def test_a_record_that_is_too_large_is_refused_in_its_row(sender):
    """A record that librdkafka refuses as too large is reported in its row as never sent."""
    assert send(sender, "owner", [b"a", b"x" * 2_000_000])
    sender.purge()
    report = reports_of(sender)[-1]
    assert report.failures == [(0, KafkaError._PURGE_QUEUE, True), (1, KafkaError.MSG_SIZE_TOO_LARGE, False)]


@pytest.mark.parametrize(
    "fields",
    [{"headers": [(("a\0b", b""),)]}, {"times": [0]}, {"times": [11], "latest": 10}],
    ids=["NUL", "zero", "late"],
)
def test_a_run_that_would_not_be_stored_as_it_is_is_not_sent(sender, fields):
    """A run that would be stored with other fields than given is not sent: ``send`` returns False, without a report."""
    assert not send(sender, "owner", [b"a"], **fields)
    sender.purge()
    assert reports_of(sender) == []


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
    count = len(columns[0]) if isinstance(columns[0], list) else 1
    with pytest.raises(error):
        sender.send("owner", "t", 0, count, *columns, *[None] * (4 - len(columns)), NEVER)
    sender.purge()
    assert reports_of(sender) == []


def test_wrong_options_are_refused():
    """An unknown option raises confluent-kafka's KafkaException."""
    with pytest.raises(KafkaException) as raised:
        Sender({"bootstrap.servers": "127.0.0.1:1", "no.such.option": 1})
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
    owner.sender = Sender({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": lambda _: None})
    assert send(owner.sender, owner, [bytes(1000)] * 1000)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_an_exception_of_the_error_callback_is_raised_by_poll():
    """An exception in ``error_cb`` is raised by flush; reports that are not a list raise TypeError."""

    def fail(_error):
        raise ZeroDivisionError

    sender = Sender({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": fail})
    send(sender, "owner", [b"a"])
    with pytest.raises(ZeroDivisionError):
        sender.flush(30, [])
    sender.purge()
    with pytest.raises(TypeError):
        sender.poll(0.1, ())
