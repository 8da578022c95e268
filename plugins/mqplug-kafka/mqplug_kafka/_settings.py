"""The settings of the Kafka backend, and their checks. Imports no client library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from mqplug import ConfigError
from mqplug.spi import Address, Url

PROTECTED = {
    "acks": "every send waits for all replicas",
    "auto.offset.reset": "give start= when you open a consumer",
    "bootstrap.servers": "set servers=",
    "enable.auto.commit": "acks are stored by commit, by close, and every second",
    "enable.auto.offset.store": "acks are stored by commit, by close, and every second",
    "enable.idempotence": "sends are always idempotent",
    "enable.partition.eof": "reads up to a watermark need it",
    "group.id": "give group= when you open a consumer",
    "group.instance.id": "set instance_id=",
    "group.protocol": "set group_protocol=",
    "group.protocol.type": "all groups are consumer groups",
    "group.remote.assignor": "set assignor=",
    "heartbeat.interval.ms": "it follows from the session timeout",
    "isolation.level": "only committed messages are read",
    "message.max.bytes": "set message_max_bytes=",
    "metadata.broker.list": "set servers=",
    "partition.assignment.strategy": "set assignor=",
    "partitioner": "give partitioner= when you open a producer",
    "queue.buffering.max.kbytes": "give queue_bytes= when you open a producer",
    "queue.buffering.max.messages": "give queue_messages= when you open a producer",
    "queued.max.messages.kbytes": "give prefetch_bytes= when you open a consumer",
    "request.required.acks": "every send waits for all replicas",
    "sasl.mechanism": "set mechanism=",
    "sasl.mechanisms": "set mechanism=",
    "sasl.password": "set password=",
    "sasl.username": "set username=",
    "security.protocol": "set username= or token_endpoint= for SASL, and tls=true for TLS",
    "ssl.ca.location": "set ca_file=",
    "ssl.ca.pem": "set ca_pem=",
    "ssl.certificate.location": "set cert_file=",
    "ssl.certificate.pem": "set cert_pem=",
    "ssl.key.location": "set key_file=",
    "ssl.key.password": "set key_password=",
    "ssl.key.pem": "set key_pem=",
    "session.timeout.ms": "set session_timeout=",
    "transaction.timeout.ms": "set transaction_timeout=",
    "transactional.id": "give it as the name of client.transaction(name)",
}
"""Options of librdkafka that would break mqplug's promises, with the reason or the setting to use instead."""

