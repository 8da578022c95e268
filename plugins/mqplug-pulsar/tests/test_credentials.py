"""Credentials at a broker that requires them: each way to set them, each way to get them wrong, and new tokens."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from threading import Event, Thread

import pytest

import mqplug
from mqplug import LATEST

SOON_S = 30.0  # an answer takes 0.1 s; pulsar-client, without a handshake, waits for the timeout
LONG_S = 60.0
LARGEST_BYTES = 2 * 1024 * 1024  # of the secured broker
TOPIC = "credentials"
LIFETIME_S = 3.0  # of a token that expires while its client is open


def plain(secured, **settings):
    """Connect without TLS, with the admin interface."""
    addresses = {"service_url": secured.address("plain"), "admin_url": secured.address("admin")}
    return mqplug.connect("pulsar", **{**addresses, "timeout": LONG_S, **settings})


def encrypted(secured, **settings):
    """Connect with TLS to both ports."""
    addresses = {"service_url": secured.address("tls"), "admin_url": secured.address("admin_tls")}
    return mqplug.connect("pulsar", **{**addresses, "tls_ca": str(secured.ca_file), "timeout": LONG_S, **settings})


def use(client):
    """Send a message, read it, and list topics over the admin interface."""
    with client.producer(TOPIC) as out:
        sent = out.send(b"hello")
    assert sent in [message.id for message in client.read(TOPIC)]
    assert TOPIC in client.topics()


@pytest.fixture(scope="module", autouse=True)
def _topic(secured):
    """Create the topic of these tests, in which alice may send and receive."""
    secured.allow("alice", "produce", "consume", namespace="public/default")
    with plain(secured, token=secured.admin_token) as client:
        client.create_topic(TOPIC)
    yield
    with plain(secured, token=secured.admin_token) as client:  # a worker may come back to these tests
        client.delete_topic(TOPIC)


@pytest.fixture
def admin_file(secured, tmp_path):
    """A file with a token of the superuser."""
    file = tmp_path / "token"
    file.write_text(secured.admin_token + "\n")
    return file


@pytest.mark.parametrize(
    ("connect", "way"),
    [
        *((plain, way) for way in ("token", "function", "file", "environment", "password")),
        *((encrypted, way) for way in ("token", "password", "certificate")),
    ],
)
def test_each_way_to_authenticate_works(secured, connect, way, admin_file, monkeypatch):
    """A token, a password or, with TLS, a certificate authenticates a role to the broker and the admin interface."""
    if way == "environment":
        monkeypatch.setenv("MQPLUG_PULSAR_TOKEN", secured.admin_token)
    own = secured.issue("alice")
    settings = {
        "token": {"token": secured.admin_token},
        "function": {"token": lambda: secured.admin_token},
        "file": {"token_file": str(admin_file)},
        "environment": {},
        "password": {"username": "alice", "password": "alice-pw"},
        "certificate": {"tls_certificate": str(own.cert_file), "tls_key": str(own.key_file)},
    }[way]
    with connect(secured, **settings) as client:
        use(client)


@pytest.mark.parametrize("login", ["token", "basic"])
def test_a_url_has_credentials_and_tls(secured, login):
    """A ``pulsar+ssl://`` URL with a token, or a user and a password, needs no other credentials."""
    who = f":{secured.admin_token}" if login == "token" else "alice:alice-pw"
    host = secured.address("tls").removeprefix("pulsar+ssl://")
    query = f"admin_url={secured.address('admin_tls')}&tls_ca={secured.ca_file}"
    with mqplug.connect(f"pulsar+ssl://{who}@{host}/public/default?{query}") as client:
        use(client)


