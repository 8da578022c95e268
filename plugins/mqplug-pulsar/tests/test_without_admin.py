"""A client without the admin interface: calls that need it say how to set it."""

from __future__ import annotations

import pytest

import mqplug

CALLS = {
    "topics": lambda client: client.topics(),
    "create_topic": lambda client: client.create_topic("orders"),
    "create_topic with retention": lambda client: client.create_topic("orders", retention=3600),
    "alter_topic": lambda client: client.alter_topic("orders", retention=3600),
    "delete_topic": lambda client: client.delete_topic("orders"),
    "add_partitions": lambda client: client.add_partitions("orders", 2),
    "groups": lambda client: client.groups(),
    "describe_group": lambda client: client.describe_group("billing"),
    "delete_group": lambda client: client.delete_group("billing"),
    "matching": lambda client: client.consumer(mqplug.matching("o.*"), start=mqplug.EARLIEST),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_needs_it_says_how_to_get_it(plain, name):
    """A call that needs the admin interface raises ``Unsupported`` with an example of ``admin_url=``."""
    with pytest.raises(mqplug.Unsupported, match=r"admin_url='http://host:8080'"):
        CALLS[name](plain)


def test_what_it_would_do_is_declared_absent(plain, mq):
    """Operations that need ``admin_url=`` are reported as absent without it."""
    for name in ("list_topics", "alter_topic", "delete_topic", "add_partitions", "retention", "topic_patterns"):
        assert (mq.support(name), plain.support(name)) == ("native", "absent")
