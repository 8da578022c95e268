"""A secured broker's refusals become typed errors at once, with a reason and a fix, and without secrets."""

from __future__ import annotations

import time

import pytest
from kafka_driver import new_name, take

import mqplug
from mqplug_devbrokers import CertificateAuthority

SOON_S = 15  # about a second on an idle machine
LOGIN = {"username": "alice", "password": "alice-pw"}
WRONG = {"username": "alice", "password": "gu3ss"}


@pytest.fixture(scope="session")
def files(secured, tmp_path_factory):
    """Certificate files by name: the broker's authority, a foreign one, and unusable certificates."""
    folder = tmp_path_factory.mktemp("certificates")
    foreign = CertificateAuthority(folder)
    expired = secured.issue("expired", lifetime=-1)
    stranger = foreign.issue("alice")
    return {
        "ca": str(secured.ca_file),
        "foreign ca": str(foreign.ca_file),
        "expired": {"cert_file": str(expired.cert_file), "key_file": str(expired.key_file)},
        "foreign": {"cert_file": str(stranger.cert_file), "key_file": str(stranger.key_file)},
        "mixed": {"cert_file": str(stranger.cert_file), "key_file": str(expired.key_file)},
    }


def tls(ca="ca", own=None, **more):
    """Return TLS settings with certificates named as in ``files``."""
    return {"tls": True, "ca_file": ca, "own": own, **more}


CONNECTS = [
    ("wrong password, PLAIN", "sasl", WRONG, mqplug.AuthError, "Invalid username or password", "username, password"),
    ("wrong password, SCRAM", "sasl", {**WRONG, "mechanism": "SCRAM-SHA-256"}, mqplug.AuthError,
     "invalid credentials", "username, password"),
    ("wrong password over TLS", "sasl_tls", tls(**WRONG, mechanism="SCRAM-SHA-512"), mqplug.AuthError,
     "invalid credentials", "username, password"),
    ("password on a plain port", "plain", LOGIN, mqplug.AuthError, "supported mechanisms", "leave username out"),
    ("no CA", "tls", {"tls": True}, mqplug.ConnectError, "certificate verify failed", "ca_file"),
    ("wrong CA", "tls", tls("foreign ca"), mqplug.ConnectError, "certificate verify failed", "ca_file"),
    ("host name mismatch", "localhost", tls(), mqplug.ConnectError, "certificate verify failed", "host"),
    ("CA file missing", "tls", tls("/no/such/ca.pem"), mqplug.ConfigError, "ca_file.*/no/such/ca.pem", "path"),
    ("key of another certificate", "mtls", tls(own="mixed"), mqplug.ConfigError, "key values mismatch", "settings"),
    ("TLS on a plain port", "plain", tls(), mqplug.ConnectError, "SSL", "tls=False"),
    ("TLS and password on a port without TLS", "sasl", tls(**LOGIN), mqplug.ConnectError, "SSL", "tls=False"),
    ("plain on a TLS port", "tls", {}, mqplug.ConnectError, "without giving a reason", "tls=True"),
    ("plain on a SASL port", "sasl", {}, mqplug.ConnectError, "without giving a reason", "username"),
    ("password without TLS on a TLS port", "sasl_tls", LOGIN, mqplug.ConnectError, "without giving", "tls=True"),
    ("no certificate", "mtls", tls(), mqplug.ConnectError, "alert", "cert_file"),
    ("expired certificate", "mtls", tls(own="expired"), mqplug.ConnectError, "alert", "cert_file"),
    ("certificate of a foreign authority", "mtls", tls(own="foreign"), mqplug.ConnectError, "alert", "cert_file"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "settings", "kind", "says", "fix"), [row[1:] for row in CONNECTS], ids=[row[0] for row in CONNECTS]
)
def test_a_refused_connect(secured_kafka, files, where, settings, kind, says, fix):
    """Each wrong credential, certificate or port soon raises its own error with the reason and the fix."""
    address = {"plain": secured_kafka.bootstrap}.get(where) or secured_kafka.secured.address(
        "tls" if where == "localhost" else where
    )
    settings = dict(settings)
    if "ca_file" in settings:
        settings["ca_file"] = files.get(settings["ca_file"], settings["ca_file"])
    settings |= files.get(settings.pop("own", None) or "", {})
    server = address.replace("127.0.0.1", "localhost") if where == "localhost" else address
    began = time.monotonic()
    with pytest.raises(mqplug.Error, match=says) as caught:
        mqplug.connect("kafka", servers=[server], timeout=60, **settings)
    assert time.monotonic() - began < SOON_S
    assert type(caught.value) is kind
    assert fix in caught.value.fix
    assert "gu3ss" not in str(caught.value)


