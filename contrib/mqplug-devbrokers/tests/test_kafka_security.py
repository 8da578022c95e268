"""A secured Kafka: listeners accept the right clients and refuse others; rights are granted and revoked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mqplug_devbrokers import BrokerError, KafkaServer, TokenServer

SASL_TLS = {"security.protocol": "sasl_ssl", "sasl.username": "dora", "sasl.password": "dora-pw"}


@pytest.fixture(scope="module")
def server(secured_kafka: KafkaServer) -> Iterator[KafkaServer]:
    """A broker with the topic `t`, on which users have only the rights they were granted."""
    admin = AdminClient({"bootstrap.servers": secured_kafka.bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result(20)
    yield secured_kafka
    admin.delete_topics(["t"])["t"].result(20)


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenServer]:
    """A token endpoint that knows the user dora."""
    with TokenServer({"dora": "dora-pw"}) as tokens:
        yield tokens


def produced(**settings: Any) -> KafkaError | None:
    """Send one message to the topic `t`, and return its error, if any."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({"message.timeout.ms": 15_000, "log_level": 0, **settings})
    producer.produce("t", b"hello", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(30) == 0
    return outcomes[0]


def refused(**settings: Any) -> KafkaError:
    """Return the first error of a client that the listener refuses."""
    errors: list[KafkaError] = []
    admin, end = AdminClient({"error_cb": errors.append, "log_level": 0, **settings}), time.monotonic() + 30
    while not errors:
        assert time.monotonic() < end
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.5)
        admin.poll(0)
    return errors[0]


@pytest.fixture
def allowed(server: KafkaServer) -> Iterator[None]:
    """Allow the user dora to write to topics whose names begin with t."""
    server.secured.allow("dora", "Write", "Describe", topic_prefix="t")
    yield
    server.secured.forbid("dora")


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["sasl", "sasl_tls"])
def test_passwords_are_taken(server: KafkaServer, listener: Any, mechanism: str) -> None:
    """Each mechanism accepts the right password, with and without TLS."""
    address = {"bootstrap.servers": server.secured.address(listener), "ssl.ca.location": str(server.secured.ca_file)}
    protocol = {"security.protocol": "sasl_ssl" if listener == "sasl_tls" else "sasl_plaintext"}
    assert produced(**SASL_TLS | address | protocol, **{"sasl.mechanism": mechanism}) is None


def test_a_wrong_password_is_refused(server: KafkaServer) -> None:
    """A wrong password is an authentication error."""
    wrong = {"bootstrap.servers": server.secured.address("sasl"), "security.protocol": "sasl_plaintext"}
    error = refused(**SASL_TLS | wrong | {"sasl.password": "guessed"}, **{"sasl.mechanism": "SCRAM-SHA-256"})
    assert error.code() == KafkaError._AUTHENTICATION


@pytest.mark.usefixtures("allowed")
def test_a_certificate_names_the_user(server: KafkaServer) -> None:
    """A client is the user named in its certificate, and is refused without a certificate."""
    files = server.secured.issue("dora")
    tls = {
        "bootstrap.servers": server.secured.address("mtls"), "security.protocol": "ssl",
        "ssl.ca.location": str(server.secured.ca_file),
    }  # fmt: skip
    own = {"ssl.certificate.location": str(files.cert_file), "ssl.key.location": str(files.key_file)}
    assert produced(**tls, **own) is None
    assert "bad certificate" in refused(**tls).str() or "certificate required" in refused(**tls).str()


def test_an_expired_certificate_is_refused(server: KafkaServer) -> None:
    """A client with an expired certificate is refused."""
    files = server.secured.issue("dora", lifetime=-1)
    error = refused(**{
        "bootstrap.servers": server.secured.address("mtls"), "security.protocol": "ssl",
        "ssl.ca.location": str(server.secured.ca_file),
        "ssl.certificate.location": str(files.cert_file), "ssl.key.location": str(files.key_file),
    })  # fmt: skip
    assert "certificate" in error.str()


def oidc(server: KafkaServer, tokens: TokenServer, secret: str) -> dict[str, str]:
    """Return the settings of a client that fetches its tokens from the endpoint."""
    return {
        "bootstrap.servers": server.secured.address("sasl"), "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "dora", "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
    }  # fmt: skip


@pytest.mark.usefixtures("allowed")
def test_a_token_names_the_user(server: KafkaServer, tokens: TokenServer) -> None:
    """A client with a token from the endpoint is the user named in it."""
    assert produced(**oidc(server, tokens, "dora-pw")) is None
    assert "dora" in tokens.issued


def test_a_wrong_secret_gets_no_token(server: KafkaServer, tokens: TokenServer) -> None:
    """A client with a wrong secret gets no token, and its error says invalid_client."""
    error = refused(**oidc(server, tokens, "guessed"))
    assert error.code() == KafkaError._AUTHENTICATION
    assert "invalid_client" in error.str()


def test_rights_are_given_and_taken(server: KafkaServer) -> None:
    """A user is refused without a right, accepted with it, and refused again once it is revoked."""
    erin = {
        "bootstrap.servers": server.secured.address("sasl"), "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN", "sasl.username": "erin", "sasl.password": "erin-pw",
    }  # fmt: skip
    first = produced(**erin)
    assert first is not None
    assert first.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    server.secured.allow("erin", "Write", "Describe", topic="t")
    assert produced(**erin) is None
    server.secured.forbid("erin")
    assert produced(**erin) is not None


def test_what_cannot_be_meant_is_refused(server: KafkaServer, kafka_server: KafkaServer) -> None:
    """An unknown operation, or asking an unsecured server for secured listeners, raises an error with a fix."""
    with pytest.raises(BrokerError, match="expected one of All, Read"):
        server.secured.allow("erin", "Reed", topic="t")
    with pytest.raises(BrokerError, match="security=KafkaSecurity"):
        _ = kafka_server.secured