@pytest.mark.parametrize("admin", [True, False])
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "requires credentials.*Set token="),
        ({"token": "garbage"}, "refused the credentials.*signed the token"),
        ({"token": "expired"}, "refused the credentials.*expired"),
        ({"token": "forged"}, "refused the credentials.*signed the token"),
        ({"username": "alice", "password": "s3cret-guess"}, "refused the credentials.*Check username= and password="),
        ({"username": "nobody", "password": "s3cret-guess"}, "refused the credentials.*Check username= and password="),
    ],
    ids=["none", "garbage", "expired", "forged", "password", "user"],
)
def test_wrong_credentials_are_told_soon(secured, settings, text, admin):
    """Missing or wrong credentials fail ``connect`` at once with an ``AuthError`` that shows no secret."""
    made = {"expired": secured.token("admin", lifetime=-10), "forged": secured.admin_token[:-4] + "AAAA"}
    settings = {**settings, **({"token": made.get(settings["token"], "garbage")} if "token" in settings else {})}
    began = time.monotonic()
    with pytest.raises(mqplug.AuthError, match=text) as caught:
        plain(secured, **settings, **({} if admin else {"admin_url": None}))
    assert time.monotonic() - began < SOON_S
    for secret in (settings.get("token"), settings.get("password")):
        assert secret is None or secret not in f"{caught.value!r} {caught.value}"


def test_a_plain_url_on_a_port_with_tls_is_told_soon(secured):
    """A plain URL on a TLS port, which silently closes the connection, is an error that suggests ``pulsar+ssl://``."""
    began = time.monotonic()
    with pytest.raises(mqplug.ConnectError, match=r"closed the connection.*pulsar\+ssl:// if"):
        plain(secured, service_url=secured.address("tls").replace("+ssl", ""), token=secured.admin_token)
    assert time.monotonic() - began < SOON_S


def test_a_certificate_that_is_not_trusted_is_told_soon(secured):
    """A certificate of an unknown authority or for another host is refused unless ``tls_allow_insecure`` is set."""
    began = time.monotonic()
    with pytest.raises(mqplug.ConnectError, match=r"certificate .* is not trusted.*Check that tls_ca="):
        encrypted(secured, token=secured.admin_token, tls_ca=None)
    other = secured.address("tls").replace("127.0.0.1", "127.1")  # another name of the same host
    with pytest.raises(mqplug.ConnectError, match=r"certificate of 127\.1.* is not trusted: [Hh]ostname mismatch"):
        encrypted(secured, token=secured.admin_token, service_url=other)
    assert time.monotonic() - began < SOON_S
    with encrypted(secured, token=secured.admin_token, tls_ca=None, tls_allow_insecure=True) as client:
        client.health()


def test_a_file_that_is_no_certificate_is_named(secured, admin_file):
    """A file that is not PEM is a ``ConfigError`` that names the setting, before any I/O."""
    with pytest.raises(mqplug.ConfigError, match=r"tls_ca.*PEM"):
        encrypted(secured, token=secured.admin_token, tls_ca=str(admin_file))
    with pytest.raises(mqplug.ConfigError, match=r"tls_certificate.*tls_key.*PEM"):
        encrypted(secured, tls_certificate=str(admin_file), tls_key=str(admin_file))


def test_the_broker_says_how_large_a_message_may_be(secured):
    """The broker announces the largest message, of which metadata have 10 KB; settings can only lower the limit."""
    for said, largest in (
        (None, LARGEST_BYTES - 10 * 1024),
        (1000, 1000),
        (2**40, LARGEST_BYTES - 10 * 1024),
    ):
        settings = {} if said is None else {"message_max_bytes": said}
        with plain(secured, token=secured.admin_token, admin_url=None, **settings) as client:
            assert client.capabilities.message_max_bytes == largest


# tokens that are renewed -----------------------------------------------------------------------------------


def renewing(secured, tmp_path, kind):
    """Return settings with a token that expires soon, and a function that replaces it with a lasting one."""
    first, last = secured.token("admin", lifetime=LIFETIME_S), secured.admin_token
    if kind == "file":
        file = tmp_path / "token"
        file.write_text(first)
        return {"token_file": str(file)}, lambda: file.write_text(last)
    tokens = [first]
    return {"token": lambda: tokens[-1]}, lambda: tokens.append(last)


