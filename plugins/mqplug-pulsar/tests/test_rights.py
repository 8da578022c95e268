"""Roles with few rights: permitted calls work, and every other call names the right that it needs."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest
from driver_faults import acks_written

import mqplug
from mqplug import EARLIEST

PRODUCE = "produce on the topic or its namespace"
CONSUME = "consume on the topic or its namespace"
EITHER = "produce (to send) or consume (to receive) on the topic or its namespace"
LISTING = "produce or consume on the namespace"
TENANT_ADMIN = "to be an administrator of the tenant (one of its adminRoles), or a superuser"

TOPIC, GROUP = "rights", "rights-group"
DOOMED_TOPIC, DOOMED_GROUP = "rights-doomed", "rights-doomed-group"
ROLES = ["nobody", "producer", "consumer", "tenant-admin"]
AT_NIGHT = [pytest.param(role, marks=pytest.mark.night) for role in ("nobody", "tenant-admin")]


def connect(secured, role, **settings):
    """Connect as a role."""
    addresses = {"service_url": secured.address("plain"), "admin_url": secured.address("admin")}
    return mqplug.connect("pulsar", **{**addresses, "token": secured.token(role), **settings})


@pytest.fixture(scope="module")
def admin(secured):
    """A superuser's client; a topic with messages exists, and each role has its rights."""
    secured.allow("producer", "produce", namespace="public/default")
    secured.allow("consumer", "consume", namespace="public/default")
    secured.allow("tenant-admin", "admin", tenant="public")
    with connect(secured, "admin") as client:
        client.create_topic(TOPIC, partitions=2)
        with client.producer(TOPIC) as out:
            out.send_many([mqplug.Record(b"%d" % number, partition=number % 2) for number in range(4)])
        client.consumer(TOPIC, group=GROUP).close()
        yield client
        client.delete_topic(TOPIC)  # a worker may come back to these tests


@pytest.fixture(scope="module")
def clients(secured, admin):
    """Clients by role, with the admin interface."""
    with ExitStack() as stack:
        yield {role: stack.enter_context(connect(secured, role)) for role in ROLES}


@pytest.fixture(scope="module")
def clients_without_admin(secured, admin):
    """Clients by role, without the admin interface."""
    with ExitStack() as stack:
        yield {role: stack.enter_context(connect(secured, role, admin_url=None)) for role in ROLES}


def send(client):
    """Send a message."""
    with client.producer(TOPIC) as out:
        out.send(b"x", partition=0)


def read(client):
    """Read a message without a group."""
    with client.consumer(TOPIC, start=EARLIEST) as reader:
        assert reader.receive(30).value in {b"0", b"1"}


def take_part(client):
    """Receive, ack, commit and seek as a member of a group."""
    with client.consumer(TOPIC, group="rights-members") as member:
        member.ack(member.receive(30))
        member.commit(30)
        member.seek(EARLIEST)
        assert member.receive(30) is not None


def watermarks(client):
    """Read the watermarks."""
    assert all(each.low < each.high for each in client.watermarks(TOPIC).values())


def bounds(client):
    """Read the ids of the first and the last message."""
    assert all(each.first_id < each.last_id for each in client.bounds(TOPIC).values())


def resolve(client):
    """Resolve a time to positions."""
    assert set(client.resolve(TOPIC, mqplug.at_time(0))) == {0, 1}


def topics(client):
    """List the topics."""
    assert TOPIC in client.topics()


def matching(client):
    """Read topics by a pattern."""
    with client.consumer(mqplug.matching("right[s]"), start=EARLIEST) as reader:
        assert reader.receive(30) is not None


def groups(client):
    """List the groups."""
    assert GROUP in [each.name for each in client.groups(TOPIC)]


def create(client):
    """Create a topic with a retention."""
    client.create_topic("rights-made", retention=3600, exist_ok=True)


def grow(client):
    """Add a partition."""
    client.add_partitions(DOOMED_TOPIC, len(client.partitions(DOOMED_TOPIC)) + 1)


ANYONE, SENDERS, RECEIVERS = {"producer", "consumer"}, {"producer"}, {"consumer"}
CALLS = {
    "describe": (lambda client: client.describe(TOPIC), EITHER, ANYONE),
    "topics": (topics, LISTING, ANYONE),
    "matching": (matching, CONSUME, RECEIVERS),
    "watermarks": (watermarks, EITHER, ANYONE),
    "groups": (groups, EITHER, ANYONE),
    "describe_group": (lambda client: client.describe_group(GROUP), LISTING, ANYONE),
    "send": (send, PRODUCE, SENDERS),
    "read": (read, CONSUME, RECEIVERS),
    "take part": (take_part, CONSUME, RECEIVERS),
    "resolve": (resolve, CONSUME, RECEIVERS),
    "bounds": (bounds, CONSUME, RECEIVERS),
    "lag": (lambda client: client.lag(TOPIC, group=GROUP), CONSUME, RECEIVERS),
    "positions": (lambda client: client.positions(TOPIC, group=GROUP), CONSUME, RECEIVERS),
    "reset_group": (lambda client: client.reset_group(GROUP, TOPIC, EARLIEST), CONSUME, RECEIVERS),
    "delete_group": (lambda client: client.delete_group(DOOMED_GROUP), CONSUME, RECEIVERS),
    "create_topic": (create, TENANT_ADMIN, set()),
    "alter_topic": (lambda client: client.alter_topic(TOPIC, retention=3600), TENANT_ADMIN, set()),
    "add_partitions": (grow, TENANT_ADMIN, set()),
    "delete_topic": (lambda client: client.delete_topic(DOOMED_TOPIC), TENANT_ADMIN, set()),
}
"""Each call, the right that it needs, and the roles that have the right besides the tenant's administrator."""


