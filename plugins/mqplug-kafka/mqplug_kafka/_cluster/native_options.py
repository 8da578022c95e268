"""The native client's options for each kind of client, from the settings. Imports no client library."""

from __future__ import annotations

from typing import Any

from mqplug_kafka._settings import KafkaSettings

MESSAGE_OVERHEAD_BYTES = (
    48_576  # what keys, headers and framing may add to a value: broker and client count them, callers do not
)


def common(settings: KafkaSettings) -> dict[str, Any]:
    """Native options of every client."""
    return {
        "client.id": "mqplug",
        "reconnect.backoff.max.ms": 2000,
        "topic.metadata.propagation.max.ms": 5000,
        **_security(settings),
        **settings.native,
        "bootstrap.servers": ",".join(settings.servers),
        "allow.auto.create.topics": False,
    }


def coordinating(settings: KafkaSettings) -> dict[str, Any]:
    """Native options of the admin client that asks the coordinators of groups."""
    # Else librdkafka 2.16, once all brokers were away, waits for ever for the group coordinator that it had known. For
    # the other questions it must not be said: while no broker answers them, it would cost a whole processor.
    return {"metadata.recovery.strategy": "none", **common(settings)}


def producing(settings: KafkaSettings) -> dict[str, Any]:
    """Native options of the producer. Its queue has no limits: the core's producers have theirs."""
    largest = settings.message_max_bytes + MESSAGE_OVERHEAD_BYTES
    return {
        # A batch larger than what the broker takes fails as a whole: the client does not split it.
        "batch.size": min(1_000_000, largest),
        "linger.ms": 0,  # records are collected before the native client gets them
        **common(settings),
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": largest,
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": 2_147_483_647,
        "queue.buffering.max.messages": 0,
    }


def consuming(settings: KafkaSettings, group: str, prefetch_bytes: int) -> dict[str, Any]:
    """Native options of a consumer."""
    return {
        # A fetch under way keeps a seek waiting for as long as this: half a second by default.
        "fetch.wait.max.ms": 100,
        # The fetcher of a full queue sleeps for so long, a second by default: Python empties the queue much sooner.
        "fetch.queue.backoff.ms": 10,
        # A topic that a broker has not heard of yet, and partitions that were added, are found within so long.
        "topic.metadata.refresh.interval.ms": 10_000,
        **common(settings),
        "group.id": group,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": min(2_097_151, max(1, prefetch_bytes // 1024)),
    }


def membership(settings: KafkaSettings) -> dict[str, Any]:
    """Native options of a group's member."""
    session = round(settings.session_timeout * 1000)
    return {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session,
        "heartbeat.interval.ms": min(1000, max(1, session // 3)),  # how soon members hear of a rebalance
    }


def inquiring(settings: KafkaSettings) -> dict[str, Any]:
    """Native options of a consumer that only asks where its group stands."""
    quiet = {"log_level": 0, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    return {**common(settings), **membership(settings), **quiet}


def _security(settings: KafkaSettings) -> dict[str, Any]:
    sasl = settings.username is not None or settings.mechanism == "OAUTHBEARER"
    protocol = f"{'sasl_' if sasl else ''}{'ssl' if settings.tls else 'plaintext'}"
    options = {
        "sasl.username": settings.username,
        "sasl.password": settings.password,
        "sasl.mechanism": settings.mechanism if sasl else None,
        "ssl.ca.location": settings.ca_file,
        "ssl.certificate.location": settings.cert_file,
        "ssl.key.location": settings.key_file,
        "ssl.key.password": settings.key_password,
    }
    return {"security.protocol": protocol, **{name: value for name, value in options.items() if value is not None}}
