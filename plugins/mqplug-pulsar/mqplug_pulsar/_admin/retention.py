"""Retention of a topic as Pulsar's policies, the same for acked and unacked messages.

By default Pulsar deletes acked messages at once, and keeps unacked ones forever. It has limits of time and size for
each kind; this module sets both alike. Pulsar's units are minutes and megabytes: values are rounded up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs

import mqplug
from mqplug.spi import AlterTopic, CreateTopic, Deadline
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused

DEFAULT_TOPIC_RETENTION_S = 7 * 24 * 3600.0
MEGABYTE = 1024 * 1024
NO_LIMIT = -1
POLICY_REPEAT_S = 2.0  # until a policy that the broker does not show is set again
POLICY_CHECK_PAUSE_S = 0.02


@attrs.frozen
class Policy:
    """A policy of a topic: how to set it, and how to see in an answer that it is set."""

    setting: str
    body: Any
    query: str
    is_shown: Callable[[Any], bool]


def set_retention(admin: AdminInterface, path: str, action: CreateTopic, deadline: Deadline) -> None:
    """Set the limits of a new topic. If the broker allows no topic policies, raise only for explicit limits."""
    seconds = DEFAULT_TOPIC_RETENTION_S if action.retention is None else action.retention
    size = action.retention_bytes
    policies = [_kept(seconds, size), _time_to_live(seconds), *([] if size is None else [_backlog(size)])]
    try:
        for policy in policies:
            admin.post(f"{path}/{policy.setting}", policy.body, max(0.01, deadline.remaining()))
    except (AdminRefused, mqplug.AccessDenied) as error:
        if action.retention is not None or action.retention_bytes is not None:
            raise mqplug.Error(
                f"the topic was created, but its retention could not be set: {error}",
                topic=action.topic, fix="Allow topic policies in the broker, or leave the retention out",
            ) from error  # fmt: skip


def change_retention(admin: AdminInterface, path: str, action: AlterTopic, deadline: Deadline) -> None:
    """Change limits of a topic, and wait until the broker applies them.

    A limit that is not given stays. If the topic has none yet, because acks decide, it gets the default of new topics.
    """
    present = _present_limits(admin, path, max(0.01, deadline.remaining()))
    had_size = present.get("retention_bytes")
    seconds = present.get("retention", DEFAULT_TOPIC_RETENTION_S) if action.retention is None else action.retention
    size = had_size if action.retention_bytes is None else action.retention_bytes
    policies = [_kept(seconds, size)]
    if action.retention is not None or not present:
        policies.append(_time_to_live(seconds))
    if action.retention_bytes is not None:
        grows = had_size is not None and action.retention_bytes > had_size
        policies.insert(1 if grows else 0, _backlog(action.retention_bytes))  # it must never exceed the retained size
    _put_in_force(admin, path, policies, deadline)


def _put_in_force(admin: AdminInterface, path: str, policies: Sequence[Policy], deadline: Deadline) -> None:
    """Set policies one by one until the broker shows them all. Repeat this if another client's change undoes one.

    The broker rewrites all policies of a topic with each change, and sees its own changes a little later.
    """

    def shows(policy: Policy) -> bool:
        return policy.is_shown(admin.get(f"{path}/{policy.query}?applied=true", max(0.01, deadline.remaining())))

    while not deadline.expired:
        for policy in policies:
            admin.post(f"{path}/{policy.setting}", policy.body, max(0.01, deadline.remaining()))
            again = Deadline(deadline.remaining(POLICY_REPEAT_S))
            while not shows(policy) and not again.expired:
                time.sleep(POLICY_CHECK_PAUSE_S)
        if all(map(shows, policies)):
            return
    raise mqplug.Timeout("the broker does not apply the new retention yet", fix="Allow more time, or try again")


def _kept(seconds: float, size: int | None) -> Policy:
    """Return the limits for acked messages."""
    minutes = NO_LIMIT if math.isinf(seconds) else max(1, math.ceil(seconds / 60))
    body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": NO_LIMIT if size is None else _megabytes(size)}
    return Policy("retention", body, "retention", lambda shown: shown == body)


def _time_to_live(seconds: float) -> Policy:
    """Return the age limit for unacked messages."""
    whole = 0 if math.isinf(seconds) else max(1, math.ceil(seconds))
    return Policy(f"messageTTL?messageTTL={whole}", None, "messageTTL", lambda shown: int(shown or 0) == whole)


def _backlog(size: int) -> Policy:
    """Return the size limit for unacked messages. The broker requires it to be below the limit for acked ones."""
    quota = {"limitSize": min(size, _megabytes(size) * MEGABYTE - 1), "policy": "consumer_backlog_eviction"}
    return Policy(
        "backlogQuota?backlogQuotaType=destination_storage", quota, "backlogQuotaMap",
        lambda shown: (shown or {}).get("destination_storage", {}).get("limitSize") == quota["limitSize"],
    )  # fmt: skip


def _megabytes(size: int) -> int:
    return max(1, math.ceil(size / MEGABYTE))


def retention_from_policies(admin: AdminInterface, path: str, timeout: float) -> dict[str, Any]:
    """Return the ``TopicInfo`` fields that the topic's policies define; none if they cannot be read."""
    try:
        return _present_limits(admin, path, timeout)
    except (AdminRefused, mqplug.Error):
        return {}


def _present_limits(admin: AdminInterface, path: str, timeout: float) -> dict[str, Any]:
    policy = admin.get(f"{path}/retention?applied=true", timeout) or {}
    minutes, megabytes = int(policy.get("retentionTimeInMinutes", 0)), int(policy.get("retentionSizeInMB", 0))
    if minutes == 0 or megabytes == 0:
        return {}  # then retention depends on acks
    return {
        "retention": _seconds(admin, path, minutes, timeout),
        "retention_bytes": _size(admin, path, megabytes, timeout),
    }


def _seconds(admin: AdminInterface, path: str, minutes: int, timeout: float) -> float:
    """Return the requested seconds. The limit for unacked messages stores them exactly."""
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
