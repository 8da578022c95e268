"""Tokens for OAUTHBEARER, from an endpoint or from a provider named in the settings."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time

import kafka_token_provider as program
import pytest
from kafka_driver import new_name, take

import mqplug
from mqplug_kafka import KafkaSettings


@pytest.fixture
def provider(tmp_path, monkeypatch):
    """The installed provider test-cloud. Returns the path with which another process finds it."""
    path = program.install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    program.faults.clear()
    program.calls.clear()
    return path


def endpoint(secured, tokens):
    """Return the settings for a token endpoint."""
    return {
        "servers": [secured.address("sasl")],
        "token_endpoint": tokens.url,
        "client_id": "alice",
        "client_secret": "s3cret",
        "scope": "kafka",
    }


def proves_itself(mq):
    """Create a topic, send, read, ack and query: all kinds of librdkafka clients must log in."""
    topic = new_name()
    with mq:
        mq.create_topic(topic)
        with mq.producer(topic) as out:
            sent = out.send(b"hello")
        assert [message.id for message in mq.read(topic)] == [sent]
        with mq.consumer(topic, group=topic) as consumer:
            (message,) = take(consumer, 1)
            consumer.ack(message)
        assert mq.positions(topic, group=topic)[0].position == mq.watermarks(topic)[0].high
        mq.delete_group(topic)
        mq.delete_topic(topic)


def test_an_endpoint_logs_in(secured, tokens):
    """A client that fetches its tokens from an endpoint can do what a client with a password can."""
    before = len(tokens.issued)
    proves_itself(mqplug.connect("kafka", **endpoint(secured, tokens)))
    assert set(tokens.issued[before:]) == {"alice"}


def test_an_endpoint_is_configured_anywhere(secured, tokens, tmp_path, monkeypatch):
    """Token settings work in a file, in the environment and in a URL, as they do as keywords."""
    settings = endpoint(secured, tokens)
    servers = settings.pop("servers")
    file = tmp_path / "mqplug.toml"
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    file.write_text("\n".join(["[kafka]", f"servers = {servers}", *lines]))
    with mqplug.connect(file) as mq:
        mq.health()
    query = "&".join(f"{name}={value}" for name, value in settings.items())
    with mqplug.connect(f"kafka://{servers[0]}?{query}") as mq:
        mq.health()
    for name, value in settings.items():
        monkeypatch.setenv(f"MQPLUG_KAFKA_{name.upper()}", value)
    with mqplug.connect("kafka", servers=servers) as mq:
        mq.health()


def refused(**settings):
    """Return the error of a connect, which must be raised within 20 seconds."""
    began = time.monotonic()
    with pytest.raises(mqplug.Error) as caught:
        mqplug.connect("kafka", timeout=60, **settings)
    assert time.monotonic() - began < 20
    assert "gu3ss" not in str(caught.value)
    return caught.value


def test_a_wrong_secret_is_an_auth_error(secured, tokens):
    """A wrong secret raises AuthError with the endpoint's reason but not the secret, and the fix names the setting."""
    error = refused(**endpoint(secured, tokens) | {"client_secret": "gu3ss"})
    assert isinstance(error, mqplug.AuthError)
    assert "wrong secret" in str(error)
    assert "client_secret" in error.fix


def test_an_endpoint_that_is_away_is_an_auth_error(secured, tokens):
    """An unreachable token endpoint raises AuthError, which names its address."""
    error = refused(**endpoint(secured, tokens) | {"token_endpoint": "http://127.0.0.1:1/token"})
    assert isinstance(error, mqplug.AuthError)
    assert "127.0.0.1:1 " in str(error)
    assert "token_endpoint" in error.fix


@pytest.mark.usefixtures("provider")
def test_a_provider_logs_in(secured):
    """A provider is called once, with its options, for the tokens of all librdkafka clients of a connection."""
    proves_itself(mqplug.connect(f"kafka://{secured.address('sasl')}?token_provider=test-cloud&token_options=zone=eu"))
    assert program.calls == [{"zone": "eu"}]


@pytest.mark.night
@pytest.mark.usefixtures("provider")
def test_tokens_are_renewed(secured):
    """A connection outlives its tokens: the provider is called for the next one before each expires."""
    servers = [secured.address("sasl")]
    topic = new_name()
    with mqplug.connect("kafka", servers=servers, token_provider="test-cloud", token_options={"life": "15"}) as mq:
        mq.create_topic(topic)
        with mq.producer(topic) as out, mq.consumer(topic, start=mqplug.EARLIEST) as reader:
            end = time.monotonic() + 90
            while len(program.calls) < 3:
                assert time.monotonic() < end
                sent = out.send(b"x", timeout=20)
                assert take(reader, 1)[0].id == sent


def test_another_process_finds_the_provider(provider, secured):
    """Settings name the provider instead of holding a function, so they can be pickled for other processes."""
    settings = KafkaSettings(servers=["h:1"], token_provider="test-cloud")
    assert pickle.loads(pickle.dumps(settings)) == settings
    environment = os.environ | {"PYTHONPATH": provider, "MQPLUG_KAFKA_TOKEN_PROVIDER": "test-cloud"}
    code = f"import mqplug; mqplug.connect('kafka', servers=[{secured.address('sasl')!r}]).health()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (RuntimeError("no metadata service"), "'test-cloud' failed: RuntimeError: no metadata service"),
        (("", 2e9), "must return (token, expires_at)"),
        (("t", "soon"), "must return (token, expires_at)"),
        ((), "must return (token, expires_at)"),
        (("gu3ss", 1.0), "expired"),
        (("gu3ss", 2e9), "invalid_token"),
    ],
)
def test_a_failed_provider_is_an_auth_error(secured, fault, says):
    """A provider that raises, returns no valid token or returns a refused one leads to AuthError without the token."""
    program.faults.append(fault)
    error = refused(servers=[secured.address("sasl")], token_provider="test-cloud")
    assert isinstance(error, mqplug.AuthError)
    assert says in str(error)


@pytest.mark.usefixtures("provider")
def test_a_client_outlives_a_failing_provider(secured):
    """While the provider fails, opening a consumer raises AuthError but open producers send; then all works again."""
    topic = new_name()
    with mqplug.connect("kafka", servers=[secured.address("sasl")], token_provider="test-cloud") as mq:
        mq.create_topic(topic)
        with mq.producer(topic) as out:
            out.send(b"one", timeout=20)
            mq._connection.credentials._tokens.source._renew_at = 0.0
            program.faults.append(RuntimeError("away"))
            out.send(b"two", timeout=20)
            with pytest.raises(mqplug.AuthError, match="RuntimeError: away"):
                mq.consumer(topic, start=mqplug.EARLIEST)
            program.faults.clear()
            assert len(list(mq.read(topic))) == 2


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize(
    ("name", "says"),
    [("test-clod", "offers 'test-clod'.*found:.*test-cloud"), ("broken", "missing"), ("no-function", "function")],
)
def test_a_provider_that_is_not_there_is_a_config_error(name, says):
    """A provider name that no distribution offers, or that leads to no function, raises ConfigError before any I/O."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect("kafka", servers=["127.0.0.1:1"], token_provider=name)
