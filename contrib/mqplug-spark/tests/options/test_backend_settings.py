"""Options that name the backend, before any request to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from reads import numbers_of, reader_of

import mqplug
from mqplug import ConfigError, ConnectError


def plan(**given: str) -> None:
    """Plan a read of the topic ``orders``, which connects. In ``kafka_`` names, an underscore stands for a dot."""
    reader_of({"subscribe": "orders"} | {dotted(name): text for name, text in given.items()}).partitions()


def dotted(name: str) -> str:
    """Return the name of an option, with the dots of a kafka option."""
    return name.replace("_", ".") if name.startswith("kafka_") else name


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The targets that tests connect to, and their options of librdkafka. No broker is contacted."""
    found: list[tuple[Any, Any]] = []

    def connect(target: Any, *, librdkafka: Any = None, must_exist: bool, **_: Any) -> mqplug.Client:
        assert must_exist
        found.append((target, librdkafka))
        raise ConnectError("nobody is there")

    monkeypatch.setattr(mqplug, "connect", connect)
    return found


@pytest.mark.parametrize(
    ("given", "target", "librdkafka"),
    [
        ({"url": "kafka://host"}, "kafka://host", None),
        ({"config": "/etc/mqplug.toml"}, Path("/etc/mqplug.toml"), None),
        ({}, None, None),
        ({"provider": "mqplug"}, None, None),
        ({"backend": "kafka"}, "kafka", None),
        ({"backend": "rocksmq", "path": "/mq", "sync": "os"}, "rocksmq://?path=%2Fmq&sync=os", None),
        (
            {"kafka_bootstrap_servers": "a:1,b:2", "kafka_fetch_max_wait_ms": "5", "kafka_client_id": "me"},
            "kafka://?servers=a%3A1%2Cb%3A2",
            {"client.id": "me", "fetch.wait.max.ms": "5"},
        ),
        (
            {"url": "kafka://host", "kafka_security_protocol": "SSL", "kafka_client_id": "me"},
            "kafka://host?tls=true",
            {"client.id": "me"},
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
            "kafka://?ca_pem=-----&mechanism=SCRAM-SHA-256&password=hunter2&servers=a%3A1&tls=true&username=me",
            None,
        ),
    ],
)
def test_a_backend_is_named_in_many_ways(
    connected: list[tuple[Any, Any]], given: dict[str, str], target: object, librdkafka: dict[str, str] | None
) -> None:
    """A URL, a file, or options of the backend or of spark-sql-kafka name it; otherwise mqplug finds it."""
    with pytest.raises(ConnectError):
        plan(**given)
    assert connected[-1] == (target, librdkafka)


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
        plan(**given)


def test_settings_can_be_sent_and_show_no_secret(connected: list[tuple[Any, Any]]) -> None:
    """A reader can be pickled for tasks and connects with the same settings there; its repr shows no secret."""
    given = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.sasl.username": "me",
        "kafka.sasl.password": "hunter2",
        "kafka.sasl.oauthbearer.config": "hunter3",
    }
    reader = reader_of({"subscribe": "orders", **given})
    sent = CloudPickleSerializer().loads(CloudPickleSerializer().dumps(reader))
    for each in (reader, sent):
        with pytest.raises(ConnectError):
            each.partitions()
    assert connected[-1] == connected[0]
    assert "password=hunter2" in connected[0][0]
    shown = [reader, reader_of({"url": "kafka://me:hunter2@host", "subscribe": "orders"})]
    assert "hunter" not in "".join(f"{each!r} {vars(each)}" for each in shown)


def test_text_is_converted_to_the_types_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are text: numbers and flags of the backend are converted, and the error for a bad one names it."""
    plain = {"backend": "kafka", "servers": "127.0.0.1:1"}
    connect = mqplug.connect
    monkeypatch.setattr(mqplug, "connect", lambda *given, **options: connect(*given, **{**options, "timeout": 1}))
    with pytest.raises(ConnectError, match=r"no Kafka broker answered at 127.0.0.1:1"):
        plan(**plain, tls="false", session_timeout="20")
    with pytest.raises(ConfigError, match=r"'kafka.session_timeout': expected"):
        plan(**plain, session_timeout="soon")
    with pytest.raises(ConfigError, match=r"'kafka.tls': expected bool"):
        plan(**plain, session_timeout="20", tls="maybe")
    with pytest.raises(ConfigError, match=r"fetch.nonsense"):
        plan(kafka_bootstrap_servers="127.0.0.1:1", kafka_fetch_nonsense="5")


def test_a_file_names_the_backend(tmp_path: Path) -> None:
    """A configuration file is read by each process that connects."""
    store = tmp_path / "store"
    with mqplug.connect("rocksmq", path=store) as client, client.producer("orders", create=True) as out:
        out.send(b"7", partition=0)
    (tmp_path / "mqplug.toml").write_text(f'[rocksmq]\npath = "{store}"\n')
    assert numbers_of({"subscribe": "orders", "config": str(tmp_path / "mqplug.toml")}) == [(0, 7)]


def test_a_misspelt_path_makes_no_store(tmp_path: Path) -> None:
    """A store that does not exist is an error and is not created."""
    missing = tmp_path / "mispelt"
    with pytest.raises(mqplug.Error, match="mispelt"):
        plan(url=f"rocksmq://{missing}")
    assert not missing.exists()
