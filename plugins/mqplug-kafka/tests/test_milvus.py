"""An unmodified ``milvus.yaml`` connects to a real Kafka."""

from __future__ import annotations

import pytest
from kafka_driver import new_name

import mqplug

pytest.importorskip("yaml")

LOGIN = """
etcd: {{endpoints: "localhost:2379"}}
mq: {{type: default, enablePursuitMode: true}}
kafka:
  brokerList: {servers}
  saslUsername: bob
  saslPassword: bob-pw
  saslMechanisms: PLAIN
  securityProtocol: SASL_PLAINTEXT
  ssl: {{enabled: false, tlsCert: , tlsCaCert: /path/to/ca.pem}}
  readTimeout: 10
  consumer: {{fetch.min.bytes: 1}}
  producer: {{compression.type: gzip}}
"""
OLD = "kafka: {{brokers: {host}, port: {port}}}\netcd: {{endpoints: [localhost]}}\n"


def there_and_back(client):
    """Send a message, receive it and ack it."""
    topic = new_name()
    client.create_topic(topic)
    with client.producer(topic) as out, client.consumer(topic, group=topic) as reader:
        sent = out.send(b"insert 1", key=b"7")
        message = reader.receive(30)
        assert (message.id, message.key, message.value) == (sent, b"7", b"insert 1")
        reader.ack(message)
    assert client.lag(topic, group=topic) == {0: 0}
    client.delete_topic(topic)


def test_a_file_with_credentials_sends_and_receives(disturbed_kafka, tmp_path):
    """Address, login, protocol and client options are taken from Milvus' own keys."""
    path = tmp_path / "milvus.yaml"
    path.write_text(LOGIN.format(servers=disturbed_kafka.login))
    with mqplug.connect(path, mode="cluster") as client:
        assert client.backend == "kafka"
        there_and_back(client)


def test_both_spellings_of_the_address(kafka_server, tmp_path):
    """A file with ``brokers`` and a separate ``port`` connects, like one with ``brokerList``."""
    host, _, port = kafka_server.bootstrap.partition(":")
    path = tmp_path / "milvus.yaml"
    path.write_text(OLD.format(host=host, port=port))
    with mqplug.connect(path, mode="cluster") as client:
        there_and_back(client)


def test_the_variable_wins_over_the_file(kafka_server, tmp_path, monkeypatch):
    """KAFKA_BROKER_LIST overrides the address in the file, as when Milvus runs in a container."""
    monkeypatch.setenv("KAFKA_BROKER_LIST", kafka_server.bootstrap)
    path = tmp_path / "milvus.yaml"
    path.write_text("kafka: {brokerList: 'localhost:1'}")
    with mqplug.connect(path, mode="cluster") as client:
        there_and_back(client)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("producer: {acks: 1}", r"'kafka.producer.acks' in .*'acks' may not be set"),
        ("consumer: {group: {id: mine}}", r"'kafka.consumer.group.id' in .*'group.id' may not be set"),
        ("consumer: {fech.min.bytes: 1}", r"fech\.min\.bytes"),
        ("saslMechanisms: OAUTHBEARER", r"OAUTHBEARER needs token_endpoint"),
        ("saslMechanisms: PLIAN", r"'kafka.saslMechanisms' in .*not 'PLIAN'.*Did you mean 'PLAIN'"),
    ],
)
def test_what_would_break_a_promise_is_refused_by_name(tmp_path, options, says):
    """A protected, unknown or unusable option raises ConfigError, which names it as the file spells it."""
    path = tmp_path / "milvus.yaml"
    path.write_text(f"kafka:\n  brokerList: 127.0.0.1:1\n  {options}\n")
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect(path, mode="cluster")
