"""Each call works with the rights that docs/rights.md lists, and is refused without them."""

from __future__ import annotations

import pytest
from rights_page import client_calls, rights_on

import mqplug

RIGHTS = rights_on("Pulsar")
UNSUPPORTED = {"stage", "ingest", "discard", "transaction", "trim", "alter_topic"}
ALL = ("produce", "consume")
GROUP = "rights-of-each-call"


def send(mq, topic):
    """Send a message."""
    with mq.producer(topic) as out:
        out.send(b"x")


def read_without_a_group(mq, topic):
    """Receive a message without a group."""
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        assert reader.receive(30) is not None


def take_part(mq, topic):
    """Receive, ack, commit and seek as a member of a group."""
    with mq.consumer(topic, group="members") as member:
        member.ack(member.receive(30))
        member.commit(30)
        member.seek(mqplug.EARLIEST)
        assert member.receive(30) is not None


CALLS = {
    "connect": lambda mq, topic: None,
    "health": lambda mq, topic: mq.health(),
    "topics": lambda mq, topic: mq.topics(),
    "groups": lambda mq, topic: mq.groups(),
    "groups of a topic": lambda mq, topic: mq.groups(topic),
    "describe_group": lambda mq, topic: mq.describe_group(GROUP),
    "describe": lambda mq, topic: mq.describe(topic),
    "partitions": lambda mq, topic: mq.partitions(topic),
    "watermarks": lambda mq, topic: mq.watermarks(topic),
    "send": send,
    "read": lambda mq, topic: next(iter(mq.read(topic))),
    "consumer without a group": read_without_a_group,
    "consumer with a group": take_part,
    "bounds": lambda mq, topic: mq.bounds(topic),
    "resolve": lambda mq, topic: mq.resolve(topic, mqplug.at_time(0)),
    "positions": lambda mq, topic: mq.positions(topic, group=GROUP),
    "lag": lambda mq, topic: mq.lag(topic, group=GROUP),
    "reset_group": lambda mq, topic: mq.reset_group(GROUP, topic, mqplug.EARLIEST),
    "delete_group": lambda mq, topic: mq.delete_group(f"{GROUP}-{topic}"),
    "create_topic": lambda mq, topic: mq.create_topic(f"{topic}-made"),
    "alter_topic": lambda mq, topic: mq.alter_topic(topic, retention=3600),
    "add_partitions": lambda mq, topic: mq.add_partitions(topic, 2),
    "delete_topic": lambda mq, topic: mq.delete_topic(topic),
}


def enough(call):
    """Return the rights of which each is enough for a call, as pairs of an action and its object."""
    return [(right, kind) for kind, rights in RIGHTS[call].items() for right in rights if right != "or"]


def too_little(call):
    """Return rights that are not enough for a call: other actions, and its own action on only the topic."""
    named = {right for right, _ in enough(call)}
    others = [(right, "namespace") for right in ALL if named and right not in named]
    smaller = [(right, "topic") for right, kind in enough(call) if kind == "namespace"]
    return others + smaller or [None] * bool(named)


@pytest.fixture(scope="module")
def administrator(secured):
    """A superuser's client."""
    with connected(secured, "admin") as client:
        yield client


def connected(secured, role):
    """Connect as a role."""
    addresses = {"service_url": secured.address("plain"), "admin_url": secured.address("admin")}
    return mqplug.connect("pulsar", **addresses, token=secured.token(role))


@pytest.fixture
def place(secured, administrator, name):
    """A topic with a message and a group, and a role of the same name without rights."""
    administrator.create_topic(name)
    send(administrator, name)
    for group in (GROUP, f"{GROUP}-{name}"):
        administrator.consumer(name, group=group).close()
    yield name
    secured.forbid(name)
    for topic in {name, f"{name}-made"} & set(administrator.topics()):
        administrator.delete_topic(topic)


def grant(secured, role, right):
    """Grant a right to a role on the topic of the same name, or on that topic's namespace or tenant."""
    if right is not None:
        action, kind = right
        secured.allow(role, action, **{kind: {"topic": role, "namespace": "public/default", "tenant": "public"}[kind]})


def test_each_call_is_on_the_page():
    """The page has a row for each call of the client, and these tests try each row."""
    assert set(CALLS) == set(RIGHTS)
    assert client_calls() - UNSUPPORTED - {"describe_cluster"} <= {call.split()[0] for call in RIGHTS} | {"producer"}


def test_brokers_are_for_superusers(administrator, secured, place):
    """Only a superuser can describe the brokers; other roles are refused with that right's name."""
    assert administrator.describe_cluster().brokers
    with connected(secured, place) as client, pytest.raises(mqplug.AccessDenied, match="superuser"):
        client.describe_cluster()


@pytest.mark.night  # by day test_rights.py makes the same calls, with fewer roles
@pytest.mark.parametrize(
    ("call", "right"), [(call, right) for call in CALLS for right in enough(call) or [None]], ids=str
)
def test_the_rights_are_enough(secured, place, call, right):
    """A call works with any of the rights in its row."""
    grant(secured, place, right)
    with connected(secured, place) as client:
        CALLS[call](client, place)


@pytest.mark.parametrize(("call", "right"), [(call, right) for call in CALLS for right in too_little(call)], ids=str)
def test_other_rights_are_not_enough(secured, place, call, right):
    """A call is refused for a role that has another right than those in its row."""
    grant(secured, place, right)
    with connected(secured, place) as client, pytest.raises(mqplug.AccessDenied, match="it needs"):
        CALLS[call](client, place)
