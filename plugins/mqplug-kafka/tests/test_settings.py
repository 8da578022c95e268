"""Settings are checked before any I/O, and keep their secrets."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mqplug
from mqplug_kafka import KafkaSettings
from mqplug_kafka._settings import PROTECTED, common


@pytest.mark.parametrize("key", sorted(PROTECTED))
def test_protected_native_options_are_refused(key):
    """A native option that would break a promise is refused, and the error says what to do instead."""
    with pytest.raises(mqplug.ConfigError, match="may not be set") as caught:
        mqplug.connect("kafka", servers=["h:1"], native={key: "1"})
    assert PROTECTED[key] in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"servers": []}, "names no broker"),
        ({"servers": "h:9092"}, "expected a list, not a text"),
        ({"servers": ["h:1"], "username": "u"}, "password"),
        ({"servers": ["h:1"], "password": "p"}, "username"),
        ({"servers": ["h:1"], "tls": True, "cert_file": "c"}, "key_file"),
        ({"servers": ["h:1"], "ca_file": "c"}, "TLS is off"),
        ({"servers": ["h:1"], "session_timeout": 0}, "session_timeout"),
        ({"servers": ["h:1"], "server": "x"}, "servers"),
        ({"servers": ["h:1"], "tls": "yes"}, "bool"),
        ({}, "servers"),
    ],
)
def test_what_cannot_be_meant_is_a_config_error(settings, says):
    """Wrong, missing and contradicting settings are named."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect("kafka", **settings)


def test_an_unknown_native_option_is_a_config_error():
    """What librdkafka does not know is named."""
    with pytest.raises(mqplug.ConfigError, match=r"no\.such\.option"):
        mqplug.connect("kafka", servers=["127.0.0.1:1"], native={"no.such.option": "1"})


def test_secrets_are_not_shown():
    """No password is in the repr of the settings, nor what is passed through."""
    settings = KafkaSettings(
        servers=["h:1"], username="u", password="s3cret", native={"sasl.oauthbearer.config": "s3cret"}
    )
    assert "s3cret" not in repr(settings)


def test_security_becomes_the_protocol():
    """Password and TLS choose the protocol."""
    assert common(KafkaSettings(servers=["h:1"]))["security.protocol"] == "plaintext"
    settings = KafkaSettings(servers=["h:1"], username="u", password="p", tls=True, ca_file="ca.pem")
    assert common(settings)["security.protocol"] == "sasl_ssl"
    assert common(settings)["ssl.ca.location"] == "ca.pem"


def test_importing_the_plugin_imports_no_client():
    """The client library is imported when a connection is made, not before."""
    code = "import sys, mqplug_kafka; mqplug_kafka.mqplug_describe(); assert 'confluent_kafka' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
