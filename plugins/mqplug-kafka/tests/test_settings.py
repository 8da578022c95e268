"""Settings: checks before any I/O, hidden secrets, and librdkafka's options."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mqplug
from mqplug.spi import Address, Url
from mqplug_kafka import KafkaSettings
from mqplug_kafka._cluster.client_options import administering, common, transacting
from mqplug_kafka._settings import PROTECTED, from_url

CONSUMER = {"servers": ["h:1"], "group_protocol": "consumer"}


@pytest.mark.parametrize("key", sorted(PROTECTED))
def test_protected_native_options_are_refused(key):
    """A librdkafka option that would break a guarantee is refused, and the error says what to do instead."""
    with pytest.raises(mqplug.ConfigError, match="may not be set") as caught:
        mqplug.connect("kafka", servers=["h:1"], librdkafka={key: "1"})
    assert PROTECTED[key] in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"servers": []}, "at least one broker"),
        ({"servers": "h:9092"}, "expected a list, not a string"),
        ({"servers": ["h:1"], "username": "u"}, "password"),
        ({"servers": ["h:1"], "password": "p"}, "username"),
        ({"servers": ["h:1"], "tls": True, "cert_file": "c"}, "key_file"),
        ({"servers": ["h:1"], "ca_file": "c"}, "TLS is off"),
        ({"servers": ["h:1"], "session_timeout": 0}, "session_timeout"),
        ({"servers": ["h:1"], "mechanism": "SCRAM-SHA-255"}, "not 'SCRAM-SHA-255'.*Did you mean 'SCRAM-SHA-"),
        ({"servers": ["h:1"], "mechanism": "OAUTHBEARER"}, "needs token_endpoint, client_id and client_secret"),
        ({"servers": ["h:1"], "token_endpoint": "http://h/t", "client_id": "me"}, "lack client_secret"),
        ({"servers": ["h:1"], "scope": "s"}, "lack token_endpoint, client_id, client_secret"),
        ({"servers": ["h:1"], "token_endpoint": "h/t", "client_id": "me", "client_secret": "s"}, "must be a URL"),
        ({"servers": ["h:1"], "token_provider": "p", "client_id": "me"}, "combined with token_endpoint"),
        ({"servers": ["h:1"], "token_options": {"a": "b"}}, "without token_provider"),
        ({"servers": ["h:1"], "token_provider": "p", "username": "u", "password": "p"}, "takes no username"),
        ({"servers": ["h:1"], "tls": True, "ca_file": "c", "ca_pem": "-----BEGIN C"}, "twice, as ca_file and ca_pem"),
        ({"servers": ["h:1"], "tls": True, "cert_pem": "-----BEGIN C"}, "key_file .or key_pem. is missing"),
        ({"servers": ["h:1"], "tls": True, "key_file": "k"}, "cert_file .or cert_pem. is missing"),
        ({"servers": ["h:1"], "tls": True, "ca_pem": "ca.pem"}, "must be PEM text.*Use ca_file"),
        ({"servers": ["h:1"], "ca_pem": "-----BEGIN C"}, "TLS is off"),
        ({"servers": ["h:1"], "mechanism": "OAUTHBEARER", "username": "u", "password": "p"}, "takes no username"),
        ({"servers": ["h:1"], "assignor": "sticky"}, "assignor.*cooperative-sticky"),
        ({"servers": ["h:1"], "assignor": "uniform"}, "have no assignor 'uniform'.*cooperative-sticky"),
        ({**CONSUMER, "assignor": "cooperative-sticky"}, "consumer protocol have no assignor .*uniform, range"),
        ({**CONSUMER, "session_timeout": 10}, "takes no session_timeout.*group.consumer.session.timeout.ms"),
        ({**CONSUMER, "instance_id": "pod"}, "takes no instance_id.*group_protocol='classic'"),
        ({"servers": ["h:1"], "group_protocol": "new"}, "group_protocol.*classic"),
        ({"servers": ["h:1"], "instance_id": "pod 1"}, "instance_id='pod 1'.*letters, digits"),
        ({"servers": ["h:1"], "instance_id": ""}, "instance_id=''"),
        ({"servers": ["h:1"], "server": "x"}, "servers"),
        ({"servers": ["h:1"], "tls": "yes"}, "bool"),
        ({"servers": ["h:1", "h:75628"]}, r"servers\[1\].*a port must be a whole number from 1 to 65535"),
        ({"servers": ["::1"]}, "brackets"),
        ({"servers": ["h:1,h:2"]}, "must look like host:9092"),
        ({}, "servers"),
    ],
)
def test_what_cannot_be_meant_is_a_config_error(settings, says):
    """Wrong, missing or contradictory settings raise ConfigError, which names them."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect("kafka", **settings)


def test_an_unknown_native_option_is_a_config_error():
    """An option unknown to librdkafka raises ConfigError, which names it."""
    with pytest.raises(mqplug.ConfigError, match=r"no\.such\.option"):
        mqplug.connect("kafka", servers=["127.0.0.1:1"], librdkafka={"no.such.option": "1"})


def test_secrets_are_not_shown():
    """The repr of settings shows no password, key or secret, and no value of librdkafka's options."""
    settings = KafkaSettings(
        servers=["h:1"], username="u", password="s3cret", librdkafka={"sasl.oauthbearer.config": "s3cret"}
    )
    assert "s3cret" not in repr(settings)
    pem = "-----BEGIN s3cret"
    settings = KafkaSettings(
        servers=["h:1"], tls=True, cert_pem="-----BEGIN C", key_pem=pem, key_password="s3cret",
        token_endpoint="http://h/t", client_id="me", client_secret="s3cret",
    )  # fmt: skip
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in repr(KafkaSettings(servers=["h:1"], token_provider="p", token_options={"secret": "s3cret"}))


