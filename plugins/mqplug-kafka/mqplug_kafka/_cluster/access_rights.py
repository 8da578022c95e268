"""The rights that operations need in the brokers' access control lists. Imports no client library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mqplug import AccessDenied
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    ListGroups,
    Trim,
)

_NEEDED: dict[type[Action], str] = {
    CreateTopic: "Create on the topic, or on the cluster, and Describe on the topic",
    AlterTopic: "Describe and AlterConfigs on the topic",
    AddPartitions: "Describe and Alter on the topic",
    DeleteTopic: "Describe and Delete on the topic",
    DescribeTopic: "Describe on the topic",
    DescribeTopics: "Describe on the topic",
    DescribeGroup: "Describe on the topic, and Describe or Read on the group",
    DescribeGroupMembers: "Describe on its topics, and Describe or Read on the group",
    ListGroups: "Describe or Read on the group",
    DeleteGroup: "Delete on the group",
    Trim: "Describe and Delete on the topic",
}


def needed(rights: str) -> str:
    """Return the fix for a missing right."""
    return f"Have it allowed in the brokers' access control lists: it needs {rights}"


@contextmanager
def naming_rights(action: Action) -> Iterator[None]:
    """Make a refusal of this action name the rights that it needs."""
    try:
        yield
    except AccessDenied as error:
        if type(action) in _NEEDED:
            error.fix = needed(_NEEDED[type(action)])
        raise
