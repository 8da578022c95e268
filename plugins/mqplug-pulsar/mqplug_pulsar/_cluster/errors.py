"""The client library's errors as mqplug errors with fixes, and the rights that a refused operation needs.

The rights have the names of Pulsar's authorization. Imports no client library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import mqplug
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

Made = Callable[..., mqplug.Error]

_MEANINGS: dict[str, tuple[Made, str, str | None]] = {
    "Timeout": (mqplug.Timeout, "the broker did not answer in time", "Allow more time"),
    "TopicNotFound": (
        mqplug.TopicNotFound,
        "the topic does not exist",
        "Create it with create_topic, or open with create=True",
    ),
    "ConsumerBusy": (
        mqplug.ConsumerBusy,
        "the group is in use in another mode, or by an exclusive consumer",
        "Close the other consumers, or use another group",
    ),
    "ProducerBusy": (mqplug.Fenced, "another producer holds the topic", None),
    "ProducerFenced": (mqplug.Fenced, "another producer took over the topic", None),
    "AuthenticationError": (mqplug.AuthError, "the credentials were refused", "Check token= or the certificate files"),
    "AuthorizationError": (
        mqplug.AccessDenied,
        "the credentials do not allow this",
        "Have it granted to this role: it needs produce to send, and consume to receive",
    ),
    "AlreadyClosed": (mqplug.Closed, "the client was closed", None),
    "InvalidTopicName": (mqplug.InvalidName, "Pulsar does not accept this topic name", None),
    "MessageTooBig": (mqplug.MessageTooLarge, "the message is larger than the broker's limit", "Send less"),
    "ProducerQueueIsFull": (mqplug.QueueFull, "pulsar-client's queue is full", "Wait with flush(), or slow down"),
    "MemoryBufferIsFull": (mqplug.QueueFull, "pulsar-client's memory is full", "Wait with flush(), or slow down"),
    "ProducerBlockedQuotaExceededError": (mqplug.StorageFull, "the backlog quota of the topic is used up", None),
    "ProducerBlockedQuotaExceededException": (mqplug.StorageFull, "the backlog quota of the topic is used up", None),
    "ConnectError": (mqplug.ConnectError, "the broker could not be reached", None),
    "NotConnected": (mqplug.ConnectError, "the connection to the broker is lost; the client tries again", None),
    "ServiceUnitNotReady": (mqplug.ConnectError, "the broker does not serve the topic yet", "Try again"),
    "LookupError": (mqplug.ConnectError, "the broker that serves the topic was not found", "Try again"),
}

NOT_STORED_RESULTS = {
    "MessageTooBig", "InvalidMessage", "ProducerQueueIsFull", "MemoryBufferIsFull", "AuthorizationError",
    "TopicTerminated", "ProducerBlockedQuotaExceededError", "ProducerBlockedQuotaExceededException",
    "IncompatibleSchema", "CryptoError", "ProducerFenced",
}  # fmt: skip
"""Results of a send that prove that the message was not stored. After any other result it may be stored."""


def error_from_exception(native: BaseException, topic: str | None = None) -> mqplug.Error:
    """Return the mqplug error for an exception of the client library, which becomes its cause."""
    error = error_from_name(type(native).__name__, topic)
    error.__cause__ = native
    return error


def error_from_name(name: str, topic: str | None = None) -> mqplug.Error:
    """Return the mqplug error for an exception or result of this name."""
    kind, message, fix = _MEANINGS.get(name, (mqplug.Error, f"the broker or pulsar-client reported {name}", None))
    return kind(message, topic=topic, fix=fix)


def error_from_result(result: Any) -> tuple[bool, mqplug.Error]:
    """Return whether the result of a failed send proves that nothing was stored, and the error."""
    if result.name in NOT_STORED_RESULTS:
        return True, error_from_name(result.name)
    error = mqplug.OutcomeUnknown(
        f"{error_from_name(result.name).message}: the message may or may not be stored",
        fix="Look for it in the topic, or send it again and expect it twice",
    )
    return False, error


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
    """Make an ``AccessDenied`` name the right that is needed. Return the given error, whatever it is."""
    if isinstance(error, AccessDenied) and right is not None:
        error.fix = f"Have it granted to this role: it needs {right}"
    return error


@contextmanager
def naming_right(right: str | None) -> Iterator[None]:
    """Make an ``AccessDenied`` that is raised inside name the right that is needed."""
    try:
        yield
    except AccessDenied as error:
        named(error, right)
        raise
