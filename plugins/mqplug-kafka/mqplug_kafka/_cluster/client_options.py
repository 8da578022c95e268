"""The options of each kind of client, from the settings. Imports no client library."""

from __future__ import annotations

from typing import Any

from mqplug_kafka._settings import KafkaSettings

# Keys, headers and framing may add this to a value. Broker and client count them; message_max_bytes does not.
MESSAGE_OVERHEAD_BYTES = 48_576

TRANSACTION_BATCH_BYTES = 131_072
"""The batch size in a transaction without a known topic: one that is too large for its topic fails the transaction."""

TRANSACTION_IN_FLIGHT = 2
"""With more, librdkafka 2.16 polls without a pause, for a core's time, while all are in flight and records wait."""

DEFAULT_SESSION_TIMEOUT_S = 10.0
DEFAULT_ASSIGNOR = "cooperative-sticky"
EAGER = frozenset({"range", "roundrobin"})
"""Assignors of the classic protocol that revoke all partitions of all members at each rebalance."""

WITHIN_TRANSACTION = {"message.timeout.ms", "delivery.timeout.ms", "socket.timeout.ms"}
"""Client options that a transaction's timeout bounds."""

LEARNING_PARTITIONS = {"topic.metadata.refresh.interval.ms": 60_000}
"""Makes the client, which partitions messages by key, learn of added partitions; its default is 5 minutes."""

LOOKING_AGAIN = {"connections.max.idle.ms": 6_000, "topic.metadata.refresh.interval.ms": 2_000}
"""Makes a transactional client look up a group's coordinator again if the known one is gone.

To store positions, librdkafka 2.16 waits for the last known group coordinator, even if it is gone, and beyond any
timeout. It looks for the present one only when the state of a connection changes (librdkafka issue 5511). So idle
connections are closed, including the one to the transaction's coordinator. The lookup needs another connection, which
is kept busy: some broker is asked for metadata at shorter intervals.
"""

IN_FLIGHT = "max.in.flight"
"""With 1, a producer waits for the answer to each request before it sends the next one to the same broker.

With several in flight, librdkafka 2.16 may store records twice when a broker comes back (librdkafka issue 4953): the
first requests are refused while the broker does not lead the partition yet; a later one reaches it as the leader, and
is out of order. Then all are sent again with a new epoch, and the broker does not recognize the already stored ones.
"""

ALONE = 1
"""The batch size that gives each record a batch of its own."""


def common(settings: KafkaSettings) -> dict[str, Any]:
    """Return the client options of every client."""
    return {
        "client.id": "mqplug",
        "reconnect.backoff.max.ms": 2000,
        "topic.metadata.propagation.max.ms": 5000,
        **_security(settings),
        **settings.librdkafka,
        "bootstrap.servers": ",".join(settings.servers),
        "allow.auto.create.topics": False,
    }


def administering(settings: KafkaSettings) -> dict[str, Any]:
    """Return the client options of the admin clients."""
    # librdkafka 2.16 connects only to the brokers it needs. A waiting admin request then asks for a connection to its
    # broker whenever the state of any connection changes, and each time cancels the pause before the next attempt:
    # thousands of attempts a second at a broker that is down. Clients that connect to all brokers keep the pauses.
    return {"enable.sparse.connections": False, **common(settings)}


def coordinating(settings: KafkaSettings) -> dict[str, Any]:
    """Return the client options of the admin clients that ask the coordinators of groups."""
    # Without it, after an outage of all brokers, librdkafka 2.16 waits forever for the last known group coordinator.
    return {"metadata.recovery.strategy": "none", **administering(settings)}


def producing(settings: KafkaSettings) -> dict[str, Any]:
    """Return the client options of the producer. Its queue is unlimited, because the core's producers have limits."""
    largest = settings.message_max_bytes + MESSAGE_OVERHEAD_BYTES
    return {
        # A batch larger than the topic's limit fails as a whole: the client does not split it.
        "batch.size": min(1_000_000, largest),
        "linger.ms": 0,  # records are collected before the client gets them
        IN_FLIGHT: 1,
        **common(settings),
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": largest,
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": 2_147_483_647,
        "queue.buffering.max.messages": 0,
    }


def batching(batch_bytes: int) -> dict[str, int]:
    """Return the client options of a producer whose batches are not larger than this."""
    if batch_bytes > ALONE:
        return {"batch.size": batch_bytes}
    # Some of these records are refused, and later ones wait this long before they are sent again.
    return {"batch.size": ALONE, "batch.num.messages": 1, "retry.backoff.ms": 1}


