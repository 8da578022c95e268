"""Offset look-ups: invalid offsets from a restarting broker, shared timeouts and mixed answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mqplug import AccessDenied, Log, Timeout
from mqplug.spi import Last, Latest
from mqplug_kafka._admin.log_offsets import LOG_END, LOG_START, bounds, look_up, resolve_start, watermarks
from mqplug_kafka._cluster.admin_requests import AdminRequests

ORDERS = Log("kafka", "cluster", "orders", 0)


class ReturningBroker:
    """A connection whose broker answers each request with the next of these offsets, and repeats the last one."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = list(offsets)
        self.admin = self.requests = self

    def list_offsets(self, wanted: Any, **_: Any) -> Any:
        offset = self._offsets.pop(0) if len(self._offsets) > 1 else self._offsets[0]
        return dict.fromkeys(wanted, SimpleNamespace(offset=offset))

    def wait_for_all(self, _: str, answers: Any, timeout: float) -> Any:
        return answers


@pytest.mark.parametrize("spec", [LOG_START, LOG_END], ids=["start", "end"])
def test_a_negative_offset_is_asked_for_again(spec: Any) -> None:
    """While a restarted broker answers -1 for the start or end of a log, the request is repeated."""
    broker: Any = ReturningBroker(-1, -1, 7)
    assert look_up(broker, [ORDERS], spec)(5) == {ORDERS: 7}


def test_negative_for_ever() -> None:
    """A broker that keeps answering -1 leads to Timeout."""
    broker: Any = ReturningBroker(-1)
    with pytest.raises(Timeout, match=r"some of .* have no leader"):
        look_up(broker, [ORDERS], LOG_END)(0.1)


class SlowBroker(ReturningBroker):
    """A connection whose broker describes topics just in time and then stops answering."""

    def __init__(self) -> None:
        super().__init__(0)
        self.failures = SimpleNamespace(hopeless=lambda *_: False)

    def check(self, _: Any, timeout: float) -> None:
        time.sleep(0.8 * timeout)

    def is_refused(self, _: float) -> bool:
        return False

    def wait_for_all(self, _: str, answers: Any, timeout: float) -> Any:
        time.sleep(timeout)
        raise Timeout("no answer")


@pytest.mark.parametrize(
    "question",
    [
        lambda broker: watermarks(broker, [ORDERS], {}, 1),
        lambda broker: resolve_start(broker, Last(1), [ORDERS], 1),
        lambda broker: resolve_start(broker, Latest(), [ORDERS], 1),
        lambda broker: bounds(broker, [ORDERS], 1),
    ],
    ids=["watermarks", "last", "latest", "bounds"],
)
def test_the_steps_of_a_question_share_its_time(question: Callable[[Any], object]) -> None:
    """All steps of one call share its timeout: a slow step leaves less time for the next."""
    began = time.monotonic()
    with pytest.raises(Timeout):
        question(SlowBroker())
    assert time.monotonic() - began < 1.5


def waiting(poll: Callable[[float], object]) -> Any:
    """Return requests to a broker without connection failures; a waiting request calls ``poll`` repeatedly."""
    requests: Any = object.__new__(AdminRequests)
    requests._admin, requests._servers = SimpleNamespace(poll=poll), 1
    requests.failures = SimpleNamespace(hopeless=lambda *_: False)
    return requests


def test_answers_may_come_in_any_order() -> None:
    """The results of one request are complete and in order even if the last future completes first."""
    first, last = Future[int](), Future[int]()
    last.set_result(2)
    requests = waiting(lambda _: first.set_result(1))
    assert requests.wait_for_all("offsets", [first, last], 30) == [1, 2]


def test_a_refusal_among_the_answers_is_typed() -> None:
    """A refusal for one of many partitions is raised as a typed error."""
    refused, answered = Future[int](), Future[int]()
    refused.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    answered.set_result(1)
    with pytest.raises(AccessDenied, match="offsets"):
        waiting(lambda _: 0).wait_for_all("offsets", [refused, answered], 30)
