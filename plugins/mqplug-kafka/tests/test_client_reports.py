"""What librdkafka reports: its errors become typed ones, and its log is throttled."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError

import mqplug
from mqplug_kafka._cluster import log_throttle
from mqplug_kafka._cluster.errors import typed_error

PASSING = [
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_CONTROLLER",
    "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "OFFSET_NOT_AVAILABLE", "REBALANCE_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "UNSTABLE_OFFSET_COMMIT",
]  # fmt: skip


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_a_timeout(name):
    """A refusal that passes by itself becomes a retryable Timeout whose text names it."""
    error = typed_error(KafkaError(getattr(KafkaError, name)), "commit")
    assert isinstance(error, mqplug.Timeout)
    assert error.retryable
    assert name in str(error)


def record(text):
    """Return a log record with this text."""
    return logging.LogRecord("mqplug.kafka", logging.ERROR, "", 0, text, None, None)


def test_what_differs_in_numbers_only_is_said_once(monkeypatch):
    """Lines that differ only in numbers are logged once per interval; a different line is logged at once."""
    now = [100.0]
    monkeypatch.setattr(log_throttle.time, "monotonic", lambda: now[0])
    throttle = log_throttle.LogThrottle()
    assert throttle.filter(record("refused after 3 ms"))
    assert not throttle.filter(record("refused after 15 ms"))
    assert throttle.filter(record("timed out after 15 ms"))
    now[0] += log_throttle.REPEAT_AFTER_S
    assert throttle.filter(record("refused after 0 ms"))


def test_the_lines_that_are_remembered_are_bounded(monkeypatch):
    """If every line is new, all are logged, and the number of remembered lines stays bounded."""
    monkeypatch.setattr(log_throttle, "MAX_REMEMBERED_LINES", 10)
    throttle = log_throttle.LogThrottle()
    assert all(throttle.filter(record(chr(65 + number))) for number in range(25))
    assert len(throttle._passed) <= 10