def transacting(settings: KafkaSettings, name: str, batch_bytes: int | None = None) -> dict[str, Any]:
    """Return the client options of the producer that holds a transaction name, and makes batches of this size."""
    limit = round(settings.transaction_timeout * 1000)
    options = {
        **LOOKING_AGAIN,
        **producing(settings),
        "transactional.id": name,
        "transaction.timeout.ms": limit,
    }
    if IN_FLIGHT not in settings.librdkafka:
        options[IN_FLIGHT] = TRANSACTION_IN_FLIGHT  # a new epoch aborts the transaction, so nothing is stored twice
    if batch_bytes is not None:
        options |= batching(batch_bytes)
    elif "batch.size" not in settings.librdkafka:
        options["batch.size"] = min(options["batch.size"], TRANSACTION_BATCH_BYTES)
    for key in WITHIN_TRANSACTION & options.keys():  # the client refuses longer ones, and 0
        options[key] = min(int(options[key]) or limit, limit)
    return options


def consuming(settings: KafkaSettings, group: str, prefetch_bytes: int) -> dict[str, Any]:
    """Return the client options of a consumer."""
    return {
        # A seek waits this long for a fetch under way; the default is half a second.
        "fetch.wait.max.ms": 100,
        # The fetcher of a full queue sleeps this long; the default is a second, but Python empties the queue faster.
        "fetch.queue.backoff.ms": 10,
        # Added partitions, and topics that a broker does not know yet, are found within this time.
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


def membership(settings: KafkaSettings, instance: str | None = None) -> dict[str, Any]:
    """Return the client options of a group's member; a static one if ``instance`` is given."""
    if settings.group_protocol == "consumer":
        chosen = {} if settings.assignor is None else {"group.remote.assignor": settings.assignor}
        return {"group.protocol": "consumer", **chosen}
    session = round((settings.session_timeout or DEFAULT_SESSION_TIMEOUT_S) * 1000)
    static = {} if instance is None else {"group.instance.id": instance}
    return {
        **static,
        "group.protocol": "classic",  # future clients will have another default
        "partition.assignment.strategy": settings.assignor or DEFAULT_ASSIGNOR,
        "session.timeout.ms": session,
        "heartbeat.interval.ms": min(1000, max(1, session // 3)),  # members learn of a rebalance within this time
    }


def rebalances_eagerly(settings: KafkaSettings) -> bool:
    """Return whether each rebalance revokes all partitions of all members, and not only the moving ones."""
    return settings.group_protocol == "classic" and settings.assignor in EAGER


def inquiring(settings: KafkaSettings) -> dict[str, Any]:
    """Return the client options of a consumer that only asks for its group's stored offsets."""
    # Classic, because a consumer of the other protocol appears to the coordinator as a member when it asks.
    session = round(DEFAULT_SESSION_TIMEOUT_S * 1000)
    classic = {"group.protocol": "classic", "session.timeout.ms": session, "max.poll.interval.ms": 300_000}
    options = common(settings)
    # There may be several, and while no broker is reachable, each tries some broker twice within this time.
    pause = min(400, int(options["reconnect.backoff.max.ms"]))
    return {"reconnect.backoff.ms": pause, **options, **classic, "log_level": 0, "enable.auto.commit": False}


def _security(settings: KafkaSettings) -> dict[str, Any]:
    mechanism = settings.sasl_mechanism
    protocol = f"{'sasl_' if mechanism else ''}{'ssl' if settings.tls else 'plaintext'}"
    options = {
        "sasl.username": settings.username,
        "sasl.password": settings.password,
        "sasl.mechanism": mechanism,
        "ssl.ca.location": settings.ca_file,
        "ssl.ca.pem": settings.ca_pem,
        "ssl.certificate.location": settings.cert_file,
        "ssl.certificate.pem": settings.cert_pem,
        "ssl.key.location": settings.key_file,
        "ssl.key.pem": settings.key_pem,
        "ssl.key.password": settings.key_password,
        "sasl.oauthbearer.method": "oidc" if settings.token_endpoint else None,
        "sasl.oauthbearer.token.endpoint.url": settings.token_endpoint,
        "sasl.oauthbearer.client.id": settings.client_id,
        "sasl.oauthbearer.client.secret": settings.client_secret,
        "sasl.oauthbearer.scope": settings.scope,
    }
    return {"security.protocol": protocol, **{name: value for name, value in options.items() if value is not None}}
