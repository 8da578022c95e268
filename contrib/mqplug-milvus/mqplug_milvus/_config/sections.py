"""Turns the message queues' sections of ``milvus.yaml`` into settings of the backends."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from mqplug.introspection import Given, LeftAlone
from mqplug.spi import Address
from mqplug_milvus._config.keys import OPTION_SECTIONS
from mqplug_milvus._config.values import MilvusValues, is_blank, one_of, wrong

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OWN_LOGIN: Final = "OAUTHBEARER"  # the mechanism that needs no username
_FILES: Final = {
    "ca_file": "kafka.ssl.tlsCaCert",
    "cert_file": "kafka.ssl.tlsCert",
    "key_file": "kafka.ssl.tlsKey",
    "key_password": "kafka.ssl.tlsKeyPassword",
}
_PULSAR_PORT: Final = 6650
_KAFKA_PORT: Final = 9092
_CLASSES: Final = "org.apache.pulsar.client.impl.auth.Authentication"
_PARAMETERS: Final[Mapping[str, Mapping[str, str]]] = {
    "token": {"token": "token", "file": "token_file"},
    "basic": {"username": "username", "password": "password"},
    "tls": {"tlsCertFile": "tls_certificate", "tlsKeyFile": "tls_key"},
}
_NO_LIMIT: Final = -1
_MINUTE_S: Final = 60
_MEGABYTE: Final = 1 << 20


def kafka(said: MilvusValues) -> dict[str, Given]:
    """Return the settings of Kafka."""
    login = {
        "username": said.text("kafka.saslUsername"),
        "password": said.text("kafka.saslPassword"),
        "mechanism": _mechanism(said),
    }
    tls = _tls(said)
    files = {name: said.text(key) for name, key in _FILES.items()} if said.is_true("kafka.ssl.enabled") else {}
    return _without_none({"servers": _servers(said), **login, "tls": tls, **files, "librdkafka": _options(said)})


def unused(said: MilvusValues) -> list[LeftAlone]:
    """Return the TLS keys of Kafka, which neither Milvus nor mqplug uses unless ``kafka.ssl.enabled`` is true."""
    if said.is_true("kafka.ssl.enabled"):
        return []
    return [LeftAlone(key, "kafka.ssl.enabled is not true") for key in _FILES.values() if said.get(key) is not None]


def _servers(said: MilvusValues) -> Given | None:
    given, port = said.get("kafka.brokerList") or said.get("kafka.brokers"), said.number("kafka.port")
    if given is None:
        return None
    both = said.get("kafka.brokerList"), said.get("kafka.brokers")
    if both[0] is not None and both[1] is not None:
        raise wrong(given, f"{both[1].place} also gives the address of Kafka", "Set one of them")
    if isinstance(given.value, list):
        hosts = [str(each).strip() for each in given.value]
    else:
        hosts = [each.strip() for each in said.text(_key_of(said)).value.split(",")]  # type: ignore[union-attr]
    default = _KAFKA_PORT if port is None else port.value
    return attrs.evolve(given, value=[_server(given, host, default) for host in hosts if host])


def _key_of(said: MilvusValues) -> str:
    return "kafka.brokers" if said.get("kafka.brokerList") is None else "kafka.brokerList"


def _server(given: Given, text: str, port: int) -> str:
    try:
        return Address.parse(Address.parse(text).at(port)).at(port)
    except ValueError as error:
        reason = str(error)
    raise wrong(given, reason, "Use host:9092, with commas")


def _mechanism(said: MilvusValues) -> Given | None:
    """Return the mechanism as Kafka's settings spell it. They check its value."""
    given = said.text("kafka.saslMechanisms")
    return given and attrs.evolve(given, value=given.value.upper())


def _tls(said: MilvusValues) -> Given | None:
    """Return whether to encrypt. Without a protocol, Milvus encrypts if there are credentials."""
    username, mechanism = said.text("kafka.saslUsername"), _mechanism(said)
    asks = username is not None or (mechanism is not None and mechanism.value == _OWN_LOGIN)
    enabled = said.is_true("kafka.ssl.enabled")
    given = said.text("kafka.securityProtocol")
    if given is None:
        source = said.get("kafka.ssl.enabled") if enabled else username or mechanism
        return attrs.evolve(source, value=True) if source is not None and (enabled or asks) else None
    protocol = one_of(given, _PROTOCOLS)
    if protocol.startswith("SASL_") and not asks:
        raise wrong(given, f"{protocol} needs kafka.saslUsername", "Set it, or use SSL or PLAINTEXT")
    if asks and not protocol.startswith("SASL_"):
        raise wrong(given, f"with {protocol} the credentials would not be used", f"Set SASL_{protocol}")
    if enabled and not protocol.endswith("SSL"):
        raise wrong(given, f"{protocol} does not encrypt, but kafka.ssl.enabled is true", "Change one of them")
    return attrs.evolve(given, value=protocol.endswith("SSL"))


