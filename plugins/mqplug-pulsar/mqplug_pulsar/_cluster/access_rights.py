"""The rights that operations need, as Pulsar's authorization names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mqplug import AccessDenied
from mqplug.spi import (
    Action,
    AddPartitions,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    ListGroups,
    ListTopics,
)

PRODUCE: Final = "produce on the topic or its namespace"
CONSUME: Final = "consume on the topic or its namespace"
EITHER: Final = "produce or consume on the topic or its namespace"
TENANT_ADMIN: Final = "administrator of the tenant (one of its adminRoles), or superuser"

RIGHT_OF: Final[dict[type[Action], str]] = {
    CreateTopic: TENANT_ADMIN,
    AddPartitions: TENANT_ADMIN,
    DeleteTopic: TENANT_ADMIN,
    ListTopics: "produce or consume on the namespace",
    DescribeTopic: EITHER,
    ListGroups: EITHER,
    DescribeGroup: CONSUME,
    DeleteGroup: CONSUME,
}


def needed(right: str) -> str:
    """Return the fix for a missing right."""
    return f"Have it granted to this role: it needs {right}"


@contextmanager
def naming_right(right: str | None) -> Iterator[None]:
    """Make a refusal within name the right that is needed."""
    try:
        yield
    except AccessDenied as error:
        if right is not None:
            error.fix = needed(right)
        raise