def check(client, role, name):
    """Check that a call works if the role has the right, and otherwise is refused with the name of the right."""
    call, right, allowed = CALLS[name]
    if role in {*allowed, "tenant-admin"}:
        call(client)
        return
    # A role without any right is refused at the first request: for the topic's partitions, or for the list of topics.
    named = {right, EITHER, LISTING} if role == "nobody" else {right}
    rights = "|".join(re.escape(each) for each in named)
    with pytest.raises(mqplug.AccessDenied, match=rf"it needs ({rights})"):
        call(client)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("role", ["producer", "consumer", *AT_NIGHT])
def test_each_role_may_what_its_rights_say(clients, admin, role, name):
    """With ``admin_url`` a role's permitted calls work; all others raise ``AccessDenied`` with the missing right."""
    if name == "delete_group":
        admin.consumer(TOPIC, group=DOOMED_GROUP).close()
    if name in {"add_partitions", "delete_topic"}:
        admin.create_topic(DOOMED_TOPIC)
    try:
        check(clients[role], role, name)
    finally:
        if DOOMED_TOPIC in admin.topics():
            admin.delete_topic(DOOMED_TOPIC)


@pytest.mark.parametrize("name", ["describe", "watermarks", "send", "read", "resolve", "bounds"])
@pytest.mark.parametrize("role", ["consumer", *AT_NIGHT])
def test_rights_are_named_without_the_admin_interface(clients_without_admin, role, name):
    """Without the admin interface, too, a refused call raises ``AccessDenied`` with the missing right."""
    check(clients_without_admin[role], role, name)


def test_without_the_admin_interface_watermarks_need_the_right_to_consume(clients_without_admin):
    """Without the admin interface watermarks need the right to consume, for a temporary subscription."""
    with pytest.raises(mqplug.AccessDenied, match=re.escape(CONSUME)):
        clients_without_admin["producer"].watermarks(TOPIC)


def test_a_right_on_one_topic_is_enough(secured, admin, name):
    """A role with rights on a single topic can use that topic, and is refused on other topics of the namespace."""
    admin.create_topic(name)
    secured.allow("single", "produce", "consume", topic=name)
    with connect(secured, "single") as client:
        with client.producer(name) as out:
            sent = out.send(b"x")
        with client.consumer(name, group="g") as member:
            received = member.receive(30)
            assert received.id == sent
            member.ack(received)
        assert client.lag(name, group="g") == {0: 0}
        with pytest.raises(mqplug.AccessDenied, match=EITHER.split()[0]):
            client.watermarks(TOPIC)


def test_commits_of_a_role_that_may_only_consume_are_written(clients, admin, name):
    """For a role that may only consume, the broker has persisted each of several quick commits when it returns."""
    admin.create_topic(name)
    with admin.producer(name) as out:
        for _ in range(4):
            out.send(b"x")
    written = []
    with clients["consumer"].consumer(name, group="g") as member:
        for message in [member.receive(30) for _ in range(4)]:
            member.ack(message)
            member.commit(30)
            stats = admin._connection.admin.stats(f"persistent://public/default/{name}-partition-0", 30)
            written.append(acks_written(stats, "g"))
    assert len(set(written)) == 4
    assert written == sorted(written)


def test_a_right_that_is_taken_away_is_told(secured, admin, name):
    """A reader or a member whose role loses its rights raises ``AccessDenied`` from ``receive``."""
    admin.create_topic(name)
    secured.allow("former", "produce", "consume", topic=name)
    with (
        connect(secured, "former") as client,
        client.consumer(name, start=EARLIEST) as reader,
        client.consumer(name, group="g") as member,
    ):
        with client.producer(name) as out:
            out.send(b"x")
        assert reader.receive(30) is not None
        assert member.receive(30) is not None
        secured.forbid("former")
        for each in (reader, member):
            with pytest.raises(mqplug.AccessDenied, match=r"it needs .*consume"):
                each.receive(60)


def test_a_role_is_not_told_what_it_may_not_know(secured, admin):
    """A role without rights cannot detect whether a namespace exists; an administrator gets a ``ConfigError``."""
    for namespace in ("default", "missing"):
        with connect(secured, "nobody", namespace=namespace, admin_url=None) as client:
            client.health()
    with pytest.raises(mqplug.ConfigError, match="the namespace public/missing does not exist"):
        connect(secured, "tenant-admin", namespace="missing", admin_url=None)
