"""Names of topics: mqplug's and Pulsar's own."""

from __future__ import annotations

import re

import attrs

from mqplug import InvalidName

_PARTITION = re.compile(r"(.+)-partition-[0-9]+", re.ASCII | re.DOTALL)
_PERSISTENT = "persistent://"
_SYSTEM = re.compile(
    r"(__change_events|__transaction_buffer_snapshot(_segments|_indexes)?|__transaction_log_\d+"
    r"|transaction_coordinator_assign|.+__transaction_pending_ack)(-partition-\d+)?",
    re.ASCII | re.DOTALL,
)


@attrs.frozen
class NamespaceTopics:
    """The names of the topics in one namespace."""

    tenant: str
    namespace: str

    @property
    def prefix(self) -> str:
        """The beginning of the full name of each topic in this namespace."""
        return f"{_PERSISTENT}{self.tenant}/{self.namespace}/"

    def canonical(self, topic: str) -> str:
        """Return the unique name of a topic: plain in this namespace, full elsewhere."""
        full = self.full(topic)
        return full.removeprefix(self.prefix) if full.startswith(self.prefix) else full

    def full(self, topic: str) -> str:
        """Return Pulsar's name of a topic, ``persistent://tenant/namespace/topic``."""
        if topic.startswith("non-persistent://"):
            raise InvalidName(
                f"{topic!r} is not persistent, so it stores no messages", topic=topic, fix="Use a persistent topic"
            )
        if topic.startswith(_PERSISTENT):
            parts = topic.removeprefix(_PERSISTENT).split("/")
            if len(parts) == 3 and all(part.strip() for part in parts):
                _refuse_system_topic(parts[2])
                return topic
        elif topic.strip() and "/" not in topic and "://" not in topic:
            _refuse_system_topic(topic)
            return self.prefix + topic
        raise InvalidName(
            f"{topic!r} is not a valid topic name",
            topic=topic,
            fix="Write a plain name, or persistent://tenant/namespace/topic",
        )


def is_system_topic(name: str) -> bool:
    """Return whether a topic with this plain name belongs to the brokers themselves."""
    return _SYSTEM.fullmatch(name) is not None


def _refuse_system_topic(name: str) -> None:
    if is_system_topic(name):
        raise InvalidName(f"{name!r} is one of Pulsar's system topics", topic=name, fix="Use another topic")


def partition_topic(full: str, partition: int) -> str:
    """Return the name of the Pulsar topic that holds one partition."""
    return f"{full}-partition-{partition}"


def parent(name: str) -> str | None:
    """Return the partitioned topic of which this name may be a partition, or None."""
    match = _PARTITION.fullmatch(name)
    return match[1] if match else None