@pytest.mark.parametrize("kind", ["file", "function"])
def test_a_token_that_expires_is_replaced(secured, tmp_path, kind):
    """A client keeps working, with broker and admin interface, when its token expires and a new one is available."""
    settings, renew = renewing(secured, tmp_path, kind)
    end = time.monotonic() + LIFETIME_S
    with plain(secured, **settings) as client:
        renew()
        with client.producer(TOPIC) as out, client.consumer(TOPIC, start=LATEST) as reader:
            sent = []
            while time.monotonic() < end + 2:  # the broker has looked at the token again
                sent.append(out.send(b"while"))
                time.sleep(0.1)
            sent.append(out.send(b"after"))
            assert [reader.receive(30).id for _ in sent] == sent
        assert TOPIC in client.topics()


def test_a_token_that_expires_is_told(secured):
    """With an expired token that is not renewed, ``receive`` and ``health`` raise ``AuthError``."""
    settings = {"token": secured.token("admin", lifetime=LIFETIME_S), "admin_url": None}
    with plain(secured, **settings) as client, client.consumer(TOPIC, start=LATEST) as reader:
        with pytest.raises(mqplug.AuthError, match=r"refused the credentials.*expired"):
            receive_until_refused(reader)
        with pytest.raises(mqplug.AuthError, match=r"refused the credentials.*expired"):
            client.health(timeout=2)


def receive_until_refused(reader):
    """Receive until an error other than ``Timeout`` is raised."""
    while True:
        with suppress(mqplug.Timeout):
            reader.receive(20)


def topics_until_refused(client):
    """List the topics until an error is raised."""
    while True:
        client.topics(timeout=20)
        time.sleep(0.1)


def test_a_token_that_cannot_be_renewed_is_told(secured, tmp_path, caplog):
    """Without a new token the last one is used, with a warning; after it expires, calls raise ``AuthError``."""
    file = tmp_path / "token"
    file.write_text(secured.token("admin", lifetime=LIFETIME_S))
    with plain(secured, token_file=str(file)) as client:
        file.unlink()
        with caplog.at_level(logging.WARNING, "mqplug.pulsar"):
            with pytest.raises(mqplug.AuthError, match=r"refused the credentials.*expired"):
                topics_until_refused(client)
            assert "using the last token again" in caplog.text
        file.write_text(secured.admin_token)
        assert TOPIC in client.topics()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda: 1 / 0, "the function that returns the token failed: ZeroDivisionError"),
        (lambda: "two\nlines", "must return one line of text"),
        (lambda: None, "must return one line of text"),
        (lambda: "", "must return one line of text"),
    ],
)
def test_a_function_without_a_token_is_told(secured, function, text):
    """A token function that raises, or returns anything but one line of text, is an ``AuthError`` before any I/O."""
    with pytest.raises(mqplug.AuthError, match=text):
        plain(secured, token=function)


def test_a_function_is_called_while_others_send(secured):
    """The client calls the token function on its own thread while Python threads send, without a deadlock."""
    over = Event()
    asked = []

    def token():
        asked.append(time.monotonic())
        return secured.token("admin", lifetime=2.0)

    with plain(secured, token=token) as client:

        def send():
            with client.producer(TOPIC) as out:
                while not over.is_set():
                    out.submit(b"x" * 100).result(30)

        senders = [Thread(target=send) for _ in range(3)]
        for each in senders:
            each.start()
        began, end = time.monotonic(), time.monotonic() + 60
        while sum(moment > began + 1 for moment in asked) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        over.set()
        for each in senders:
            each.join(30)
        assert not any(each.is_alive() for each in senders)
        assert sum(moment > began + 1 for moment in asked) >= 3
