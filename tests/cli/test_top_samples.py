"""What ``mqplug top`` asks a backend for, and the rates that it computes from two samples."""

from __future__ import annotations

import pytest

import mqplug

pytest.importorskip("textual", reason="mqplug[top] is not installed")

from mqplug_cli._top import overview, rates
from mqplug_cli._top.model import HISTORY, GroupSample, Model, Sample, TopicSample
from mqplug_cli._top.overview import View
from mqplug_cli._top.probe import Probe
from mqplug_cli._top.short_texts import sparkline

pytestmark = pytest.mark.python


class Clock:
    """A clock that advances on request."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The clock by which samples are dated."""
    return Clock()


@pytest.fixture(params=["memory", "rocksmq"])
def mq(request, tmp_path):
    """A client of a store with the topic "orders" of two partitions."""
    if request.param == "rocksmq":
        pytest.importorskip("mqplug_rocksmq", reason="mqplug-rocksmq is not installed")
    url = f"rocksmq://{tmp_path / 'mq'}" if request.param == "rocksmq" else f"memory://{request.function.__name__}"
    with mqplug.connect(url) as client:
        client.create_topic("orders", partitions=2)
        yield client


def send(mq, count, topic="orders"):
    """Store this many messages."""
    with mq.producer(topic) as out:
        out.send_many([b"x"] * count)


def asking(mq, clock, group_seconds=10):
    """Return a probe of this client."""
    return Probe(mq, timeout=10, group_seconds=group_seconds, clock=clock)


def test_the_rate_in_is_what_was_stored_between_two_samples(mq, clock):
    """Thirty messages in two seconds are fifteen per second; the first sample has no rate."""
    asked = asking(mq, clock)
    assert asked.take().topics["orders"].rate is None
    send(mq, 30)
    clock.now = 2.0
    assert asked.take().topics["orders"].rate == 15.0


def test_a_new_partition_counts_from_its_beginning(mq, clock):
    """Messages of a partition that was added between two samples count in the rate."""
    asked = asking(mq, clock)
    asked.take()
    mq.add_partitions("orders", 3)
    send(mq, 30)
    clock.now = 1.0
    assert asked.take().topics["orders"].rate == 30.0


def test_a_topic_that_was_created_anew_has_no_rate_yet(mq, clock):
    """The messages of a deleted topic are not subtracted from those of its successor."""
    send(mq, 5)
    asked = asking(mq, clock)
    asked.take()
    mq.delete_topic("orders")
    mq.create_topic("orders", partitions=2)
    clock.now = 1.0
    assert asked.take().topics["orders"].rate is None


def test_the_rate_out_is_how_far_a_group_moved(mq, clock):
    """A group that acked twenty messages in two seconds reads ten per second, and its lag is the remainder."""
    send(mq, 50)
    mq.reset_group("billing", "orders", mqplug.EARLIEST)
    asked = asking(mq, clock)
    before = asked.take().groups["billing", "orders"]
    assert (before.behind, before.rate) == (50, None)
    with mq.consumer("orders", group="billing") as consumer:
        for _ in range(20):
            consumer.ack(consumer.receive(timeout=10))
        consumer.commit()
        clock.now = 2.0
        sample = asked.take()
    now = sample.groups["billing", "orders"]
    assert (now.behind, now.rate, sample.members["billing"]) == (30, 10.0, 1)
    assert now.behind == sum(mq.lag("orders", group="billing").values())


def test_a_group_that_was_moved_back_passes_nothing(mq, clock):
    """Seeking back gives no negative rate."""
    send(mq, 50)
    mq.reset_group("billing", "orders", mqplug.LATEST)
    asked = asking(mq, clock)
    asked.take()
    mq.reset_group("billing", "orders", mqplug.EARLIEST)
    clock.now = 1.0
    assert asked.take().groups["billing", "orders"].rate == 0.0


def test_a_deleted_group_and_topic_are_gone(mq, clock):
    """A deleted group or topic is in no later sample."""
    mq.create_topic("refunds")
    for topic in ("orders", "refunds"):
        mq.reset_group("billing", topic, mqplug.EARLIEST)
    asked = asking(mq, clock)
    assert set(asked.take().groups) == {("billing", "orders"), ("billing", "refunds")}
    mq.delete_topic("refunds")
    assert set(asked.take().groups) == {("billing", "orders")}
    mq.delete_group("billing")
    assert asked.take().groups == {}


