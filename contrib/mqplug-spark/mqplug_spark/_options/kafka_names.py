"""Spark's ``kafka.*`` options, named as in the Java client, translated to backend settings and librdkafka options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqplug import ConfigError

KAFKA_PREFIX: Final = "kafka."
SERVERS: Final = "kafka.bootstrap.servers"

_SETTINGS: Final = {
    "bootstrap.servers": "servers",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ca_file",
    "ssl.ca.pem": "ca_pem",
    "ssl.truststore.certificates": "ca_pem",
    "ssl.certificate.location": "cert_file",
    "ssl.certificate.pem": "cert_pem",
    "ssl.keystore.certificate.chain": "cert_pem",
    "ssl.key.location": "key_file",
    "ssl.key.pem": "key_pem",
    "ssl.keystore.key": "key_pem",
    "ssl.key.password": "key_password",
    "transaction.timeout.ms": "transaction_timeout",
}
"""Settings of the backend, by their names in the Java client and in librdkafka."""

_OTHER_NAMES: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
"""Options that have another name in librdkafka than in the Java client."""

_REFUSED: Final = {
    "acks": "every send waits for all replicas",
    "auto.offset.reset": "use startingOffsets instead",
    "enable.auto.commit": "Spark keeps the position of a query in its checkpoint",
    "enable.idempotence": "sends are always idempotent",
    "group.id": "reads use no group; set commitGroup on a stream so that lag tools see it",
    "interceptor.classes": "it names Java classes; use extensions of mqplug",
    "key.deserializer": "keys are always binary",
    "key.serializer": "keys are always binary",
    "max.poll.records": "the size of row batches is fixed",
    "partitioner.class": "it names a Java class",
    "sasl.jaas.config": "use kafka.sasl.username and kafka.sasl.password instead",
    "sasl.kerberos.service.name": "the kafka backend does not support Kerberos",
    "ssl.keystore.location": "use kafka.ssl.certificate.location and kafka.ssl.key.location, with PEM files",
    "ssl.keystore.password": "use kafka.ssl.key.password for a PEM key",
    "ssl.truststore.location": "use kafka.ssl.ca.location, with a PEM file",
    "ssl.truststore.password": "PEM files have none; use kafka.ssl.ca.location",
    "transactional.id": "the writer names its transactions",
    "value.deserializer": "values are always binary",
    "value.serializer": "values are always binary",
}
_PROTOCOLS: Final = {"PLAINTEXT": "false", "SASL_PLAINTEXT": "false", "SSL": "true", "SASL_SSL": "true"}


def kafka_settings(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the backend's settings and librdkafka's options. Raise ``ConfigError`` for an unsupported option."""
    settings: dict[str, str] = {}
    librdkafka: dict[str, str] = {}
    for option, text in sorted(given.items()):
        name = option.removeprefix(KAFKA_PREFIX)
        if name in _REFUSED:
            raise ConfigError(f"{option!r} is not supported: {_REFUSED[name]}", fix="Remove it")
        if name == "security.protocol":
            settings["tls"] = _encrypted(option, text)
        elif name == "isolation.level":
            _check_isolation(option, text)
        elif name in {"ssl.truststore.type", "ssl.keystore.type"}:
            _check_pem(option, text)
        elif name in _SETTINGS:
            _once(settings, _SETTINGS[name], option, _seconds(text) if name == "transaction.timeout.ms" else text)
        else:
            librdkafka[_OTHER_NAMES.get(name, name)] = text
    _check_login(given, settings)
    return settings, librdkafka


def _once(settings: dict[str, str], name: str, option: str, text: str) -> None:
    if name in settings:
        raise ConfigError(f"{option!r} is given under two names", fix="Remove one")
    settings[name] = text


def _encrypted(option: str, text: str) -> str:
    try:
        return _PROTOCOLS[text.strip().upper()]
    except KeyError:
        raise ConfigError(f"{option} must be one of {', '.join(_PROTOCOLS)}") from None


def _check_isolation(option: str, text: str) -> None:
    if text.strip().lower() != "read_committed":
        raise ConfigError(f"{option} must be read_committed: only committed messages are read", fix="Remove it")


def _check_pem(option: str, text: str) -> None:
    if text.strip().upper() != "PEM":
        raise ConfigError(f"{option} must be PEM: Java key stores cannot be read", fix="Convert the store to PEM")


def _check_login(given: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` if the protocol needs a login and none is given, or the other way round."""
    protocol = given.get("kafka.security.protocol", "").strip().upper()
    if protocol.startswith("SASL") and "username" not in settings and settings.get("mechanism") != "OAUTHBEARER":
        raise ConfigError(
            f"kafka.security.protocol is {protocol}, but no user name is given",
            fix="Set kafka.sasl.username and kafka.sasl.password",
        )
    if protocol in {"PLAINTEXT", "SSL"} and "username" in settings:
        raise ConfigError(
            f"kafka.security.protocol is {protocol}, which has no login, but kafka.sasl.username is given",
            fix=f"Set it to {'SASL_SSL' if protocol == 'SSL' else 'SASL_PLAINTEXT'}",
        )


def _seconds(text: str) -> str:
    try:
        return str(int(text) / 1000)
    except ValueError:
        raise ConfigError("kafka.transaction.timeout.ms must be a number of milliseconds") from None
