"""Options that name the backend, before any request to it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import mqplug
from mqplug import ConfigError, ConnectError
from mqplug_spark._options.backend_settings import BackendSettings, parse_backend

NAMES = {name.lower(): name for name in ("subscribe", "startingOffsets", "failOnDataLoss")}


def parsed(**given: str) -> BackendSettings:
    """The backend that these options name; in ``kafka_`` names, an underscore stands for a dot."""
    return parse_backend({dotted(name).lower(): text for name, text in given.items()}, NAMES)


def dotted(name: str) -> str:
    """The name of an option, with the dots of a kafka option."""
    return name.replace("_", ".") if name.startswith("kafka_") else name


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"url": "kafka://host"}, BackendSettings(url="kafka://host")),
        ({"config": "/etc/mqplug.toml"}, BackendSettings(config="/etc/mqplug.toml")),
        ({}, BackendSettings()),
        ({"subscribe": "orders", "provider": "mqplug"}, BackendSettings()),
        ({"backend": "kafka"}, BackendSettings(backend="kafka")),
        (
            {"backend": "rocksmq", "path": "/mq", "sync": "os"},
            BackendSettings(backend="rocksmq", settings=(("path", "/mq"), ("sync", "os"))),
        ),
        (
            {"kafka_bootstrap_servers": "a:1,b:2", "kafka_fetch_max_wait_ms": "5", "kafka_client_id": "me"},
            BackendSettings(
                backend="kafka",
                settings=(("servers", "a:1,b:2"),),
                librdkafka=(("client.id", "me"), ("fetch.wait.max.ms", "5")),
            ),
        ),
        (
            {"url": "kafka://host", "kafka_security_protocol": "SSL", "kafka_client_id": "me"},
            BackendSettings(url="kafka://host", settings=(("tls", "true"),), librdkafka=(("client.id", "me"),)),
        ),
        (
            {
                "kafka_bootstrap_servers": "a:1",
                "kafka_security_protocol": "SASL_SSL",
                "kafka_sasl_mechanism": "SCRAM-SHA-256",
                "kafka_sasl_username": "me",
                "kafka_sasl_password": "hunter2",
                "kafka_ssl_truststore_type": "PEM",
                "kafka_ssl_truststore_certificates": "-----",
                "kafka_isolation_level": "read_committed",
            },
            BackendSettings(
                backend="kafka",
                settings=(
                    ("ca_pem", "-----"),
                    ("mechanism", "SCRAM-SHA-256"),
                    ("password", "hunter2"),
                    ("servers", "a:1"),
                    ("tls", "true"),
                    ("username", "me"),
                ),
            ),
        ),
    ],
)
def test_a_backend_is_named_in_many_ways(given: dict[str, str], made: BackendSettings) -> None:
    """A URL, a file, or options of the backend or of spark-sql-kafka name it; otherwise mqplug finds it."""
    assert parsed(**given) == made


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "kafka://host", "config": "mqplug.toml"}, "'url' and 'config' both name the backend"),
        ({"url": "kafka://host", "backend": "kafka"}, "'url' and 'backend' both name the backend"),
        (
            {"url": "kafka://host", "kafka_bootstrap_servers": "a:1"},
            "'url' and 'kafka.bootstrap.servers' both name the backend",
        ),
        ({"config": "mqplug.toml", "backend": "kafka"}, "'config' and 'backend' are both given.*in the file"),
        ({"startingofsets": "latest"}, "unknown option 'startingofsets'. Did you mean 'startingOffsets'"),
        ({"backend": "rocksmq", "startingofsets": "latest"}, "unknown option 'startingofsets'. Did you mean"),
        ({"url": "kafka://host", "servers": "a:1"}, "unknown option 'servers'"),
        ({"kafka_client_id": "me"}, "no option says that the backend is kafka.*kafka.bootstrap.servers"),
        ({"config": "mqplug.toml", "kafka_client_id": "me"}, "no option says.*Set it in the file"),
        ({"url": "pulsar://host", "kafka_client_id": "me"}, "'kafka.client.id' is a Kafka option.*is pulsar"),
        ({"kafka_group_id": "me"}, "'kafka.group.id' is not supported: reads use no group"),
        ({"kafka_value_deserializer": "x"}, "'kafka.value.deserializer' is not supported: values are always binary"),
        ({"kafka_auto_offset_reset": "latest"}, "'kafka.auto.offset.reset' is not supported: use startingOffsets"),
        ({"kafka_sasl_jaas_config": "x"}, "'kafka.sasl.jaas.config' is not supported: use kafka.sasl.username"),
        ({"kafka_ssl_truststore_location": "x"}, "'kafka.ssl.truststore.location' is not supported.*PEM"),
        ({"kafka_ssl_truststore_type": "JKS"}, "must be PEM"),
        ({"kafka_security_protocol": "TLS"}, "must be one of PLAINTEXT"),
        ({"kafka_security_protocol": "SASL_SSL"}, "is SASL_SSL, but no user name is given"),
        (
            {"kafka_security_protocol": "SSL", "kafka_sasl_username": "me"},
            "which has no login.*Set it to SASL_SSL",
        ),
        ({"kafka_isolation_level": "read_uncommitted"}, "only committed messages are read"),
        ({"kafka_ssl_ca_pem": "x", "kafka_ssl_truststore_certificates": "y"}, "is given under two names"),
    ],
)
def test_what_contradicts_or_means_nothing_is_named(given: dict[str, str], says: str) -> None:
    """An option that is unknown, contradicts another, or has no meaning here raises ConfigError with its name."""
    if any(name.startswith("kafka_") for name in given) and "no option says" not in says:
        given = given if given.keys() & {"url", "config"} else {"kafka_bootstrap_servers": "a:1", **given}
    with pytest.raises(ConfigError, match=says):
        parsed(**given)


def test_settings_can_be_sent_and_show_no_secret() -> None:
    """Settings can be pickled for tasks, and their repr has neither a password nor a URL."""
    made = parsed(
        kafka_bootstrap_servers="a:1",
        kafka_sasl_username="me",
        kafka_sasl_password="hunter2",
        kafka_sasl_oauthbearer_config="hunter3",
    )
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({made, pickle.loads(pickle.dumps(made))}) == 1
    assert "hunter" not in repr(made) + repr(BackendSettings(url="kafka://me:hunter2@host"))


def test_text_is_converted_to_the_types_of_the_settings() -> None:
    """Options are text: numbers and flags of the backend are converted, and the error for a bad one names it."""
    with pytest.raises(ConnectError, match=r"no Kafka broker answered at 127.0.0.1:1"):
        parsed(backend="kafka", servers="127.0.0.1:1", tls="false", session_timeout="20").connect(timeout=1)
    with pytest.raises(ConfigError, match=r"'kafka.tls': expected bool"):
        parsed(backend="kafka", servers="127.0.0.1:1", tls="maybe").connect()
    with pytest.raises(ConfigError, match=r"fetch.nonsense"):
        parsed(kafka_bootstrap_servers="127.0.0.1:1", kafka_fetch_nonsense="5").connect(timeout=1)


def test_a_file_names_the_backend(tmp_path: Path) -> None:
    """A configuration file is read by each process that connects."""
    store = tmp_path / "store"
    mqplug.connect("rocksmq", path=store).close()
    (tmp_path / "mqplug.toml").write_text(f'[rocksmq]\npath = "{store}"\n')
    with parsed(config=str(tmp_path / "mqplug.toml")).connect() as client:
        assert client.backend == "rocksmq"


def test_a_misspelt_path_makes_no_store(tmp_path: Path) -> None:
    """A store that does not exist is an error and is not created."""
    missing = tmp_path / "mispelt"
    with pytest.raises(mqplug.Error, match="mispelt"):
        parsed(url=f"rocksmq://{missing}").connect()
    assert not missing.exists()
