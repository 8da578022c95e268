"""An unchanged ``milvus.yaml`` is read, in both of its spellings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_backends import Fakes, fakes

import mqplug

pytest.importorskip("yaml")

__all__ = ["fakes"]

SHIPPED = """
etcd:
  endpoints: localhost:2379
mq:
  type: default
pulsar:
  address: localhost # Address of pulsar
  port: 6650
  webport: 8080
  maxMessageSize: 5242880
  tenant: public
  namespace: default
  requestTimeout: 60
  enableClientMetrics: false
rocksmq:
  path: /var/lib/milvus/rdb_data
  lrucacheratio: 0.06
  rocksmqPageSize: 67108864
  retentionTimeInMinutes: 4320
  compressionTypes: [0, 0, 7, 7, 7]
kafka:
  brokerList:
  saslUsername:
  saslPassword:
  saslMechanisms: PLAIN
  securityProtocol:
  readTimeout: 10
natsmq:
  server: {port: 4222}
"""


def given(fakes: Fakes, name: str, path: Path, **settings: Any) -> Any:
    """Connect, check the backend's name, and return the settings that the backend got."""
    with mqplug.connect(path, **settings) as mq:
        assert mq.backend == name
    return fakes[name].given


@pytest.fixture
def milvus(tmp_path: Path) -> Any:
    """A function that writes a ``milvus.yaml``."""

    def write(text: str, name: str = "milvus.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_the_shipped_file_chooses_as_milvus_does(fakes: Fakes, milvus: Any) -> None:
    """The shipped file chooses RocksMQ standalone and Pulsar in a cluster; Kafka without brokers is not configured."""
    path = milvus(SHIPPED)
    assert given(fakes, "rocksmq", path).path == "/var/lib/milvus/rdb_data"
    pulsar = given(fakes, "pulsar", path, mode="cluster")
    assert (pulsar.service_url, pulsar.admin_url) == ("pulsar://localhost:6650", "http://localhost:8080")
    assert (pulsar.tenant, pulsar.namespace, pulsar.message_max_bytes) == ("public", "default", 5242880)
    assert not mqplug.configured("kafka", path)


@pytest.mark.parametrize(
    ("kafka", "servers"),
    [
        ("brokerList: one:9092,two:9093", ["one:9092", "two:9093"]),
        ("brokerList: one", ["one:9092"]),
        ("{brokers: one, port: 9095}", ["one:9095"]),
        ("{brokers: 'one,two:9093', port: 9095}", ["one:9095", "two:9093"]),
        ("{brokers: [one, two], port: 9095}", ["one:9095", "two:9095"]),
    ],
)
def test_both_spellings_of_kafka(fakes: Fakes, milvus: Any, kafka: str, servers: list[str]) -> None:
    """Kafka's servers come from ``brokerList``, or from ``brokers`` with ``port`` as the default port."""
    assert given(fakes, "kafka", milvus(f"mq: {{type: kafka}}\nkafka:\n  {kafka}\n")).servers == servers


def test_credentials_of_kafka(fakes: Fakes, milvus: Any) -> None:
    """Kafka with credentials uses TLS unless ``securityProtocol`` is SASL_PLAINTEXT, as in Milvus."""
    sasl = "brokerList: x, saslUsername: me, saslPassword: 123, saslMechanisms: SCRAM-SHA-256"
    found = given(fakes, "kafka", milvus(f"kafka: {{{sasl}}}"))
    assert (found.username, found.password, found.mechanism, found.tls) == ("me", "123", "SCRAM-SHA-256", True)
    assert not given(fakes, "kafka", milvus(f"kafka: {{{sasl}, securityProtocol: SASL_PLAINTEXT}}")).tls


@pytest.mark.parametrize("spelling", ["tlsCaCert", "tlsCACert", "tls_ca_cert", "TLSCACERT"])
def test_certificates_of_kafka(fakes: Fakes, milvus: Any, spelling: str) -> None:
    """The files in Kafka's ``ssl`` section are used only if the section is enabled."""
    ssl = f"tlsCert: c, tlsKey: k, {spelling}: a, tlsKeyPassword: p"
    found = given(fakes, "kafka", milvus(f"kafka: {{brokerList: x, ssl: {{enabled: true, {ssl}}}}}"))
    assert (found.tls, found.cert_file, found.key_file, found.ca_file, found.key_password) == (True, "c", "k", "a", "p")
    found = given(fakes, "kafka", milvus(f"kafka: {{brokerList: x, ssl: {{enabled: false, {ssl}}}}}"))
    assert (found.tls, found.cert_file) == (False, None)


@pytest.mark.parametrize(
    ("pulsar", "service", "admin"),
    [
        ("{address: host}", "pulsar://host:6650", None),
        ("{address: host, port: 6651, webport: 80}", "pulsar://host:6651", "http://host:80"),
        ("{address: 'host:7000', port: 6651}", "pulsar://host:7000", None),
        ("{address: 'pulsar+ssl://host:6651', webport: 80}", "pulsar+ssl://host:6651", None),
    ],
)
def test_addresses_of_pulsar(fakes: Fakes, milvus: Any, pulsar: str, service: str, admin: str | None) -> None:
    """Pulsar's service URL is made of ``address`` and ``port``, or of an address with its own port or scheme."""
    found = given(fakes, "pulsar", milvus(f"pulsar: {pulsar}"))
    assert (found.service_url, found.admin_url) == (service, admin)


@pytest.mark.parametrize("parameters", ["token:s3cret", {"token": "s3cret"}])
def test_the_token_of_pulsar(fakes: Fakes, milvus: Any, parameters: object) -> None:
    """Pulsar's token can be written as text or as a mapping."""
    path = milvus(f"pulsar: {{address: host, authPlugin: token, authParams: {parameters!r}}}")
    assert given(fakes, "pulsar", path).token == "s3cret"


@pytest.mark.parametrize("kind", ["rocksmq", "pulsar", "kafka"])
def test_a_type_names_the_backend(fakes: Fakes, milvus: Any, kind: str) -> None:
    """``mq.type`` takes precedence over Milvus' order of backends."""
    text = SHIPPED.replace("type: default", f"type: {kind}").replace("brokerList:", "brokerList: x")
    given(fakes, kind, milvus(text))


def test_a_type_that_we_do_not_have(fakes: Fakes, milvus: Any) -> None:
    """A queue of Milvus' own in ``mq.type`` is a ``ConfigError``, unless ``backend=`` chooses another one."""
    path = milvus(SHIPPED.replace("type: default", "type: woodpecker"))
    with pytest.raises(mqplug.ConfigError, match=r"'mq.type' in .*names 'woodpecker', a queue of Milvus' own"):
        mqplug.connect(path)
    assert given(fakes, "pulsar", path, backend="pulsar").tenant == "public"


def test_rocksmq_in_a_cluster_is_an_error(fakes: Fakes, milvus: Any) -> None:
    """RocksMQ in cluster mode is a ``ConfigError``, as in Milvus."""
    with pytest.raises(mqplug.ConfigError, match=r"'mq.type' in .*milvus.yaml names"):
        mqplug.connect(milvus(SHIPPED.replace("type: default", "type: rocksmq")), mode="cluster")


@pytest.mark.parametrize(
    "text",
    [SHIPPED, "mq: {type: kafka}\nkafka: {brokerList: x}", "kafka: {brokers: [x]}", "pulsar: {address: host}"],
)
def test_another_name_is_known_by_its_shape(fakes: Fakes, milvus: Any, text: str) -> None:
    """A file with another name is recognised as a ``milvus.yaml`` by its keys."""
    with mqplug.connect(milvus(text, "config.yaml")) as mq:
        assert mq.backend in {"rocksmq", "pulsar", "kafka"}


def test_keywords_and_variables_win_over_it(fakes: Fakes, milvus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords and mqplug's environment variables take precedence over ``milvus.yaml``."""
    monkeypatch.setenv("MQPLUG_PULSAR_ADMIN_URL", "http://other")
    found = given(fakes, "pulsar", milvus(SHIPPED), mode="cluster", tenant="mine")
    assert (found.admin_url, found.tenant) == ("http://other", "mine")


def test_variables_are_filled_in(fakes: Fakes, milvus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """References to environment variables in ``milvus.yaml`` are resolved."""
    monkeypatch.setenv("BROKERS", "one:1,two:2")
    assert given(fakes, "kafka", milvus("kafka: {brokerList: '${BROKERS}'}")).servers == ["one:1", "two:2"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kafka: {brokerList: '${NO}'}", "'kafka.brokerList' in"),
        ("kafka: {brokerList: x, saslUsername: me, saslPassword: '${NO}'}", "'kafka.saslPassword' in"),
        ("pulsar: {address: '${NO}'}", "'pulsar.address' in"),
        ("pulsar: {address: host, authParams: '${NO}'}", "'pulsar.authParams' in"),
        ("rocksmq: {path: x, retentionSizeInMB: '${NO}'}", "'rocksmq.retentionSizeInMB' in"),
        ("mq: {type: '${NO}'}", "'mq.type' in"),
    ],
)
def test_missing_variables_are_named(fakes: Fakes, milvus: Any, text: str, names: str) -> None:
    """A missing environment variable is a ``ConfigError`` that names the key with the reference."""
    with pytest.raises(mqplug.ConfigError, match=f"{names} .* needs the environment variable 'NO'"):
        mqplug.connect(milvus(text))
