"""The fixture ``mq``: a fresh store in which waiting takes no time."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqplug
from mqplug import memory
from mqplug.memory import MemoryClient

pytest_plugins = "pytester"

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Check that a test is quick: each would last minutes if it waited."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 60


def filled(mq: MemoryClient, *values: bytes) -> None:
    """A topic with these messages."""
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        out.send_many(list(values))


def test_an_idle_receive_returns_at_once(mq: MemoryClient) -> None:
    """As nothing can come, the clock advances by the timeout instead."""
    filled(mq)
    began = mq.clock.monotonic()
    with mq.consumer("orders", group="billing") as orders:
        assert orders.receive(timeout=600) is None
        assert len(orders.receive_many(10, timeout=600)) == 0
    assert mq.clock.monotonic() - began > 1200


@pytest.mark.parametrize("mode", ["ordered", "exclusive", "shared", "key_shared"])
def test_a_delay_passes_at_once(mq: MemoryClient, mode) -> None:
    """A nacked message comes when its delay is over, and not before."""
    filled(mq, b"x")
    with mq.consumer("orders", group="billing", mode=mode) as orders:
        orders.nack(orders.receive(timeout=5), delay=600)
        assert orders.receive(timeout=500) is None
        assert orders.receive(timeout=200).attempt == 2


def test_a_message_that_another_thread_sends_is_waited_for(mq: MemoryClient) -> None:
    """While another thread could send, time is real."""
    filled(mq)
    with mq.producer("orders") as out, mq.consumer("orders", start=mqplug.LATEST) as orders:
        timer = threading.Timer(0.3, out.send, [b"late"])
        timer.start()
        message = orders.receive(timeout=10)
        timer.join()
    assert message.value == b"late"


def test_a_hand_over_is_waited_for(mq: MemoryClient) -> None:
    """A member gets its share, although the other one of this thread does nothing in between."""
    mq.create_topic("orders", partitions=2)
    with mq.consumer("orders", group="billing") as one:
        one.receive(timeout=0)
        with mq.consumer("orders", group="billing") as other:
            other.receive(timeout=60)
            assert len(other.assignment()) == 1


def test_ago_looks_back_from_the_stores_time(mq: MemoryClient) -> None:
    """The last hour is relative to the advanced clock."""
    filled(mq, b"old")
    mq.clock.advance(7200)
    with mq.producer("orders") as out:
        out.send(b"new")
    assert [message.value for message in mq.read("orders", start=mqplug.ago(hours=1))] == [b"new"]


def test_other_code_connects_to_the_same_store(mq: MemoryClient) -> None:
    """Other code connects by the store's URL, also in another personality."""
    filled(mq, b"x")
    with mqplug.connect(mq.url) as other:
        assert [message.value for message in other.read("orders")] == [b"x"]


@pytest.mark.parametrize("mq", ["kafka", "pulsar"], indirect=True)
def test_a_parameter_says_what_the_store_is_like(mq: MemoryClient) -> None:
    """The personality is a parameter of the fixture."""
    assert mq.url.endswith(("kafka", "pulsar"))
    assert mq.capabilities.count_exact is False


def test_a_deadline_of_the_store_is_not_skipped_without_the_fixture() -> None:
    """A client without the fixture waits in real time."""
    with MemoryClient.fresh() as client:
        client.create_topic("orders")
        began = time.monotonic()
        with client.consumer("orders", start=mqplug.EARLIEST) as orders:
            assert orders.receive(timeout=0.3) is None
        assert time.monotonic() - began >= 0.3


def test_only_what_is_public_is_exported() -> None:
    """The package exports exactly its public names."""
    assert memory.MemoryClient is MemoryClient
    with pytest.raises(AttributeError, match="nonsense"):
        _ = memory.nonsense


def test_the_tests_on_its_page_pass(pytester: pytest.Pytester) -> None:
    """The tests on the page docs/memory.md are run and pass."""
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    pytester.makepyfile("\n".join(block for block in blocks if "def test_" in block))
    pytester.runpytest("-W", "error").assert_outcomes(passed=3)
