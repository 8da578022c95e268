"""Existing and later topics chosen by a pattern, in the connection's namespace and in others."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from urllib.error import HTTPError

import pytest
from pulsar_driver import fill

import mqplug
from mqplug import EARLIEST, LATEST, matching

LIMIT_S = 30


@pytest.fixture
def namespaces(mq, rest, name):
    """The names of two fresh namespaces, without their tenant."""
    made = [f"{name}-a", f"{name}-b"]
    for each in made:
        rest.ask("PUT", f"namespaces/public/{each}")
    yield made
    for each in made:
        with suppress(HTTPError):
            rest.ask("DELETE", f"namespaces/public/{each}?force=true")


def create(rest, full, partitions=1):
    """Create a topic by its full name, or an unpartitioned topic if ``partitions`` is 0."""
    path = full.replace("://", "/")
    rest.ask("PUT", f"{path}/partitions" if partitions else path, partitions or None)


def collect(consumer, count):
    """Receive ``count`` messages from topics that may not be known yet. Return their ids."""
    found, end = [], time.monotonic() + LIMIT_S
    while len(found) < count:
        assert time.monotonic() < end, found
        if (message := consumer.receive(0.2)) is not None:
            found.append(message.id)
    return found


@pytest.mark.parametrize("group", [None, "g"])
def test_topics_of_several_namespaces(mq, rest, name, namespaces, group):
    """A pattern of full names reads the topics of several namespaces, with and without partitions."""
    topics = [f"persistent://public/{each}/orders" for each in namespaces]
    create(rest, topics[0].replace("orders", "beside"))
    create(rest, topics[0], partitions=0)
    create(rest, topics[1], partitions=2)
    ids = [*fill(mq, topics[0], 2), *fill(mq, topics[1], 2)]
    fill(mq, topics[0].replace("orders", "beside"), 1)
    pattern = matching(f"persistent://public/{re.escape(name)}-.*/orders")
    with mq.consumer(pattern, start=EARLIEST, group=group) as consumer:
        assert {*collect(consumer, 4)} == {*ids}
        assert {log.topic for log in consumer.assignment()} == {*topics}
        assert consumer.receive(0.3) is None
        fresh = fill(mq, topics[1], 1)
        assert collect(consumer, 1) == [*fresh]


@pytest.mark.parametrize(
    ("group", "partitions"),
    [
        (None, 2),
        ("g", 0),
        pytest.param(None, 0, marks=pytest.mark.night),
        pytest.param("g", 2, marks=pytest.mark.night),
    ],
)
def test_later_topics_from_their_first_message(mq, rest, namespaces, group, partitions):
    """A topic created later is read from its first message, even if its namespace was empty and after ``LATEST``."""
    pattern = matching(f"persistent://public/{re.escape(namespaces[0])}/.*")
    with mq.consumer(pattern, start=LATEST, group=group) as consumer:
        assert consumer.receive(0) is None
        full = f"persistent://public/{namespaces[0]}/new"
        create(rest, full, partitions)
        ids = fill(mq, full, 3)
        assert {*collect(consumer, 3)} == {*ids}
        other = f"persistent://public/{namespaces[0]}/newer"
        create(rest, other)
        more = fill(mq, other, 2)
        assert collect(consumer, 2) == [*more]
        last = fill(mq, full, 1)
        assert collect(consumer, 1) == [*last]


def test_own_namespace_by_full_names(mq, topic):
    """A pattern of full names also finds topics of the connection's namespace, whose messages have plain names."""
    ids = fill(mq, topic, 2)
    found = list(mq.read(matching(f"persistent://public/default/{re.escape(topic)}")))
    assert [message.id for message in found] == [*ids]
    assert {message.topic for message in found} == {topic}


def test_acks_in_other_namespaces(mq, rest, namespaces):
    """Acks in another namespace are stored, and the next member of the pattern's group continues after them."""
    full = f"persistent://public/{namespaces[0]}/orders"
    create(rest, full)
    ids = fill(mq, full, 3)
    pattern = matching(f"persistent://public/{re.escape(namespaces[0])}/.*")
    with mq.consumer(pattern, group="g") as member:
        for _ in range(2):
            member.ack(member.receive(LIMIT_S))
        member.commit()
    with mq.consumer(pattern, group="g") as member:
        assert collect(member, 1) == [ids[2]]


def test_a_namespace_that_does_not_exist(mq, name):
    """A pattern in an unknown namespace or tenant matches no topic: a read raises ``TopicNotFound``, a group waits."""
    with pytest.raises(mqplug.TopicNotFound):
        list(mq.read(matching(f"persistent://public/{re.escape(name)}/.*")))
    mq.consumer(matching(f"persistent://nobody{name}/.*"), group="g").close()


def test_patterns_need_the_admin_interface(plain):
    """Without ``admin_url`` a pattern raises ``Unsupported`` with a fix that names ``admin_url``."""
    with pytest.raises(mqplug.Unsupported, match="topic_patterns") as caught:
        plain.consumer(matching("persistent://public/default/.*"), group="g")
    assert "admin_url" in caught.value.fix


def test_partitions_added_to_a_patterns_topic(mq, rest, namespaces):
    """Partitions added to a pattern's topic are read once, from their first message."""
    full = f"persistent://public/{namespaces[0]}/orders"
    create(rest, full)
    with mq.consumer(matching(f"persistent://public/{re.escape(namespaces[0])}/.*"), group="g") as member:
        assert collect_none(member)
        mq.add_partitions(full, 3)
        with mq.producer(full) as out:
            ids = [out.send(b"x", partition=number) for number in range(3)]
        assert {*collect(member, 3)} == {*ids}
        assert collect_none(member)
        more = fill(mq, full, 1)
        assert collect(member, 1) == [*more]


def collect_none(consumer):
    """Return whether no message comes for 0.3 s."""
    return consumer.receive(0.3) is None