def _options(said: MilvusValues) -> Given | None:
    """Return the options of librdkafka: one table for producers and consumers together."""
    options: dict[str, str] = {}
    givens: list[Given] = []
    for key in OPTION_SECTIONS:
        for name, given in said.options.get(key, {}).items():
            if is_blank(given.value):
                continue
            text = str(given.value).lower() if isinstance(given.value, bool) else str(given.value)
            if options.setdefault(name, text) != text:
                raise wrong(given, f"{name} differs for producers and consumers, which share one value", "Give it once")
            givens.append(given)
    if not givens:
        return None
    places = dict.fromkeys(given.place.partition(" in ")[0] for given in givens)
    return Given(options, givens[0].source, f"{', '.join(places)} in {givens[0].source}")


def pulsar(said: MilvusValues) -> dict[str, Given]:
    """Return the settings of Pulsar."""
    address = _service_url(said)
    if address is None:
        return {}
    admin = _admin_url(said, address)
    return _without_none({
        "service_url": address,
        "admin_url": admin,
        "admin_optional": admin and attrs.evolve(admin, value=True),
        "tenant": said.text("pulsar.tenant"),
        "namespace": said.text("pulsar.namespace"),
        "message_max_bytes": said.number("pulsar.maxMessageSize"),
        **_login(said),
    })  # fmt: skip


def _service_url(said: MilvusValues) -> Given | None:
    """Return the address as it is if it has a colon, else with the port."""
    given, port = said.text("pulsar.address"), said.number("pulsar.port")
    if given is None or "://" in given.value:
        return given
    default = _PULSAR_PORT if port is None else port.value
    whole = given.value if ":" in given.value else f"{given.value}:{default}"
    return attrs.evolve(given, value=f"pulsar://{whole}")


def _admin_url(said: MilvusValues, address: Given) -> Given | None:
    """Return the address of the admin interface: over HTTP, at the host of the brokers."""
    given = said.text("pulsar.webaddress")
    if given is not None:
        return given if "://" in given.value else attrs.evolve(given, value=f"http://{given.value}")
    port = said.number("pulsar.webport")
    if port is None or not address.value.startswith("pulsar://"):
        return None
    host = urlsplit(address.value.partition(",")[0]).netloc.rpartition(":")[0]
    return attrs.evolve(port, value=f"http://{host}:{port.value}")


def _login(said: MilvusValues) -> dict[str, Given | None]:
    plugin, given = said.text("pulsar.authPlugin"), said.get("pulsar.authParams")
    if plugin is None and given is None:
        return {}
    if given is None:
        assert plugin is not None  # noqa: S101
        raise wrong(plugin, "pulsar.authParams is missing", "Set it, for example to token:eyJ…")
    parameters = _parameters(said, given)
    if plugin is None:
        if set(parameters) != {"token"}:
            raise wrong(given, "pulsar.authPlugin is missing", f"Set it to one of {', '.join(_PARAMETERS)}")
        return {"token": attrs.evolve(given, value=parameters["token"])}
    short = attrs.evolve(plugin, value=plugin.value.removeprefix(_CLASSES))
    wanted = _PARAMETERS[one_of(short, _PARAMETERS)]
    if not parameters or not parameters.keys() <= wanted.keys() or any(map(is_blank, parameters.values())):
        raise wrong(given, f"expected {' and '.join(wanted)} for this plugin, each with a value")
    return {wanted[name]: attrs.evolve(given, value=str(value)) for name, value in parameters.items()}


def _parameters(said: MilvusValues, given: Given) -> Mapping[str, Any]:
    """Return the parameters of a plugin: a table, JSON, or ``key:value`` with commas."""
    if isinstance(given.value, Mapping):
        return given.value
    text = said.text("pulsar.authParams").value  # type: ignore[union-attr]
    if text.startswith("{"):
        found: Any = None
        try:
            found = json.loads(text)
        except ValueError:  # not chained: it shows the text, which is a secret
            found = None
        if isinstance(found, Mapping):
            return found
    pairs = [each.partition(":") for each in text.split(",") if each.strip()]
    if text.startswith("{") or not all(colon for _, colon, _ in pairs):
        raise wrong(given, "expected key:value with commas, or JSON", "Use token:eyJ…")
    return {name.strip(): value.strip() for name, _, value in pairs}


def rocksmq(said: MilvusValues) -> dict[str, Given]:
    """Return the settings of RocksMQ."""
    minutes, megabytes = said.number("rocksmq.retentionTimeInMinutes"), said.number("rocksmq.retentionSizeInMB")
    path = said.text("rocksmq.path")
    return _without_none({
        "path": path and attrs.evolve(path, borrowed=True),
        "retention": minutes and attrs.evolve(minutes, value=_seconds(minutes)),
        "retention_bytes": megabytes and _bytes(megabytes),
    })  # fmt: skip


def _seconds(given: Given) -> float:
    limit = _limit(given)
    return math.inf if limit is None else float(limit * _MINUTE_S)


def _bytes(given: Given) -> Given | None:
    limit = _limit(given)
    return None if limit is None else attrs.evolve(given, value=limit * _MEGABYTE)


def _limit(given: Given) -> int | None:
    """Return a limit, or None for -1, which means no limit."""
    if given.value == _NO_LIMIT:
        return None
    if given.value <= 0:
        raise wrong(given, "expected a number above 0, or -1 for no limit")
    return int(given.value)


def _without_none(settings: Mapping[str, Given | None]) -> dict[str, Given]:
    return {name: given for name, given in settings.items() if given is not None}
