"""The groups of the cluster: which there are, how many members they have, and forgetting one."""

from __future__ import annotations

import time

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListConsumerGroupsResult  # pyright: ignore[reportPrivateImportUsage]

from mqplug.spi import GroupInfo
from mqplug_kafka._connection import KafkaConnection
from mqplug_kafka._errors import translate


def groups(connection: KafkaConnection, topic: str | None, timeout: float) -> list[GroupInfo]:
    """The groups that have a position on a topic, or all that the cluster knows."""
    end = time.monotonic() + timeout
    names = _names(connection, end)
    if topic is not None:
        names = _on(connection, topic, names, end)
    if not names:
        return []
    asked = connection.admin.describe_consumer_groups(names, request_timeout=_left(end))
    found = [connection.patient.wait(f"group {name!r}", asked[name], _left(end)) for name in names]
    return [GroupInfo(each.group_id, len(each.members)) for each in found]


def delete(connection: KafkaConnection, group: str, timeout: float) -> None:
    """Forget a group; brokers refuse that while it has members."""
    connection.patient.ask(
        f"group {group!r}",
        lambda left: connection.admin.delete_consumer_groups([group], request_timeout=left)[group],
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


def _on(connection: KafkaConnection, topic: str, names: list[str], end: float) -> list[str]:
    """Those groups that have a position on a topic: each group is asked, all at once."""
    logs = connection.describe([topic], _left(end))[topic].logs
    wanted = [TopicPartition(log.topic, log.partition) for log in logs]
    asked = {
        name: connection.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, wanted)], request_timeout=_left(end)
        )[name]
        for name in names
    }
    found = {name: connection.patient.wait(f"group {name!r}", asked[name], _left(end)) for name in names}
    return [name for name in names if any(each.offset >= 0 for each in found[name].topic_partitions or ())]


def _left(end: float) -> float:
    return max(0.01, end - time.monotonic())
