"""Connecting proves that a broker answers, or reports why none does."""

from __future__ import annotations

import socket
import threading
import time

import confluent_kafka
import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError
from kafka_driver import free_ports

import mqplug
from mqplug_kafka._cluster import admin_requests, connection
from mqplug_kafka._cluster.admin_requests import OUTAGE_LIMIT_S, ConnectionFailures
from mqplug_testing import Proxy

pytestmark = pytest.mark.python


def refused(timeout=10.0, **settings):
    """Return the error that connecting raises within its timeout."""
    began = time.monotonic()
    with pytest.raises(mqplug.Error) as caught:
        mqplug.connect("kafka", timeout=timeout, **settings)
    assert time.monotonic() - began < timeout + 15
    return caught.value


@pytest.fixture
def listener():
    """A socket that listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_an_unreachable_address_is_a_connect_error():
    """If no address accepts connections, the error names each address and the reason, well before the timeout."""
    servers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    began = time.monotonic()
    error = refused(timeout=30.0, servers=servers)
    assert time.monotonic() - began < 20
    assert isinstance(error, mqplug.ConnectError)
    assert "refused" in str(error)
    assert all(server in str(error) for server in servers)
    assert error.retryable


def test_a_host_that_nobody_knows_is_a_connect_error():
    """A host name that cannot be resolved is named in the error, well before the timeout."""
    began = time.monotonic()
    error = refused(timeout=30.0, servers=["no-such-host.invalid:9092"])
    assert time.monotonic() - began < 20
    assert isinstance(error, mqplug.ConnectError)
    assert "resolve 'no-such-host.invalid:9092'" in str(error)


def test_tls_where_the_broker_has_none_is_a_connect_error(kafka_server):
    """TLS to a plain port fails with the address, the cause and the fix, well before the timeout."""
    began = time.monotonic()
    error = refused(timeout=30.0, servers=[kafka_server.bootstrap], tls=True)
    assert time.monotonic() - began < 20
    assert isinstance(error, mqplug.ConnectError)
    assert kafka_server.bootstrap in str(error)
    assert "SSL" in str(error)
    assert "tls=False" in str(error)


def test_an_outage_is_told_after_a_second(monkeypatch):
    """A connect gives up once every server has failed again after a second, not while one of them is silent."""
    now, failures = [100.0], ConnectionFailures()
    monkeypatch.setattr(admin_requests.time, "monotonic", lambda: now[0])

    def hopeless():
        return failures.hopeless(100.0, OUTAGE_LIMIT_S, 2)

    def fail(server):
        failures(KafkaError(KafkaError._TRANSPORT, f"127.0.0.1:{server}/bootstrap: refused"))

    fail(1)
    fail(2)
    failures(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    now[0] += 0.5
    fail(1)
    fail(2)
    assert not hopeless()
    now[0] += 0.5
    fail(1)
    assert not hopeless()
    fail(2)
    assert hopeless()


def test_servers_that_close_each_connection_are_told_when_all_are_down_again(monkeypatch):
    """If librdkafka gives no reason, a connect gives up when it reports for the second time that all are down."""
    now, failures = [100.0], ConnectionFailures()
    monkeypatch.setattr(admin_requests.time, "monotonic", lambda: now[0])
    failures(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    now[0] += 2
    assert not failures.hopeless(100.0, OUTAGE_LIMIT_S, 1)
    failures(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert failures.hopeless(100.0, OUTAGE_LIMIT_S, 1)


def test_a_connection_closed_during_a_request_has_the_same_error():
    """A connection closed while the client writes its request is explained like one closed later: try TLS or SASL."""
    failures = ConnectionFailures()
    failures(
        KafkaError(KafkaError._TRANSPORT, "127.0.0.1:1/bootstrap: Send failed: Broken pipe (after 2ms in state UP)")
    )
    error = failures.explain("connect", 0.0)
    assert "without giving a reason" in error.message
    assert "tls=True" in error.fix
    assert "username" in error.fix


def test_a_refusal_is_told_rather_than_what_follows_from_it():
    """If a refusal and the close of the next connection are read at once, the error reports the refusal."""
    failures = ConnectionFailures()
    failures(KafkaError(KafkaError._SSL, "127.0.0.1:1/bootstrap: connecting to a PLAINTEXT broker listener?"))
    failures(KafkaError(KafkaError._TRANSPORT, "127.0.0.1:1/bootstrap: SSL connection closed by peer"))
    assert failures.hopeless(0.0, OUTAGE_LIMIT_S, 1)
    assert "PLAINTEXT" in str(failures.explain("connect", 0.0))


def test_a_renewal_out_of_turn_is_no_refusal(mq):
    """A refused second login within a second fails no request of a connection that has had an answer."""
    error = KafkaError(
        KafkaError._AUTHENTICATION,
        "127.0.0.1:1/1: SASL OAUTHBEARER mechanism handshake failed: Broker: Request not valid in current SASL state",
    )
    failures = ConnectionFailures()
    failures(error)
    assert failures.hopeless(0.0, OUTAGE_LIMIT_S, 1)  # a broker without SASL says the same
    mq.topics()
    mq._connection.requests.failures(error)
    assert not mq._connection.requests.failures.hopeless(0.0, OUTAGE_LIMIT_S, 1)


def test_one_live_broker_is_enough(kafka_server):
    """A connect succeeds if one of several addresses is live."""
    dead = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with mqplug.connect("kafka", servers=[*dead, kafka_server.bootstrap]) as mq:
        mq.health()


def connects_to_one_that_comes_up(kafka_server, monkeypatch, delay):
    """Connect to a port that begins to listen after the first refusal and delays what it relays, in seconds."""
    (port,) = free_ports(1)
    reported, proxies = threading.Event(), []
    report = ConnectionFailures.__call__

    def note(failures, error):
        report(failures, error)
        reported.set()

    def begin_to_listen():
        assert reported.wait(20)
        proxies.append(Proxy(kafka_server.port, ports=[port]))
        proxies[0].delay(delay)

    monkeypatch.setattr(ConnectionFailures, "__call__", note)
    thread = threading.Thread(target=begin_to_listen)
    thread.start()
    try:
        mqplug.connect("kafka", servers=[f"127.0.0.1:{port}"], timeout=30).close()
    finally:
        thread.join()
        for proxy in proxies:
            proxy.close()


def test_a_broker_that_comes_up_meanwhile_is_found(kafka_server, monkeypatch):
    """A connect finds a broker that begins to listen within the outage limit."""
    monkeypatch.setattr(connection, "OUTAGE_LIMIT_S", 30.0)
    connects_to_one_that_comes_up(kafka_server, monkeypatch, 0.0)


def test_a_broker_that_is_slow_after_a_refusal_is_waited_for(kafka_server, monkeypatch):
    """A server that refuses at first, and then takes two seconds to answer, does not count as down."""
    connects_to_one_that_comes_up(kafka_server, monkeypatch, 1.0)


def test_a_silent_peer_is_bounded_by_the_timeout(listener):
    """Connecting to a peer that accepts and never answers ends at the timeout."""
    error = refused(timeout=2.0, servers=[f"127.0.0.1:{listener.getsockname()[1]}"])
    assert isinstance(error, mqplug.ConnectError | mqplug.Timeout)


def test_a_foreign_protocol_is_a_connect_error(listener):
    """Connecting to a web server raises ConnectError."""

    def answer():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    error = refused(timeout=5.0, servers=[f"127.0.0.1:{listener.getsockname()[1]}"])
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert isinstance(error, mqplug.ConnectError)


def test_a_wrong_password_is_an_auth_error(disturbed_kafka, capfd):
    """A wrong password raises AuthError at once with the broker's reason; neither it nor stderr shows the password."""
    began = time.monotonic()
    error = refused(timeout=30.0, servers=[disturbed_kafka.login], username="bob", password="s3cret")
    assert isinstance(error, mqplug.AuthError)
    assert "Authentication failed" in str(error)
    assert "s3cret" not in str(error)
    assert time.monotonic() - began < 25  # less than the timeout of 30 seconds
    assert capfd.readouterr().err == ""


def test_an_unknown_mechanism_is_an_auth_error(disturbed_kafka):
    """A mechanism that the broker does not support raises AuthError."""
    error = refused(servers=[disturbed_kafka.login], username="bob", password="bob-pw", mechanism="SCRAM-SHA-256")
    assert isinstance(error, mqplug.AuthError)


@pytest.mark.disturbs
def test_the_right_password_works(disturbed_kafka, topic):
    """A client with credentials in its URL sends and receives."""
    with mqplug.connect(f"kafka://bob:bob-pw@{disturbed_kafka.login}") as mq:
        with mq.producer(topic) as out:
            sent = out.send(b"hello")
        assert [message.id for message in mq.read(topic)] == [sent]


def test_health_and_native_clients(mq, topic):
    """A live broker is healthy, and ``unwrap`` returns confluent-kafka's clients."""
    mq.health()
    assert mq.unwrap(confluent_kafka.Producer) is None
    assert isinstance(mq.unwrap(confluent_kafka.admin.AdminClient), confluent_kafka.admin.AdminClient)
    with mq.producer(topic):
        assert isinstance(mq.unwrap(confluent_kafka.Producer), confluent_kafka.Producer)
    assert mq.unwrap(dict) is None
