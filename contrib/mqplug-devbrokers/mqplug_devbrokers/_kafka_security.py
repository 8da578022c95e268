"""Secured listeners of a Kafka broker: TLS, mutual TLS and SASL, with users, access rights and certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from mqplug_devbrokers._certificates import LIFETIME_S, Certificate, CertificateAuthority
from mqplug_devbrokers._kafka_wire import AclRule, KafkaWire
from mqplug_devbrokers._ports import choose_ports

if TYPE_CHECKING:
    from pathlib import Path

Listener = Literal["tls", "mtls", "sasl", "sasl_tls"]

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS: dict[Listener, str] = {"tls": "SSL", "mtls": "SSL", "sasl": "SASL_PLAINTEXT", "sasl_tls": "SASL_SSL"}
LOGIN_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class KafkaSecurity:
    """The settings of `KafkaServer(security=…)`. The server's plain listeners stay, for administration.

    `users` are names and passwords for PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and for a `TokenServer`. With `authorize`,
    they and the clients with certificates may do only what `KafkaServer.secured.allow` has granted them.
    """

    users: Mapping[str, str] = field(default_factory=lambda: {"alice": "alice-pw", "bob": "bob-pw"})
    authorize: bool = False


class SecuredListeners:
    """The secured listeners of one `KafkaServer`: their addresses, certificates and rights.

    `tls` authenticates only the broker, `mtls` also the client, by a certificate of `issue`. `sasl` and `sasl_tls` take
    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, the last with tokens of a `TokenServer`.
    """

    def __init__(self, security: KafkaSecurity, directory: Path, wire_port: int) -> None:
        self.security = security
        self.directory = directory / "security"
        self.directory.mkdir(exist_ok=True)
        self.authority = CertificateAuthority(self.directory)
        self._wire_port = wire_port
        self._ports = choose_ports(directory / "secured-ports.json", list(PROTOCOLS), 0)

    def address(self, listener: Listener) -> str:
        """Return the address of a listener for `bootstrap.servers`."""
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def ca_file(self) -> Path:
        """The certificate that clients must trust."""
        return self.authority.ca_file

    def issue(self, user: str, *, lifetime: float = LIFETIME_S, directory: Path | None = None) -> Certificate:
        """Return a certificate for a user of the listener `mtls`, valid for `lifetime` seconds.

        A second one for the same user replaces the files of the first.
        """
        return self.authority.issue(user, lifetime=lifetime, directory=directory)

    def allow(
        self,
        user: str,
        *operations: str,
        topic: str | None = None,
        topic_prefix: str | None = None,
        group: str | None = None,
        group_prefix: str | None = None,
        transaction: str | None = None,
        transaction_prefix: str | None = None,
        cluster: bool = False,
    ) -> None:
        """Grant a user rights: `allow("alice", "Read", "Write", topic_prefix="orders")`. The prefix "" covers all.

        The operations are Kafka's: Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs, All, …
        """
        named = {("topic", False): topic, ("topic", True): topic_prefix, ("group", False): group,
                 ("group", True): group_prefix, ("transaction", False): transaction,
                 ("transaction", True): transaction_prefix,
                 ("cluster", False): "kafka-cluster" if cluster else None}  # fmt: skip
        with KafkaWire(self._wire_port, timeout=10) as kafka:
            for (kind, prefixed), name in named.items():
                if name is not None:
                    whole = prefixed and not name
                    rules = [
                        AclRule(user, each, kind, "*" if whole else name, prefixed and not whole) for each in operations
                    ]
                    kafka.create_acls(rules)

    def forbid(self, user: str) -> None:
        """Revoke all rights of a user."""
        with KafkaWire(self._wire_port, timeout=10) as kafka:
            kafka.delete_acls(user)

    def format_options(self) -> list[str]:
        """Return the options to format a data directory with the users of SCRAM."""
        found = []
        for mechanism in SCRAM:
            for name, password in self.security.users.items():
                found += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        return found

    def settings(self) -> dict[str, str]:
        """Return the broker's settings. Their listeners must be added to its plain ones."""
        broker = self.authority.issue("broker", hosts=("127.0.0.1",))
        store = self.directory / "broker-keystore.pem"
        store.write_bytes(broker.key_file.read_bytes() + broker.cert_file.read_bytes() + self.ca_file.read_bytes())
        addresses = ",".join(f"{name.upper()}://{self.address(name)}" for name in PROTOCOLS)
        found = {
            "listeners": addresses,
            "advertised.listeners": addresses,
            "listener.security.protocol.map": ",".join(f"{name.upper()}:{kind}" for name, kind in PROTOCOLS.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "listener.name.mtls.ssl.client.auth": "required",
            # A client's principal is the name that its certificate was issued for.
            "ssl.principal.mapping.rules": r"RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }
        for listener in ("sasl", "sasl_tls"):
            found |= self._logins(f"listener.name.{listener}")
        if self.security.authorize:
            found["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            found["super.users"] = "User:ANONYMOUS"  # the broker itself, and the plain listeners
        return found

    def _logins(self, prefix: str) -> dict[str, str]:
        users = " ".join(f'user_{name}="{password}"' for name, password in self.security.users.items())
        found = {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, "OAUTHBEARER")),
            f"{prefix}.plain.sasl.jaas.config": f"{LOGIN_MODULES}.plain.PlainLoginModule required {users};",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{LOGIN_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class":
                f"{LOGIN_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
        }  # fmt: skip
        for mechanism in SCRAM:
            module = f"{LOGIN_MODULES}.scram.ScramLoginModule required;"
            found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = module
        return found