def test_groups_take_turns_when_time_is_short(mq, clock):
    """With time for one group per sample, groups are queried in turn, and a wanted group each time."""
    for group in ("a", "b", "c"):
        mq.reset_group(group, "orders", mqplug.EARLIEST)
    asked = asking(mq, clock, group_seconds=0)
    seen = []
    for clock.now in (1.0, 2.0, 3.0, 4.0):
        seen.append(len(asked.take().groups))
    assert seen == [1, 2, 3, 3]
    asked.wanted = {"b"}
    clock.now = 5.0
    found = asked.take().groups
    assert max(found, key=lambda key: found[key].at) == ("b", "orders")


def test_without_distances_rates_are_estimated(clock):
    """If the client cannot count between positions, as on Pulsar, rates come from counts and lag."""
    with mqplug.connect("memory://estimated?like=pulsar") as client:
        client.create_topic("orders")
        client.reset_group("billing", "orders", mqplug.EARLIEST)
        asked = asking(client, clock)
        asked.take()
        send(client, 30)
        client.reset_group("billing", "orders", mqplug.LATEST)
        clock.now = 2.0
        found = asked.take()
        lag = sum(client.lag("orders", group="billing").values())
    assert found.topics["orders"].rate > 0
    assert found.groups["billing", "orders"].rate == found.topics["orders"].rate
    assert found.groups["billing", "orders"].behind == lag


def test_what_a_group_passed_is_what_was_stored_less_what_its_lag_grew():
    """Twenty a second stored and thirty less to read after two seconds are thirty-five a second read."""
    before = GroupSample(0.0, {0: 100, 1: 0})
    now = GroupSample(2.0, {0: 60, 1: 10})
    assert rates.passed_rate(before, now, 20.0, None) == 35.0
    assert rates.passed_rate(before, now, None, None) is None


def test_a_sample_of_the_same_moment_tells_no_rate():
    """Two samples at the same time give no rate."""
    here = TopicSample(1.0, {})
    assert rates.stored_rates(here, here, None) is None


def test_the_highest_rate_is_a_full_bar():
    """Bars are relative to the highest; zero is the lowest bar, a small rate is higher than that, unknown is blank."""
    assert sparkline([None, 0.0, 0.1, 50.0, 100.0], 7) == "   ▁▂▅█"  # rounds half to even
    assert sparkline([1.0] * 30, 3) == "███"
    assert sparkline([], 2) == "  "


def test_an_outage_ends_with_the_next_sample():
    """A failed sample keeps the previous figures, and says since when; the next one ends the outage."""
    model = Model()
    model.add(Sample(1.0, {"orders": TopicSample(1.0, {})}))
    model.fail(mqplug.ConnectError("gone"), "no route to host", 5.0)
    model.fail(mqplug.ConnectError("gone"), "still none", 9.0)
    assert (model.outage.since, model.outage.reason) == (5.0, "still none")
    assert set(model.sample.topics) == {"orders"}
    model.add(Sample(10.0, {}))
    assert model.outage is None


def test_the_history_is_bounded_and_forgets():
    """The history keeps the rates of a limited number of samples, and none of a deleted topic."""
    model = Model()
    for number in range(HISTORY + 5):
        model.add(Sample(float(number), {"orders": TopicSample(float(number), {}, {0: float(number)})}))
    assert len(model.stored.of("orders")) == HISTORY
    model.add(Sample(1000.0, {}))
    assert model.stored.of("orders") == ()


def test_a_thousand_topics_are_one_question(clock):
    """The watermarks of all topics are requested in one call, whatever their number."""
    with mqplug.connect("memory://many") as client:
        for number in range(1000):
            client.create_topic(f"topic{number}")
        calls = []
        whole = client.watermarks
        client.watermarks = lambda names, **options: calls.append(len(names)) or whole(names, **options)
        sample = asking(client, clock).take()
    assert (len(sample.topics), calls) == (1000, [1000])


def test_rows_are_ordered_by_what_is_asked_for():
    """Rows are sorted by name, or by rate, lag or messages with the highest first; a filter leaves matching names."""
    model = Model()
    model.add(
        Sample(
            1.0,
            {name: TopicSample(1.0, {}, {0: rate}) for name, rate in (("b", 1.0), ("a", 2.0), ("big", 9.0))},
            {"g": 0},
            {("g", "a"): GroupSample(1.0, {0: 7}, rate=0.0), ("g", "b"): GroupSample(1.0, {0: 70}, rate=1.0)},
        )
    )
    names = {
        order: [row.key for row in overview.topic_rows(model, View(order=order))] for order in ("name", "in", "lag")
    }
    assert names == {"name": ["a", "b", "big"], "in": ["big", "a", "b"], "lag": ["b", "a", "big"]}
    assert [row.key for row in overview.topic_rows(model, View(text="B"))] == ["b", "big"]
    groups = overview.group_rows(model, View(order="lag"))
    assert [(row.key, row.marked) for row in groups] == [(("g", "b"), False), (("g", "a"), True)]