@pytest.mark.parametrize(
    ("hosts", "servers"),
    [("h1,h2:9093", ["h1:9092", "h2:9093"]), ("[::1]:9094,[fe80::1]", ["[::1]:9094", "[fe80::1]:9092"])],
)
def test_a_url_gives_the_servers(hosts, servers):
    """A URL gives the login and each host with its port, 9092 by default; IPv6 addresses keep their brackets."""
    url = Url("kafka", tuple(map(Address.parse, hosts.split(","))), "/", "me", "p@w")
    assert from_url(url) == {"servers": servers, "username": "me", "password": "p@w"}
    assert KafkaSettings(**from_url(url)).servers == servers


@pytest.mark.parametrize("url", ["kafka://h/topic", "kafka://:s3cret@h", "kafka://me@h", "kafka://me:s3/cret@h:9092"])
def test_a_url_that_makes_no_sense_is_a_config_error(url):
    """A URL with a path, half of the credentials or an unescaped password raises ConfigError without the password."""
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect(url)
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize("path", ["/orders", "/orders/", "/a/b", "/a%2Fb", "//orders"])
@pytest.mark.parametrize("way", ["call", "environment", "file"])
def test_a_path_in_the_url_is_refused_wherever_the_url_stands(path, way, tmp_path, monkeypatch):
    """A topic in the URL is refused, and the error says where to name the topic instead."""
    url = f"kafka://127.0.0.1:1{path}"
    monkeypatch.chdir(tmp_path)
    if way == "environment":
        monkeypatch.setenv("MQPLUG_URL", url)
    elif way == "file":
        (tmp_path / "mqplug.toml").write_text(f'url = "{url}"')
    with pytest.raises(mqplug.ConfigError, match=r"has no path.*name the topic when you open"):
        mqplug.connect(*([url] if way == "call" else []))


def test_a_path_in_the_url_is_refused_on_the_command_line():
    """A command ends with an error if its URL has a path."""
    command = [sys.executable, "-m", "mqplug_cli", "topics", "kafka://127.0.0.1:1/orders"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "has no path" in ended.stderr


@pytest.mark.parametrize("server", ["h:9092/orders", "h/orders", "kafka://h:9092"])
def test_a_server_with_a_path_is_refused(server, monkeypatch):
    """An entry of ``servers`` with a path or scheme is refused, also in the environment."""
    with pytest.raises(mqplug.ConfigError, match="must look like host:9092"):
        mqplug.connect("kafka", servers=[server])
    monkeypatch.setenv("MQPLUG_KAFKA_SERVERS", server)
    with pytest.raises(mqplug.ConfigError):
        mqplug.connect("kafka")


def test_security_becomes_the_protocol():
    """Password and TLS settings choose librdkafka's security.protocol."""
    assert common(KafkaSettings(servers=["h:1"]))["security.protocol"] == "plaintext"
    settings = KafkaSettings(servers=["h:1"], username="u", password="p", tls=True, ca_file="ca.pem")
    assert common(settings)["security.protocol"] == "sasl_ssl"
    assert common(settings)["ssl.ca.location"] == "ca.pem"


def test_oauthbearer_has_settings_of_its_own():
    """OAUTHBEARER with librdkafka's own options sets the protocol and the mechanism, and no username."""
    native = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.token.endpoint.url": "https://localhost/token",
    }
    options = common(KafkaSettings(servers=["h:1"], mechanism="OAUTHBEARER", tls=True, librdkafka=native))
    assert (options["security.protocol"], options["sasl.mechanism"]) == ("sasl_ssl", "OAUTHBEARER")
    assert "sasl.username" not in options


def test_importing_the_plugin_imports_no_client():
    """Importing and describing the plugin does not import confluent-kafka."""
    code = "import sys, mqplug_kafka; mqplug_kafka.mqplug_describe(); assert 'confluent_kafka' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_native_timeouts_stay_within_a_transaction():
    """In a transaction, librdkafka's timeouts are capped at the transaction's; batches and requests have defaults."""
    native = {"message.timeout.ms": "0", "socket.timeout.ms": "90000"}
    options = transacting(KafkaSettings(servers=["broker:9092"], transaction_timeout=5, librdkafka=native), "biller")
    assert (options["message.timeout.ms"], options["socket.timeout.ms"]) == (5000, 5000)
    assert (options["transactional.id"], options["transaction.timeout.ms"]) == ("biller", 5000)
    assert (options["batch.size"], options["max.in.flight"]) == (131_072, 2)
    chosen = {"batch.size": "50000", "connections.max.idle.ms": "20000", "max.in.flight": "5"}
    assert chosen.items() <= transacting(KafkaSettings(servers=["broker:9092"], librdkafka=chosen), "biller").items()


@pytest.mark.parametrize("seconds", [0.5, 0, 1e9])
def test_a_transaction_timeout_out_of_range_is_refused(seconds):
    """A transaction_timeout that Kafka does not accept raises ConfigError before connecting."""
    with pytest.raises(mqplug.ConfigError, match="transaction_timeout"):
        KafkaSettings(servers=["broker:9092"], transaction_timeout=seconds)


def test_admin_clients_keep_the_pauses_between_connects():
    """Sparse connections are off: with them, librdkafka connects to a dead node thousands of times a second."""
    assert administering(KafkaSettings(servers=["localhost"]))["enable.sparse.connections"] is False
