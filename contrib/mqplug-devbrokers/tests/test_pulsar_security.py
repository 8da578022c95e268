"""A secured Pulsar: clients identified by token, password or certificate, and rights granted and revoked."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pulsar
import pytest
from server_talk import PulsarRest

from mqplug_devbrokers import BrokerError, PulsarServer, SecuredPulsar

REFUSED = (pulsar.Timeout, pulsar.AuthenticationError, pulsar.ConnectError)  # the client's errors, which say little


@pytest.fixture(scope="module")
def server(secured_pulsar: PulsarServer) -> Iterator[PulsarServer]:
    """A broker on which roles have only granted rights, with the topics `t`, and `p` with two partitions."""
    rest = PulsarRest(secured_pulsar.admin_url, timeout=30, token=secured_pulsar.secured.admin_token)
    rest.create_topic("t")
    rest.ask("PUT", "persistent/public/default/p/partitions", 2)
    yield secured_pulsar
    rest.delete_topic("t")
    rest.ask("DELETE", "persistent/public/default/p/partitions?force=true")


@pytest.fixture(scope="module")
def secured(server: PulsarServer) -> SecuredPulsar:
    """The server's addresses, credentials and rights. The role alice may send to all topics."""
    server.secured.allow("alice", "produce", namespace="public/default")
    return server.secured


def produce(url: str, authentication: Any, topic: str = "t", **settings: Any) -> None:
    """Send one message, or raise the error of pulsar-client."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(
        url, authentication=authentication, operation_timeout_seconds=settings.pop("timeout", 20), logger=logger,
        **settings,
    )  # fmt: skip
    try:
        client.create_producer(topic).send(b"hello")
    finally:
        client.close()


def consume(url: str, authentication: Any, topic: str = "t") -> None:
    """Subscribe, or raise the error of pulsar-client."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, authentication=authentication, operation_timeout_seconds=20, logger=logger)
    try:
        client.subscribe(topic, "s")
    finally:
        client.close()


def test_a_token_names_the_role(secured: SecuredPulsar) -> None:
    """A client with a token for alice has alice's rights, on the plain address and over TLS."""
    alice = pulsar.AuthenticationToken(secured.token("alice", lifetime=60))
    produce(secured.address("plain"), alice)
    tls = {"tls_trust_certs_file_path": str(secured.ca_file), "tls_validate_hostname": True}
    produce(secured.address("tls"), alice, **tls)


def test_a_certificate_names_the_role(secured: SecuredPulsar) -> None:
    """A client with a certificate for alice has alice's rights and needs no token."""
    files = secured.issue("alice")
    own = pulsar.AuthenticationTLS(str(files.cert_file), str(files.key_file))
    produce(secured.address("tls"), own, tls_trust_certs_file_path=str(secured.ca_file))


def test_a_password_names_the_role(secured: SecuredPulsar) -> None:
    """A client with alice's password has alice's rights, and a wrong password is refused."""
    produce(secured.address("plain"), pulsar.AuthenticationBasic("alice", "alice-pw"))
    with pytest.raises(REFUSED):
        produce(secured.address("plain"), pulsar.AuthenticationBasic("alice", "guessed"), timeout=2)


@pytest.mark.parametrize("wrong", ["none", "expired", "garbage", "of another server"])
def test_a_client_that_is_not_known_is_refused(secured: SecuredPulsar, wrong: str) -> None:
    """The broker and its administration refuse a client without a valid token."""
    tokens = {
        "expired": secured.token("alice", lifetime=-10),
        "garbage": "garbage",
        "of another server": secured.token("alice").rpartition(".")[0] + "." + "A" * 43,
    }
    authentication = pulsar.AuthenticationToken(tokens[wrong]) if wrong in tokens else None
    with pytest.raises(REFUSED):
        produce(secured.address("plain"), authentication, timeout=2)
    with pytest.raises(BrokerError, match="401"):
        PulsarRest(secured.address("admin"), 20, tokens.get(wrong)).ask("GET", "tenants")


