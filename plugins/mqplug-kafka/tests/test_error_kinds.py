"""The typed errors for errors of librdkafka."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

import mqplug
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
