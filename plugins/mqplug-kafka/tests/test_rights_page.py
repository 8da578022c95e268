"""Each call works with the rights listed in docs/rights.md, and is refused if one of them is missing."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from kafka_driver import new_name, take
from rights_page import client_calls, rights_on

import mqplug

RIGHTS = rights_on("Kafka")
UNSUPPORTED = {"stage", "ingest", "discard"}


class Place(NamedTuple):
    """The names of a topic with a message, of a group with a position on it, and of a transaction."""

    topic: str
    group: str
    name: str


def send(mq, place):
    """Send a message."""
    with mq.producer(place.topic) as out:
        out.send(b"x", timeout=30)


def read_without_a_group(mq, place):
    """Receive a message without a group."""
    with mq.consumer(place.topic, start=mqplug.EARLIEST) as reader:
        take(reader, 1)


def take_part(mq, place):
    """Receive, ack, commit and seek as a member of a group."""
    with mq.consumer(place.topic, group=place.group) as member:
        member.seek(mqplug.EARLIEST)
        member.ack(take(member, 1)[0])
        member.commit(30)


def transact(mq, place, **more):
    """Send in a transaction."""
    with mq.transaction(place.name, **more) as step:
        step.send(b"x", topic=place.topic)


def transact_with_a_consumer(mq, place):
    """Send and ack in a transaction."""
    with mq.consumer(place.topic, group=place.group, start=mqplug.EARLIEST) as member:
        member.seek(mqplug.EARLIEST)
        message = take(member, 1)[0]
        with mq.transaction(place.name, consumer=member) as step:
            step.send(b"x", topic=place.topic)
            member.ack(message)


def trim(mq, place):
    """Remove all messages."""
    mq.trim(place.topic, {0: mq.watermarks(place.topic)[0].high})


CALLS = {
    "connect": lambda mq, place: None,
    "health": lambda mq, place: mq.health(),
    "describe_cluster": lambda mq, place: mq.describe_cluster(),
    "describe": lambda mq, place: mq.describe(place.topic),
    "partitions": lambda mq, place: mq.partitions(place.topic),
    "watermarks": lambda mq, place: mq.watermarks(place.topic),
    "resolve": lambda mq, place: mq.resolve(place.topic, mqplug.at_time(0)),
    "bounds": lambda mq, place: mq.bounds(place.topic),
    "send": send,
    "read": lambda mq, place: next(iter(mq.read(place.topic))),
    "consumer without a group": read_without_a_group,
    "consumer with a group": take_part,
    "transaction": transact,
    "transaction with a consumer": transact_with_a_consumer,
    "transaction with a number": lambda mq, place: transact(mq, place, topic=place.topic, number=1),
    "positions": lambda mq, place: mq.positions(place.topic, group=place.group),
    "lag": lambda mq, place: mq.lag(place.topic, group=place.group),
    "reset_group": lambda mq, place: mq.reset_group(place.group, place.topic, mqplug.EARLIEST),
    "delete_group": lambda mq, place: mq.delete_group(place.group),
    "create_topic": lambda mq, place: mq.create_topic(place.topic),
    "alter_topic": lambda mq, place: mq.alter_topic(place.topic, retention=3600),
    "add_partitions": lambda mq, place: mq.add_partitions(place.topic, 2),
    "trim": trim,
    "delete_topic": lambda mq, place: mq.delete_topic(place.topic),
}
LISTINGS = {
    "topics": lambda mq, place: place.topic in mq.topics(),
    "groups": lambda mq, place: place.group in [each.name for each in mq.groups()],
    "groups of a topic": lambda mq, place: place.group in [each.name for each in mq.groups(place.topic)],
    "describe_group": lambda mq, place: place.topic in mq.describe_group(place.group).topics,
}
"""Calls that omit what the user has no right to see."""


@pytest.fixture(scope="module")
def administrator(secured_kafka):
    """A client with all rights."""
    with mqplug.connect(secured_kafka.url) as client:
        yield client


@pytest.fixture(scope="module")
def bob(secured):
    """A client with only the rights that a test grants."""
    with mqplug.connect("kafka", servers=[secured.address("sasl")], username="bob", password="bob-pw") as client:
        yield client


@pytest.fixture
def place(administrator, secured, request):
    """A place used by one test only, on which bob has no rights yet."""
    call = request.node.callspec.params["call"]
    made = Place(new_name(), new_name(), new_name())
    if call != "create_topic":
        administrator.create_topic(made.topic)
        send(administrator, made)
        administrator.reset_group(made.group, made.topic, mqplug.EARLIEST)
    yield made
    secured.forbid("bob")


def granted(call):
    """Return the rights that a call needs, as pairs of an operation and a kind of resource."""
    return [(right, kind) for kind, rights in RIGHTS[call].items() for right in rights]


def grant(secured, call, place, rights):
    """Give these rights to bob."""
    group = f"mqplug-transaction-{place.name}" if call == "transaction with a number" else place.group
    names = {"topic": place.topic, "group": group, "transactional id": place.name}
    for right, kind in rights:
        secured.allow("bob", right, **{kind.replace("transactional id", "transaction"): names[kind]})


def test_each_call_is_on_the_page():
    """The page has a row for each call of the client, and these tests cover each row."""
    assert set(CALLS) | set(LISTINGS) == set(RIGHTS)
    assert client_calls() - UNSUPPORTED <= {call.split()[0] for call in RIGHTS} | {"producer"}


@pytest.mark.parametrize("call", CALLS)
def test_the_rights_are_enough(secured, bob, place, call):
    """A call works with the rights in its row."""
    grant(secured, call, place, granted(call))
    CALLS[call](bob, place)


@pytest.mark.parametrize(("call", "missing"), [(call, right) for call in CALLS for right in granted(call)], ids=str)
def test_each_right_is_needed(secured, bob, place, call, missing):
    """A call without one of the rights in its row is refused, and the fix names a right."""
    grant(secured, call, place, [right for right in granted(call) if right != missing])
    with pytest.raises(mqplug.AccessDenied) as refused:
        CALLS[call](bob, place)
    assert any(f"{right} " in refused.value.fix for right in (missing[0], "Describe"))


@pytest.mark.parametrize("call", LISTINGS)
def test_listings_leave_out_what_a_user_may_not_know(secured, bob, place, call):
    """A listing shows a topic or group to a user with the rights in its row, and omits it if one is missing."""
    rights = granted(call)
    for missing in rights:
        grant(secured, call, place, [right for right in rights if right != missing])
        assert not is_listed(call, bob, place)
        secured.forbid("bob")
    grant(secured, call, place, rights)
    assert is_listed(call, bob, place)


def is_listed(call, bob, place):
    """Return whether a listing shows the test's topic or group. Calls on one topic or group may refuse instead."""
    try:
        return LISTINGS[call](bob, place)
    except (mqplug.AccessDenied, mqplug.GroupNotFound):
        return False