def test_the_administration_has_tls(secured: SecuredPulsar) -> None:
    """The administration answers over HTTPS with a certificate of its own authority, and an unknown client with 401."""
    context = ssl.create_default_context(cafile=secured.ca_file)
    with pytest.raises(HTTPError) as refusal:
        urlopen(f"{secured.address('admin_tls')}/admin/v2/tenants", timeout=20, context=context)
    with refusal.value as answer:
        assert answer.code == 401


@pytest.mark.parametrize("topic", ["t", "p"])
def test_rights_are_given_and_taken(secured: SecuredPulsar, topic: str) -> None:
    """Each action on a topic needs its right; a new right adds to others, and `forbid` removes all of a role."""
    erin, plain = pulsar.AuthenticationToken(secured.token("erin")), secured.address("plain")
    with pytest.raises(pulsar.AuthorizationError):
        produce(plain, erin, topic)
    secured.allow("erin", "produce", topic=topic)
    produce(plain, erin, topic)
    with pytest.raises(pulsar.AuthorizationError):
        consume(plain, erin, topic)
    secured.allow("erin", "consume", topic=topic)
    produce(plain, erin, topic)
    consume(plain, erin, topic)
    secured.forbid("erin")
    with pytest.raises(pulsar.AuthorizationError):
        produce(plain, erin, topic)


class LateRights:
    """The administration of a broker that shows a change of rights only after it was asked a few times."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self._shown: list[str] = []
        self._looks = 0

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        if method != "GET":
            self.stored, self._looks = body or [], 0
            return None
        self._looks += 1
        if self._looks > 3:
            self._shown = self.stored
        return {"dave": self._shown}


def test_rights_are_in_force_when_the_call_returns(secured: SecuredPulsar, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of rights waits until the broker reports it."""
    late = LateRights()
    monkeypatch.setattr(secured, "_rest", lambda: late)
    secured.allow("dave", "produce", namespace="public/default")
    assert late.ask("GET", "namespaces/public/default/permissions") == {"dave": ["produce"]}
    secured._take_away("namespaces/public/default", "dave")
    assert late.ask("GET", "namespaces/public/default/permissions") == {"dave": []}


def test_a_tenant_gets_an_administrator(secured: SecuredPulsar) -> None:
    """The administrator of a tenant may create topics until the right is removed."""
    frank = PulsarRest(secured.address("admin"), 20, secured.token("frank"))
    with pytest.raises(BrokerError, match=r"40[13]"):
        frank.create_topic("of-frank")
    secured.allow("frank", "admin", tenant="public")
    frank.create_topic("of-frank")
    secured.forbid("frank")
    with pytest.raises(BrokerError, match=r"40[13]"):
        frank.delete_topic("of-frank")


def test_the_url_of_the_server_is_the_administrators(server: PulsarServer) -> None:
    """The server's URLs, direct and relayed, contain the administrator's token; its repr does not."""
    for url in (server.url, server.relayed_url):
        assert url.startswith(f"pulsar://:{server.secured.admin_token}@127.0.0.1:")
    assert server.secured.admin_token in server.toml
    assert server.secured.admin_token not in repr(server)


@pytest.mark.night
def test_it_is_secured_after_a_kill_too(server: PulsarServer, secured: SecuredPulsar) -> None:
    """Tokens, rights and addresses survive a kill of the server."""
    alice, before = pulsar.AuthenticationToken(secured.token("alice")), secured.address("tls")
    server.kill()
    server.start()
    assert secured.address("tls") == before
    produce(before, alice, tls_trust_certs_file_path=str(secured.ca_file), timeout=30)


def test_what_cannot_be_meant_is_refused(secured: SecuredPulsar) -> None:
    """An unknown action, a wrong right on a tenant, or asking an unsecured server for security raises an error."""
    with pytest.raises(BrokerError, match="expected one of produce, consume"):
        secured.allow("erin", "prodcue", topic="t")
    with pytest.raises(BrokerError, match='allow\\(role, "admin", tenant='):
        secured.allow("erin", "produce", tenant="public")
    with pytest.raises(BrokerError, match="security=PulsarSecurity"):
        _ = PulsarServer().secured
