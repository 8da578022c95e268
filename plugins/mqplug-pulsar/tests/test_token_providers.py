"""Tokens from a provider that the settings name."""

from __future__ import annotations

import pulsar_token_provider as program
import pytest

import mqplug
from mqplug.spi.tokens import TokenSource
from mqplug_pulsar import PulsarSettings


@pytest.fixture(autouse=True)
def _provider(tmp_path, monkeypatch):
    """Install the provider test-cloud."""
    program.install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    program.answers.clear()
    program.calls.clear()


def test_a_provider_gives_tokens(secured, name):
    """One token from a provider named in the URL serves all requests to the broker and the admin interface."""
    program.answers.append(program.valid_for(secured.admin_token, 60))
    host = secured.address("plain").removeprefix("pulsar://")
    query = f"admin_url={secured.address('admin')}&token_provider=test-cloud&token_options=zone=eu"
    with mqplug.connect(f"pulsar://{host}?{query}") as client:
        client.create_topic(name)
        with client.producer(name) as out:
            out.send(b"x")
    assert program.calls == [{"zone": "eu"}]


def test_an_old_token_is_renewed():
    """The provider is called again after three quarters of a token's lifetime."""
    source = TokenSource("mqplug.pulsar_tokens", "test-cloud", PulsarSettings(token_provider="test-cloud"))
    program.answers.append(program.valid_for("long", 1000))
    assert (source.token()[0], source.token()[0], len(program.calls)) == ("long", "long", 1)
    source._renew_at -= 760
    program.answers.append(program.valid_for("next", 1000))
    assert (source.token()[0], len(program.calls)) == ("next", 2)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (RuntimeError("no network"), "the token provider 'test-cloud' failed: RuntimeError: no network"),
        ((None, 2e9), r"must return \(token, expires_at\)"),
        (("t0ken", "tomorrow"), r"must return \(token, expires_at\)"),
        (("t0ken", 1000.0), r"returned a token that expired \d+ s ago"),
        ("t0ken", r"must return \(token, expires_at\)"),
    ],
)
def test_a_provider_without_a_token_is_told(answer, text):
    """A provider that raises, or returns no valid token, is an ``AuthError`` before any I/O."""
    program.answers.append(answer)
    with pytest.raises(mqplug.AuthError, match=text):
        mqplug.connect("pulsar", token_provider="test-cloud")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("other", r"no installed distribution offers 'other'.*found: broken, no-function, test-cloud"),
        ("broken", "'broken' cannot be loaded: AttributeError"),
        ("no-function", "'no-function' is not a function"),
    ],
)
def test_a_wrong_provider_is_named(name, text):
    """A provider name that is unknown, cannot be loaded or is not a function is a ``ConfigError``."""
    with pytest.raises(mqplug.ConfigError, match=text):
        mqplug.connect("pulsar", token_provider=name)
