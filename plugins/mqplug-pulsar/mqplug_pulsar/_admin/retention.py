"""Retention of a topic as Pulsar's policies, the same for acked and unacked messages.

By default Pulsar deletes acked messages at once, and keeps unacked ones forever. It has limits for each, in time and in
size; here both are set alike. Its units are minutes and megabytes: both are rounded up.
"""

from __future__ import annotations

import math
from typing import Any

import mqplug
from mqplug.spi import CreateTopic, Deadline
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused

DEFAULT_TOPIC_RETENTION_S = 7 * 24 * 3600.0
MEGABYTE = 1024 * 1024
NO_LIMIT = -1


def set_retention(admin: AdminInterface, path: str, action: CreateTopic, deadline: Deadline) -> None:
    """Set the limits of a new topic. Only for explicit limits raise if the broker allows no topic policies."""
    seconds = DEFAULT_TOPIC_RETENTION_S if action.retention is None else action.retention
    try:
        for policy, body in _policies(seconds, action.retention_bytes):
            admin.post(f"{path}/{policy}", body, max(0.01, deadline.remaining()))
    except (AdminRefused, mqplug.AccessDenied) as error:
        if action.retention is not None or action.retention_bytes is not None:
            raise mqplug.Error(
                f"the topic was created, but its retention could not be set: {error}",
                topic=action.topic, fix="Allow topic policies in the broker, or leave the retention out",
            ) from error  # fmt: skip


def _policies(seconds: float, size: int | None) -> list[tuple[str, Any]]:
    for_ever = math.isinf(seconds)
    minutes = NO_LIMIT if for_ever else max(1, math.ceil(seconds / 60))
    megabytes = NO_LIMIT if size is None else max(1, math.ceil(size / MEGABYTE))
    policies: list[tuple[str, Any]] = [
        ("retention", {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}),
        (f"messageTTL?messageTTL={0 if for_ever else max(1, math.ceil(seconds))}", None),
    ]
    if size is not None:  # the broker wants this limit to be below the other
        quota = {"limitSize": min(size, megabytes * MEGABYTE - 1), "policy": "consumer_backlog_eviction"}
        policies.append(("backlogQuota?backlogQuotaType=destination_storage", quota))
    return policies


def retention_from_policies(admin: AdminInterface, path: str, timeout: float) -> dict[str, Any]:
    """Return the fields of a ``TopicInfo`` that the topic's policies fill; none if they cannot be read."""
    try:
        policy = admin.get(f"{path}/retention?applied=true", timeout) or {}
        minutes, megabytes = int(policy.get("retentionTimeInMinutes", 0)), int(policy.get("retentionSizeInMB", 0))
        if minutes == 0 or megabytes == 0:
            return {}  # then retention depends on acks
        return {
            "retention": _seconds(admin, path, minutes, timeout),
            "retention_bytes": _size(admin, path, megabytes, timeout),
        }
    except (AdminRefused, mqplug.Error):
        return {}


def _seconds(admin: AdminInterface, path: str, minutes: int, timeout: float) -> float:
    """Return the requested seconds, which the limit for unacked messages keeps exactly."""
    if minutes < 0:
        return math.inf
    seconds = int(admin.get(f"{path}/messageTTL?applied=true", timeout) or 0)
    return float(seconds if math.ceil(seconds / 60) == minutes else minutes * 60)


def _size(admin: AdminInterface, path: str, megabytes: int, timeout: float) -> int | None:
    if megabytes < 0:
        return None
    quotas = admin.get(f"{path}/backlogQuotaMap?applied=true", timeout) or {}
    size = int(quotas.get("destination_storage", {}).get("limitSize", 0))
    asked = megabytes * MEGABYTE
    return size if asked - MEGABYTE < size < asked - 1 else asked
