"""The handshake before pulsar-client connects: each obstacle is reported soon, with its cause."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest
from scripted_peer import command, fields, hang_up, peer, says, silent

import mqplug

SOON_S = 30.0  # an answer takes 0.1 s; pulsar-client, without a handshake, waits for the timeout
LONG_S = 60.0
CONNECTED = command(3, (1, "scripted"), (3, 70_000))


@contextmanager
def refused_soon(error, match):
    """Expect a connect to fail with this error long before its timeout."""
    began = time.monotonic()
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize(
    ("scheme", "port", "text"),
    [
        ("pulsar+ssl", "port", r"does not speak TLS.*Use pulsar:// if"),
        ("pulsar+ssl", "admin", r"does not speak TLS.*Use pulsar:// if"),
        ("pulsar", "admin", r"speaks HTTP.*admin_url="),
    ],
)
def test_a_wrong_port_of_a_broker_is_named(pulsar_server, scheme, port, text):
    """TLS to a port without it, or Pulsar's protocol to the HTTP port, is an error that says what to write instead."""
    number = pulsar_server.port if port == "port" else int(pulsar_server.admin_url.rpartition(":")[2])
    with refused_soon(mqplug.ConnectError, text):
        mqplug.connect(f"{scheme}://127.0.0.1:{number}", timeout=LONG_S)


def test_a_missing_namespace_is_named(pulsar_server):
    """An unknown namespace is a ``ConfigError`` of ``connect``, even without an admin interface."""
    for settings in ({"namespace": "missing"}, {"tenant": "missing"}):
        named = "missing/default" if "tenant" in settings else "public/missing"
        with refused_soon(mqplug.ConfigError, f"the namespace {named} does not exist.*namespaces create {named}"):
            mqplug.connect("pulsar", service_url=pulsar_server.service_url, timeout=LONG_S, **settings)


def test_one_broker_of_several_is_enough(pulsar_server, caplog):
    """One working broker among a URL's addresses is enough; unusable addresses are left out with a warning."""
    with peer(silent) as quiet, peer(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as web, peer(hang_up) as closing:
        hosts = ",".join(f"127.0.0.1:{port}" for port in (1, quiet, web, closing, pulsar_server.port))
        began = time.monotonic()
        client = mqplug.connect(f"pulsar://{hosts}", timeout=LONG_S)
        try:
            client.health()
        finally:
            client.close()
        assert time.monotonic() - began < LONG_S / 2
    (record,) = (each for each in caplog.records if each.name == "mqplug.pulsar")
    left = f"pulsar://127.0.0.1:1,127.0.0.1:{pulsar_server.port}"
    assert record.getMessage().endswith(f"using only {left}")


@pytest.mark.parametrize(
    "serve",
    [silent, says(b"\0\0"), says(b"\0\0\0\x50\0\0\0\x4c\x08"), says(CONNECTED), says(CONNECTED, CONNECTED[:9])],
    ids=["silent", "half a size", "half a command", "silent after the greeting", "half an answer after it"],
)
def test_a_peer_that_stops_answering_costs_the_timeout_at_most(serve):
    """A peer that stops answering at any point makes ``connect`` fail near its timeout, with the peer's address."""
    began = time.monotonic()
    with peer(serve) as port, pytest.raises(mqplug.ConnectError, match=rf"127\.0\.0\.1:{port}.* in time"):
        mqplug.connect(f"pulsar://127.0.0.1:{port}", timeout=1)
    assert time.monotonic() - began < 10  # pulsar-client would give up only then


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"\x15\x03\x03\0\x02\x02\x46", r"expects TLS.*pulsar\+ssl://"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak Pulsar's protocol"),
        (b"\0\0\0\x05\xff\xff\xff\xff\xff", "does not speak Pulsar's protocol"),
        (b"\0\0\0\x06\0\0\0\x02\xff\xff", "does not speak Pulsar's protocol"),
        (command(24, (1, "x")), "does not speak Pulsar's protocol"),
        (command(14, (2, 6), (3, "I am full")), "refused the connection: I am full"),
    ],
    ids=["alert", "ssh", "size", "command", "other command", "not ready"],
)
def test_a_strange_answer_is_named(answer, text):
    """An answer that is not Pulsar's greeting is an error that names the kind of peer, or the broker's reason."""
    with peer(says(answer)) as port, refused_soon(mqplug.ConnectError, text):
        mqplug.connect(f"pulsar://127.0.0.1:{port}", timeout=LONG_S)


def test_a_peer_that_hangs_up_may_expect_tls():
    """A port that closes the connection without an answer is an error that suggests ``pulsar+ssl://``."""
    with peer(hang_up) as port, refused_soon(mqplug.ConnectError, r"closed the connection.*pulsar\+ssl:// if"):
        mqplug.connect(f"pulsar://127.0.0.1:{port}", timeout=LONG_S)


def test_a_challenge_is_answered_with_the_credentials():
    """An authentication challenge from the broker is answered with the credentials once more."""
    heard = []

    def serve(connection):
        connection.recv(65536)
        connection.sendall(command(36, (1, "scripted")))
        heard.append(connection.recv(65536))
        connection.sendall(command(14, (2, 3), (3, "still not")))

    with peer(serve) as port, refused_soon(mqplug.AuthError, "refused the credentials: still not"):
        mqplug.connect("pulsar", service_url=f"pulsar://127.0.0.1:{port}", token="t0ken", timeout=LONG_S)
    answer = fields(fields(heard[0][8:])[37])
    assert fields(answer[2]) == {1: b"token", 2: b"t0ken"}


def test_an_unreachable_host_is_named():
    """An unknown host name, or a port on which no server listens, is an error with the address."""
    with refused_soon(mqplug.ConnectError, r"no broker could be reached at nowhere\.invalid:6650"):
        mqplug.connect("pulsar://nowhere.invalid", timeout=LONG_S)
    with refused_soon(mqplug.ConnectError, "no broker could be reached at aaa"):
        mqplug.connect(f"pulsar://{'a' * 80}", timeout=LONG_S)
    with refused_soon(mqplug.ConnectError, r"no broker could be reached at 127\.0\.0\.1:1:"):
        mqplug.connect("pulsar://127.0.0.1:1", timeout=LONG_S)
