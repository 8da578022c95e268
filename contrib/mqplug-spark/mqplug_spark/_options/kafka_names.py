"""Spark's ``kafka.*`` options, named as in the Java client, as settings and librdkafka options of the kafka backend."""

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
"""What is a setting of the backend, under the names of the Java client and of librdkafka."""

_OTHER_NAMES: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
"""Options that librdkafka calls otherwise than the Java client."""

_REFUSED: Final = {
    "acks": "every send waits for all replicas",
    "auto.offset.reset": "say startingOffsets",
    "enable.auto.commit": "Spark keeps the place of a query in its checkpoint",
    "enable.idempotence": "sends are always idempotent",
    "group.id": "reads use no group; say commitGroup on a stream so that lag tools see it",
    "interceptor.classes": "it names classes of Java; use extensions of mqplug",
    "key.deserializer": "keys are always binary",
    "key.serializer": "keys are always binary",
    "max.poll.records": "batches of rows have a size of their own",
    "partitioner.class": "it names a class of Java",
    "sasl.jaas.config": "say kafka.sasl.username and kafka.sasl.password",
    "sasl.kerberos.service.name": "the kafka backend has no Kerberos",
    "ssl.keystore.location": "say kafka.ssl.certificate.location and kafka.ssl.key.location, files in PEM",
    "ssl.keystore.password": "say kafka.ssl.key.password for a key in PEM",
    "ssl.truststore.location": "say kafka.ssl.ca.location, a file in PEM",
    "ssl.truststore.password": "files in PEM have none; say kafka.ssl.ca.location",
    "transactional.id": "the writer names its transactions",
    "value.deserializer": "values are always binary",
    "value.serializer": "values are always binary",
}
_PROTOCOLS: Final = {"PLAINTEXT": "false", "SASL_PLAINTEXT": "false", "SSL": "true", "SASL_SSL": "true"}


def kafka_settings(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of the backend, and the options of librdkafka. Raise ``ConfigError`` for refused ones."""
    settings: dict[str, str] = {}
    librdkafka: dict[str, str] = {}
    for option, text in sorted(given.items()):
        name = option.removeprefix(KAFKA_PREFIX)
        if name in _REFUSED:
            raise ConfigError(f"{option!r} is not taken: {_REFUSED[name]}", fix="Leave it out")
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
        raise ConfigError(f"{option!r} is given under two names", fix="Leave one out")
    settings[name] = text


def _encrypted(option: str, text: str) -> str:
    try:
        return _PROTOCOLS[text.strip().upper()]
    except KeyError:
        raise ConfigError(f"{option} must be one of {', '.join(_PROTOCOLS)}") from None


def _check_isolation(option: str, text: str) -> None:
    if text.strip().lower() != "read_committed":
        raise ConfigError(f"{option!r} is not taken: only committed messages are read", fix="Leave it out")


def _check_pem(option: str, text: str) -> None:
    if text.strip().upper() != "PEM":
        raise ConfigError(f"{option} must be PEM: stores of Java cannot be read", fix="Convert the store to PEM")


def _check_login(given: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` where the protocol asks for a login, and none is given, or the other way round."""
    protocol = given.get("kafka.security.protocol", "").strip().upper()
    if protocol.startswith("SASL") and "username" not in settings and settings.get("mechanism") != "OAUTHBEARER":
        raise ConfigError(
            f"kafka.security.protocol is {protocol}, but nothing says who logs in",
            fix="Add the options kafka.sasl.username and kafka.sasl.password",
        )
    if protocol in {"PLAINTEXT", "SSL"} and "username" in settings:
        raise ConfigError(
            f"kafka.security.protocol is {protocol}, which has no login, but kafka.sasl.username is given",
            fix=f"Write {'SASL_SSL' if protocol == 'SSL' else 'SASL_PLAINTEXT'}",
        )


def _seconds(text: str) -> str:
    try:
        return str(int(text) / 1000)
    except ValueError:
        raise ConfigError("kafka.transaction.timeout.ms must be a number of milliseconds") from None
