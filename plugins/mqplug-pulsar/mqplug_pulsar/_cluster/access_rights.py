"""The rights that operations need, as Pulsar's authorization names them. Imports no client library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from mqplug import AccessDenied
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeCluster,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    ListGroups,
    ListTopics,
)

PRODUCE: Final = "produce on the topic or its namespace"
CONSUME: Final = "consume on the topic or its namespace"
EITHER: Final = "produce (to send) or consume (to receive) on the topic or its namespace"
LISTING: Final = "produce or consume on the namespace"
TENANT_ADMIN: Final = "to be an administrator of the tenant (one of its adminRoles), or a superuser"

RIGHT_OF: Final[dict[type[Action], str]] = {
    CreateTopic: TENANT_ADMIN,
    AlterTopic: TENANT_ADMIN,
    AddPartitions: TENANT_ADMIN,
    DeleteTopic: TENANT_ADMIN,
    DescribeCluster: "to be a superuser",
    ListTopics: LISTING,
    DescribeTopic: EITHER,
    DescribeTopics: EITHER,
    DescribeGroupMembers: LISTING,
    ListGroups: EITHER,
    DescribeGroup: CONSUME,
    DeleteGroup: CONSUME,
}


E = TypeVar("E", bound=BaseException)


def named(error: E, right: str | None) -> E:
    """Make a refusal, if this is one, name the right that is needed. Return the error itself."""
    if isinstance(error, AccessDenied) and right is not None:
        error.fix = f"Have it granted to this role: it needs {right}"
    return error


@contextmanager
def naming_right(right: str | None) -> Iterator[None]:
    """Make a refusal within name the right that is needed."""
    try:
        yield
    except AccessDenied as error:
        named(error, right)
        raise