@pytest.fixture
def topic(secured_kafka):
    """A topic with one message, created by the administrator."""
    name = new_name()
    with mqplug.connect(secured_kafka.url) as admin:
        admin.create_topic(name)
        with admin.producer(name) as out:
            out.send(b"hello")
    return name


@pytest.fixture
def bob(secured):
    """A client without any rights."""
    with mqplug.connect("kafka", servers=[secured.address("sasl")], username="bob", password="bob-pw") as client:
        yield client
    secured.forbid("bob")


def send(mq, topic):
    """Send a message."""
    with mq.producer(topic) as out:
        out.send(b"x", timeout=30)


def read(mq, topic):
    """Read the first message."""
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        take(reader, 1)


def receive(mq, topic):
    """Receive a message in a group of the topic's name."""
    with mq.consumer(topic, group=topic) as consumer:
        consumer.ack(take(consumer, 1)[0])


def trim(mq, topic):
    """Remove all messages."""
    mq.trim(topic, {0: mq.watermarks(topic)[0].high})


DESCRIBE, READ, WRITE = ("Describe", "topic"), ("Read", "topic"), ("Write", "topic")
ACTIONS = [
    ("send, no right", send, [], "Describe on the topic"),
    ("read, no right", read, [], "Describe on the topic"),
    ("receive, no right", receive, [], "Describe on the topic"),
    ("watermarks, no right", lambda mq, topic: mq.watermarks(topic), [], "Describe on the topic"),
    ("send", send, [DESCRIBE], "Write on the topic"),
    ("read", read, [DESCRIBE], "Read to receive"),
    ("receive", receive, [DESCRIBE, READ], "Read on the group"),
    ("positions", lambda mq, topic: mq.positions(topic, group=topic), [READ], "Read on the group"),
    ("describe_group", lambda mq, topic: mq.describe_group(topic), [READ], "Read on the group"),
    ("reset_group", lambda mq, topic: mq.reset_group(topic, topic, mqplug.LATEST), [READ], "Read on the group"),
    ("create_topic", lambda mq, topic: mq.create_topic(f"{topic}-more"), [READ, WRITE], "Create on the topic"),
    ("alter_topic", lambda mq, topic: mq.alter_topic(topic, retention=90), [READ, WRITE], "AlterConfigs on the topic"),
    ("add_partitions", lambda mq, topic: mq.add_partitions(topic, 2), [READ, WRITE], "Alter on the topic"),
    ("delete_topic", lambda mq, topic: mq.delete_topic(topic), [READ, WRITE], "Delete on the topic"),
    ("trim", trim, [READ, WRITE], "Delete on the topic"),
    ("delete_group", lambda mq, topic: mq.delete_group(topic), [READ, ("Read", "group")], "Delete on the group"),
]


@pytest.mark.parametrize(("action", "rights", "fix"), [row[1:] for row in ACTIONS], ids=[row[0] for row in ACTIONS])
def test_a_missing_right(secured, bob, topic, action, rights, fix):
    """An action without the needed right soon raises AccessDenied, and the fix names that right."""
    for right, kind in rights:
        secured.allow("bob", right, **{kind: topic})
    began = time.monotonic()
    with pytest.raises(mqplug.AccessDenied) as caught:
        action(bob, topic)
    assert time.monotonic() - began < SOON_S
    assert fix in caught.value.fix


def test_a_right_that_is_given_counts_at_once(secured, bob, topic):
    """A client whose action was refused succeeds over the same connection once it has the right."""
    for action in (send, read, receive):
        with pytest.raises(mqplug.AccessDenied):
            action(bob, topic)
    secured.allow("bob", "Describe", topic=topic)
    with pytest.raises(mqplug.AccessDenied):
        send(bob, topic)
    secured.allow("bob", "Write", "Read", topic=topic)
    secured.allow("bob", "Read", group=topic)
    for action in (send, read, receive):
        action(bob, topic)


def test_a_reader_needs_no_group(secured, bob, topic):
    """A consumer without a group needs only the right to read the topic."""
    secured.allow("bob", "Read", topic=topic)
    assert [message.value for message in bob.read(topic)] == [b"hello"]
