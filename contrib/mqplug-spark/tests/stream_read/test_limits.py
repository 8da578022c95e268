"""The division of a limit among partitions, and the delay of batches."""

from __future__ import annotations

import random

import pytest

from mqplug_spark._stream_read.limits import BatchDelay, shares


@pytest.mark.parametrize(
    ("lags", "most", "expected"),
    [
        ([100, 100], 50, [25, 25]),
        ([300, 100], 40, [30, 10]),
        ([10, 20], 30, [10, 20]),
        ([10, 20], 99, [10, 20]),
        ([1_000_000, 1], 10, [9, 1]),
        ([0, 50, 0], 20, [0, 20, 0]),
        ([7, 7, 7], 10, [4, 3, 3]),
        ([5, 5, 5, 5], 2, [1, 1, 1, 1]),
        ([1, 1, 1], 2, [1, 1, 1]),
        ([1, 1, 1], 3, [1, 1, 1]),
        ([], 5, []),
        ([0, 0], 5, [0, 0]),
    ],
)
def test_shares(lags: list[int], most: int, expected: list[int]) -> None:
    """Shares are proportional to the lags, add up to the limit, and give each lagging partition progress."""
    found = shares(dict(enumerate(lags)), most)
    assert [found.get(partition, 0) for partition in range(len(lags))] == expected


def test_shares_are_exact() -> None:
    """For any lags, the sum is the limit or the whole lag, and each share is within its lag and near its proportion."""
    chance = random.Random(7)
    for _ in range(2_000):
        lags = {each: chance.choice([0, 1, 2, 10, 1_000, 10**12]) for each in range(chance.randint(1, 9))}
        lagging = [each for each, lag in lags.items() if lag]
        most = chance.choice([len(lagging) or 1, 17, 20_000, 10**9])
        found = shares(lags, most)
        assert sum(found.values()) == max(min(most, sum(lags.values())), min(len(lagging), sum(lags.values())))
        assert sorted(found) == lagging
        assert all(1 <= found[each] <= lags[each] for each in lagging)


def test_the_first_batch_of_a_run_is_not_held_back() -> None:
    """The first batch takes the stored messages, as in spark-sql-kafka; later ones wait for enough messages."""
    delay = BatchDelay(100, 900)
    assert not delay.holds(1, now=5000)
    assert delay.holds(99, now=5001)
    assert not delay.holds(100, now=5002)


def test_the_first_batch_with_messages_is_not_held_back() -> None:
    """The delay does not begin while a run has found no message yet."""
    delay = BatchDelay(100, 900)
    assert delay.holds(0, now=5000)
    assert not delay.holds(1, now=5001)
    assert delay.holds(1, now=5002)


def test_a_batch_is_held_back_no_longer_than_its_delay() -> None:
    """After maxTriggerDelay, one message is enough; without any, no batch is planned and no new wait begins."""
    delay = BatchDelay(100, 900)
    assert not delay.holds(1, now=0)
    assert delay.holds(5, now=899)
    assert delay.holds(0, now=901)
    assert not delay.holds(5, now=902)
    assert delay.holds(5, now=903)