GroupProtocol = Literal["classic", "consumer"]
Assignor = Literal["cooperative-sticky", "range", "roundrobin", "uniform"]
ASSIGNORS: Mapping[GroupProtocol, tuple[Assignor, ...]] = {
    "classic": ("cooperative-sticky", "range", "roundrobin"),
    "consumer": ("uniform", "range"),
}
INSTANCE_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")  # Kafka allows 249: this leaves room for a number at the end
DEFAULT_PORT = 9092
MIN_TRANSACTION_TIMEOUT_S = 1.0
MAX_TRANSACTION_TIMEOUT_S = 2_147_483.0  # librdkafka holds it in milliseconds, in 31 bits
NativePart = Literal["auto", "off", "required"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
OAUTH_PREFIX = "sasl.oauthbearer."
OAUTH_REQUIRED = ("client.id", "client.secret", "token.endpoint.url")


@attrs.frozen(kw_only=True)
class KafkaSettings:
    """The brokers of a cluster, and the credentials for it.

    ``servers`` lists brokers as "host:9092". ``username`` and ``password`` are for SASL, by ``mechanism``: PLAIN,
    SCRAM-SHA-256 or SCRAM-SHA-512.

    OAUTHBEARER uses tokens instead: from ``token_endpoint``, with ``client_id``, ``client_secret`` and an optional
    ``scope`` (OIDC client credentials), or from the ``token_provider`` of this name, an entry point of the
    group ``mqplug.kafka_tokens``, which is called with these settings and may have ``token_options`` of its own.

    ``tls`` encrypts; ``ca_file`` or ``ca_pem`` holds certificates to trust. ``cert_file`` and ``key_file``, or
    ``cert_pem`` and ``key_pem``, are this client's own certificate; ``key_password`` decrypts the key.
    ``group_protocol`` is ``classic``, or ``consumer`` for the protocol of KIP-848, in which the brokers rebalance.
    A dead member keeps its partitions for ``session_timeout`` seconds, by default 10; in the consumer protocol, for the
    brokers' ``group.consumer.session.timeout.ms``. ``assignor`` distributes a group's partitions: by default
    ``cooperative-sticky``, or ``range`` or ``roundrobin`` if other members of the group use it; in the consumer
    protocol ``uniform`` or ``range``, by default the one that the brokers prefer. ``instance_id`` is a stable name of
    this process: its members are static, and keep their partitions while it restarts. ``message_max_bytes`` is the
    size of the largest message. ``future_max`` is the broker's ``message.timestamp.after.max.ms``, in seconds.
    After ``transaction_timeout`` seconds the brokers abort a transaction that is still open; until then, readers wait
    at its first message.
    ``librdkafka`` passes options to the client library, such as ``{"linger.ms": "20"}``; options that would break
    mqplug's promises are refused. ``native`` says whether the compiled part of mqplug-kafka-native reads and sends:
    ``auto`` where it is installed and fits, else ``off`` or ``required``.
    """

    servers: list[str] = attrs.field(metadata={"address": True})
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    mechanism: Mechanism = "PLAIN"
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = attrs.field(default=None, repr=False)
    scope: str | None = None
    token_provider: str | None = None
    token_options: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    tls: bool = False
    ca_file: str | None = None
    ca_pem: str | None = None
    cert_file: str | None = None
    cert_pem: str | None = None
    key_file: str | None = None
    key_pem: str | None = attrs.field(default=None, repr=False)
    key_password: str | None = attrs.field(default=None, repr=False)
    group_protocol: GroupProtocol = "classic"
    session_timeout: float | None = None
    assignor: Assignor | None = None
    instance_id: str | None = None
    message_max_bytes: int = 1_000_000
    future_max: float = 3600.0
    transaction_timeout: float = 60.0
    librdkafka: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    native: NativePart = "auto"

    def __attrs_post_init__(self) -> None:
        _check(self)

    @property
    def sasl_mechanism(self) -> str | None:
        """The SASL mechanism; None without SASL."""
        if self.token_endpoint is not None or self.token_provider is not None:
            return "OAUTHBEARER"
        return self.mechanism if self.username is not None or self.mechanism == "OAUTHBEARER" else None


def from_url(url: Url) -> Mapping[str, Any]:
    """Return the settings in ``kafka://user:password@host:9092,other:9092``."""
    if url.path.strip("/"):
        raise ConfigError(
            f"a kafka URL has no path, but this one has {url.path!r}",
            fix="Write kafka://host:9092, and name the topic when you open a producer or a consumer",
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
    _check_certificates(settings)
    if settings.message_max_bytes <= 0:
        raise ConfigError(f"message_max_bytes must be above 0, not {settings.message_max_bytes}")
    _check_groups(settings)
    if not MIN_TRANSACTION_TIMEOUT_S <= settings.transaction_timeout <= MAX_TRANSACTION_TIMEOUT_S:
        raise ConfigError(
            f"transaction_timeout must be from 1 to 2147483 s, not {settings.transaction_timeout:g} s",
            fix="Give 1 s or more, and no more than the brokers' transaction.max.timeout.ms",
        )
    for key in settings.librdkafka:
        if key in PROTECTED:
            raise ConfigError(f"librdkafka option {key!r} may not be set", fix=f"Leave it out: {PROTECTED[key]}")


def _check_groups(settings: KafkaSettings) -> None:
    """Check the settings of group members against each other."""
    if settings.session_timeout is not None and settings.session_timeout <= 0:
        raise ConfigError(f"session_timeout must be above 0, not {settings.session_timeout:g}")
    if settings.instance_id is not None and not INSTANCE_ID.fullmatch(settings.instance_id):
        raise ConfigError(
            f"instance_id={settings.instance_id!r} is not a valid name of a member",
            fix="Write 1 to 200 letters, digits, dots, underscores or hyphens, such as a pod's name",
        )
    fitting = ASSIGNORS[settings.group_protocol]
    if settings.assignor not in {None, *fitting}:
        raise ConfigError(
            f"groups of the {settings.group_protocol} protocol have no assignor {settings.assignor!r}",
            fix=f"Set one of {', '.join(fitting)}, or leave assignor= out",
        )
    if settings.group_protocol == "classic":
        return
    if settings.session_timeout is not None:
        raise ConfigError(
            "the consumer protocol takes no session_timeout: the brokers set it",
            fix="Leave it out, and set group.consumer.session.timeout.ms of the brokers, or "
            "consumer.session.timeout.ms of the group",
        )
    if settings.instance_id is not None:
        raise ConfigError(
            "the consumer protocol takes no instance_id: a static member that was killed could not return before its "
            "session ended",
            fix="Leave it out, or set group_protocol='classic'",
        )


def _check_certificates(settings: KafkaSettings) -> None:
    for name in ("ca", "cert", "key"):
        file, pem = getattr(settings, f"{name}_file"), getattr(settings, f"{name}_pem")
        if file is not None and pem is not None:
            raise ConfigError(
                f"a certificate or key is given twice, as {name}_file and {name}_pem", fix="Give one of them"
            )
        if pem is not None and "-----BEGIN " not in pem:
            raise ConfigError(
                f"{name}_pem must be PEM text, which begins with -----BEGIN",
                fix=f"Use {name}_file= for the path of a file",
            )
    cert = settings.cert_file or settings.cert_pem
    if (cert is None) != ((settings.key_file or settings.key_pem) is None):
        missing = "key_file (or key_pem)" if cert else "cert_file (or cert_pem)"
        raise ConfigError(f"a client certificate needs its key: {missing} is missing", fix="Give both, or neither")
    if not settings.tls and (settings.ca_file or settings.ca_pem or cert):
        raise ConfigError("certificates are given, but TLS is off", fix="Set tls=True")


def _check_oauth(settings: KafkaSettings) -> None:
    """Check the OAUTHBEARER settings, and the options with which librdkafka fetches tokens itself."""
    of_endpoint = {"token_endpoint": settings.token_endpoint, "client_id": settings.client_id,
                   "client_secret": settings.client_secret}  # fmt: skip
    missing = [name for name, value in of_endpoint.items() if not value]
    if settings.username is not None and settings.sasl_mechanism == "OAUTHBEARER":
        raise ConfigError(
            "OAUTHBEARER takes no username and password", fix="Set token_endpoint=, client_id= and client_secret="
        )
    if settings.token_provider is not None:
        if len(missing) < len(of_endpoint) or settings.scope is not None:
            raise ConfigError(
                "token_provider cannot be combined with token_endpoint, client_id, client_secret or scope",
                fix="Give one of them; the options of a provider are in token_options",
            )
    elif settings.token_options:
        raise ConfigError("token_options are given without token_provider", fix="Set token_provider=")
    elif settings.scope is not None or 0 < len(missing) < len(of_endpoint):
        if missing:
            raise ConfigError(f"the settings of the token endpoint lack {', '.join(missing)}", fix="Give all three")
    elif settings.mechanism == "OAUTHBEARER" and missing:
        _check_native_oauth(settings.librdkafka)
    if settings.token_endpoint and not settings.token_endpoint.startswith(("https://", "http://")):
        raise ConfigError("token_endpoint must be a URL", fix="Write https://host/path")


def _check_native_oauth(native: Mapping[str, str]) -> None:
    missing = [f"{OAUTH_PREFIX}{name}" for name in OAUTH_REQUIRED if not native.get(f"{OAUTH_PREFIX}{name}")]
    if native.get(f"{OAUTH_PREFIX}method") != "oidc" or missing:
        raise ConfigError(
            "OAUTHBEARER needs token_endpoint, client_id and client_secret, or token_provider",
            fix=f"Set them, or set {', '.join([f'{OAUTH_PREFIX}method=oidc', *missing])} in librdkafka=",
        )


def _check_servers(servers: Sequence[str]) -> None:
    if not servers:
        raise ConfigError(
            "servers must name at least one broker", fix="Write servers=['host:9092'], or kafka://host:9092"
        )
    for number, server in enumerate(servers):
        try:
            Address.parse(server)
        except ValueError as error:  # librdkafka would take a port modulo 65536
            raise ConfigError(f"servers[{number}] must look like host:9092: {error}", fix="Write host:9092") from None
