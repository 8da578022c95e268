"""The settings of the Kafka backend, and their checks. Imports no client library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from mqplug import ConfigError
from mqplug.spi import Address, Url

PROTECTED = {
    "acks": "every send waits for all replicas",
    "auto.offset.reset": "say start= when you open a consumer",
    "bootstrap.servers": "say servers=",
    "enable.auto.commit": "acks are stored by commit, by close, and every second",
    "enable.auto.offset.store": "acks are stored by commit, by close, and every second",
    "enable.idempotence": "sends are always idempotent",
    "enable.partition.eof": "reads up to a watermark need it",
    "group.id": "say group= when you open a consumer",
    "group.protocol": "groups use the classic protocol",
    "isolation.level": "only committed messages are read, and watermarks agree with that",
    "message.max.bytes": "say message_max_bytes=",
    "metadata.broker.list": "say servers=",
    "partition.assignment.strategy": "groups rebalance cooperatively",
    "partitioner": "say partitioner= when you open a producer",
    "queue.buffering.max.kbytes": "say queue_bytes= when you open a producer",
    "queue.buffering.max.messages": "say queue_messages= when you open a producer",
    "queued.max.messages.kbytes": "say prefetch_bytes= when you open a consumer",
    "request.required.acks": "every send waits for all replicas",
    "sasl.mechanism": "say mechanism=",
    "sasl.mechanisms": "say mechanism=",
    "sasl.password": "say password=",
    "sasl.username": "say username=",
    "security.protocol": "say username= for SASL, tls=true for TLS",
    "session.timeout.ms": "say session_timeout=",
    "transactional.id": "transactions are not supported",
}
"""Native options that would break mqplug's promises, with the reason or the setting to use instead."""

DEFAULT_PORT = 9092
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
OAUTH_PREFIX = "sasl.oauthbearer."
OAUTH_REQUIRED = ("client.id", "client.secret", "token.endpoint.url")


@attrs.frozen(kw_only=True)
class KafkaSettings:
    """The brokers of a cluster, and the credentials for it.

    ``servers`` lists brokers as "host:9092". ``username`` and ``password`` are for SASL, by ``mechanism``: PLAIN,
    SCRAM-SHA-256 or SCRAM-SHA-512; OAUTHBEARER is set up under ``native`` instead. ``tls`` encrypts; ``ca_file``
    holds certificates to trust. ``cert_file`` and ``key_file``, which ``key_password`` decrypts, are this client's
    own certificate. A dead member keeps its partitions for ``session_timeout`` seconds. ``message_max_bytes`` is the
    size of the largest message. ``future_max`` is the broker's ``message.timestamp.after.max.ms``, in seconds.
    ``native`` passes options to librdkafka, such as ``{"linger.ms": "20"}``; options that would break mqplug's
    promises are refused.
    """

    servers: list[str] = attrs.field(metadata={"address": True})
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    mechanism: Mechanism = "PLAIN"
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = attrs.field(default=None, repr=False)
    session_timeout: float = 10.0
    message_max_bytes: int = 1_000_000
    future_max: float = 3600.0
    native: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        _check(self)


def from_url(url: Url) -> Mapping[str, Any]:
    """Return the settings in ``kafka://user:password@host:9092,other:9092``."""
    if url.path.strip("/"):
        raise ConfigError(
            f"a kafka URL has no path, but this one has {url.path!r}",
            fix="Write kafka://user:password@host:9092,other:9092",
        )
    login = {"username": url.user or None, "password": url.password} if url.user is not None else {}
    return {"servers": [host.at(DEFAULT_PORT) for host in url.hosts], **login}


def _check(settings: KafkaSettings) -> None:
    """Raise ``ConfigError`` for settings that contradict each other or are out of range."""
    _check_servers(settings.servers)
    if (settings.username is None) != (settings.password is None):
        missing = "password" if settings.password is None else "username"
        raise ConfigError(f"the credentials are incomplete: {missing} is missing", fix="Give both, or neither")
    _check_oauth(settings)
    if (settings.cert_file is None) != (settings.key_file is None):
        raise ConfigError("a client certificate needs cert_file and key_file", fix="Give both, or neither")
    if not settings.tls and (settings.ca_file or settings.cert_file):
        raise ConfigError("certificates are given, but TLS is off", fix="Say tls=True")
    if settings.session_timeout <= 0 or settings.message_max_bytes <= 0:
        raise ConfigError("session_timeout and message_max_bytes must be above 0")
    for key in settings.native:
        if key in PROTECTED:
            raise ConfigError(f"native option {key!r} may not be set", fix=f"Leave it out: {PROTECTED[key]}")


def _check_oauth(settings: KafkaSettings) -> None:
    """Check the native options of OAUTHBEARER, with which librdkafka fetches tokens by itself."""
    if settings.mechanism != "OAUTHBEARER":
        return
    if settings.username is not None:
        raise ConfigError(
            "OAUTHBEARER takes no username and password",
            fix=f"Say {OAUTH_PREFIX}client.id and {OAUTH_PREFIX}client.secret in native",
        )
    missing = [f"{OAUTH_PREFIX}{name}" for name in OAUTH_REQUIRED if not settings.native.get(f"{OAUTH_PREFIX}{name}")]
    if settings.native.get(f"{OAUTH_PREFIX}method") != "oidc" or missing:
        fix = "Give them, such as native={'sasl.oauthbearer.method': 'oidc', 'sasl.oauthbearer.client.id': …}"
        raise ConfigError(
            f"OAUTHBEARER needs in native {OAUTH_PREFIX}method=oidc and {', '.join(missing) or 'that'}", fix=fix
        )


def _check_servers(servers: Sequence[str]) -> None:
    if not servers:
        raise ConfigError("servers names no broker", fix="Write servers=['host:9092'], or kafka://host:9092")
    for number, server in enumerate(servers):
        try:
            Address.parse(server)
        except ValueError as error:  # librdkafka would take a port modulo 65536
            raise ConfigError(f"servers[{number}] names no broker: {error}", fix="Write host:9092") from None
