"""The groups of the cluster: which there are, how many members they have, and forgetting one."""

from __future__ import annotations

import time
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    ConsumerGroupDescription,  # pyright: ignore[reportPrivateImportUsage]
    ListConsumerGroupsResult,  # pyright: ignore[reportPrivateImportUsage]
)

from mqplug.spi import GroupInfo
from mqplug_kafka._connection import KafkaConnection
from mqplug_kafka._errors import translate

AT_ONCE = 16  # groups that are asked at a time: each takes a connection


def groups(connection: KafkaConnection, topic: str | None, timeout: float) -> list[GroupInfo]:
    """The groups that have a position on a topic, or all that the cluster knows."""
    end = time.monotonic() + timeout
    names = _names(connection, end)
    if topic is not None:
        names = _on(connection, topic, names, end)
    if not names:
        return []
    return [GroupInfo(each.group_id, len(each.members)) for each in _described(connection, names, end)]


def delete(connection: KafkaConnection, group: str, timeout: float) -> None:
    """Forget a group; brokers refuse that while it has members."""
    connection.coordinators.ask(
        f"group {group!r}",
        lambda left: connection.coordinators.admin.delete_consumer_groups([group], request_timeout=left)[group],
        timeout,
    )


def _names(connection: KafkaConnection, end: float) -> list[str]:
    answer = connection.patient.ask(
        "list groups", lambda left: connection.admin.list_consumer_groups(request_timeout=left), _left(end), _complete
    )
    return sorted(each.group_id for each in answer.valid or ())


def _complete(answer: ListConsumerGroupsResult) -> None:
    """Each broker knows some of the groups: without all of them the list would have holes."""
    for error in answer.errors or ():
        raise translate(error, "list groups") if isinstance(error, KafkaException | KafkaError) else error


def _described(connection: KafkaConnection, names: list[str], end: float) -> list[ConsumerGroupDescription]:
    """Describe the groups, all at once; those whose coordinator is moving are asked for again."""

    def begin(some: list[str], left: float) -> dict[str, Future[ConsumerGroupDescription]]:
        return connection.coordinators.admin.describe_consumer_groups(some, request_timeout=left)

    asked = begin(names, _left(end))

    def answer(name: str) -> ConsumerGroupDescription:
        first = iter([asked[name]])
        return connection.coordinators.ask(
            f"group {name!r}", lambda left: next(first, None) or begin([name], left)[name], _left(end)
        )

    return [answer(name) for name in names]


def _on(connection: KafkaConnection, topic: str, names: list[str], end: float) -> list[str]:
    """Return those groups that have a position on a topic: each group is asked, some of them at a time."""
    logs = connection.describe([topic], _left(end))[topic].logs
    wanted = [TopicPartition(log.topic, log.partition) for log in logs]
    found: list[str] = []
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        asked = [connection.group_offsets.ask(name, wanted, _left(end)) for name in some]
        for name, answer in zip(some, asked, strict=True):
            stored = connection.patient.wait(f"group {name!r}", answer, _left(end))
            found += [name] * any(each.offset >= 0 for each in stored)
    return found


def _left(end: float) -> float:
    return max(0.01, end - time.monotonic())
