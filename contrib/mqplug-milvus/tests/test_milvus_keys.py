"""Each key of a ``milvus.yaml`` is used, refused by name, or listed as ignored: none is skipped silently."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from config_backends import Fakes, fakes
from hypothesis import HealthCheck, given, settings, strategies as st
from milvus_samples import FULL, STOCK, V23

import mqplug
from mqplug_cli import run_command

yaml = pytest.importorskip("yaml")

__all__ = ["fakes"]

OURS = ("mq", "kafka", "pulsar", "rocksmq")


def write(text: str | Mapping[str, Any], name: str = "milvus.yaml") -> Path:
    """Write a file into the working directory and return its path."""
    path = Path(name)
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    return path


def opened(fakes: Fakes, name: str, text: str | Mapping[str, Any], **keywords: Any) -> Any:
    """Connect, check the backend's name, and return the settings that the backend got."""
    with mqplug.connect(write(text), **keywords) as mq:
        assert mq.backend == name
    return fakes[name].given


def left_alone(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the keys that the doctor lists under ``left_alone``, with the reasons."""
    run_command(["doctor", "--config", str(path), "--json"])
    return {each["key"]: each["reason"] for each in json.loads(capsys.readouterr().out)["left_alone"]}


@pytest.mark.parametrize("version", STOCK)
def test_stock_files_choose_as_milvus_does(fakes: Fakes, version: str) -> None:
    """The shipped files of three versions choose RocksMQ standalone and Pulsar in a cluster."""
    rocksmq = opened(fakes, "rocksmq", STOCK[version])
    assert rocksmq.path == "/var/lib/milvus/rdb_data"
    pulsar = opened(fakes, "pulsar", STOCK[version], mode="cluster")
    assert (pulsar.service_url, pulsar.admin_url) == ("pulsar://localhost:6650", "http://localhost:80")
    assert pulsar.admin_optional, "whatever answers at port 80"
    assert pulsar.message_max_bytes in {5242880, 2097152}


@pytest.mark.parametrize("version", STOCK)
def test_the_doctor_lists_what_is_left_alone(fakes: Fakes, version: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor lists each unused key of a stock file, or its whole section, with a reason."""
    path = write(STOCK[version])
    listed = left_alone(path, capsys)
    used = {"path", "retentionTimeInMinutes", "retentionSizeInMB", "type"}
    for section, content in yaml.safe_load(STOCK[version]).items():
        for key, value in content.items():
            names = {section, f"{section}.{key}", *(f"{section}.{key}.{inner}" for inner in _inner(value))}
            blank = value is None
            assert (names & listed.keys()) or blank or (section in {"rocksmq", "mq"} and key in used), (section, key)
    assert all(listed.values())
    assert run_command(["doctor", "--config", str(path)]) == 0
    assert "because" in capsys.readouterr().out


def _inner(value: Any) -> Iterator[str]:
    yield from value if isinstance(value, Mapping) else ()


def _paths(content: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in content.items():
        yield (*before, key)
        if isinstance(value, Mapping) and (*before, key) not in {("kafka", "consumer"), ("kafka", "producer")}:
            yield from _paths(value, (*before, key))


PATHS = [path for path in _paths(yaml.safe_load(FULL)) if path[0] in OURS]
STOCK_PATHS = [path for path in _paths(yaml.safe_load(V23)) if path[0] in OURS]


@st.composite
def misspelt(draw: st.DrawFn, paths: list[tuple[str, ...]]) -> tuple[tuple[str, ...], str]:
    """Draw a key, and the same key with one letter wrong, missing, added, or swapped with the next."""
    path = draw(st.sampled_from(paths))
    word, letter = path[-1], draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz0"))
    place = draw(st.integers(0, len(word) - 1))
    kinds = {
        "wrong": word[:place] + letter + word[place + 1 :],
        "missing": word[:place] + word[place + 1 :],
        "more": word[:place] + letter + word[place:],
        "changed": word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
    }
    return path, kinds[draw(st.sampled_from(sorted(kinds)))]


def _renamed(content: Mapping[str, Any], path: tuple[str, ...], name: str) -> dict[str, Any]:
    first, *rest = path
    if rest:
        return {key: _renamed(inner, tuple(rest), name) if key == first else inner for key, inner in content.items()}
    return {name if key == first else key: inner for key, inner in content.items()}


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=misspelt(PATHS) | misspelt(STOCK_PATHS))
def test_a_key_with_a_wrong_letter_is_never_passed_over(fakes: Fakes, found: tuple[tuple[str, ...], str]) -> None:
    """A misspelt key is refused by its name, even if another backend would be chosen."""
    path, name = found
    if name.lower() == path[-1].lower():
        return
    source = yaml.safe_load(FULL if path in PATHS else V23)
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect(write(_renamed(source, path, name)))
    assert name in str(caught.value) or not name
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "kafka: {brokersList: x}\nrocksmq: {path: y}",
            r"unknown key 'kafka.brokersList' in milvus.yaml. Did you mean 'kaf",
        ),
        ("pulsar: {adress: x}\nkafka: {brokerList: y}", r"unknown key 'pulsar.adress'.*Did you mean 'pulsar.address'"),
        ("kafak: {brokerList: x}\nrocksmq: {path: y}", r"unknown section 'kafak' in milvus.yaml. Did you mean 'kafka'"),
        ("mqq: {type: kafka}\nrocksmq: {path: y}", r"unknown section 'mqq' in milvus.yaml. Did you mean 'mq'"),
        ("kafka.brokersList: x\nrocksmq: {path: y}", r"unknown key 'kafka.brokersList'"),
        ("kafkaBrokersList: x\nrocksmq: {path: y}", r"unknown key 'kafkaBrokersList'.*Did you mean 'kafka.brokerList'"),
        ("kafka: {zzz: x}\nrocksmq: {path: y}", r"unknown key 'kafka.zzz' in milvus.yaml. Remove it"),
        ("kafka: {brokerList: x, securtyProtocol: SSL}", r"Did you mean 'kafka.securityProtocol'"),
        ("kafka: {brokerList: x, broker_list: y}", r"'kafka.brokerList' in .* and 'kafka.broker_list' .* one key"),
        ("kafka: {brokerList: x, brokers: y}", r"'kafka.brokerList' in milvus.yaml: kafka.brokers"),
    ],
)
def test_a_misspelt_key_names_the_nearest(fakes: Fakes, text: str, says: str) -> None:
    """A misspelt, unknown or repeated key is a ``ConfigError`` that names the key, with the nearest one if any."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect(write(text))


@pytest.mark.parametrize(
    "key", ["brokerList", "broker_list", "BROKERLIST", "BrokerList", "broker.list", "broker/list", "BROKER_LIST"]
)
def test_keys_ignore_case_and_separators(fakes: Fakes, key: str) -> None:
    """Keys match whatever their case and separators, nested or flat, as in Milvus."""
    assert opened(fakes, "kafka", {"kafka": {key: "x:1"}}).servers == ["x:1"]
    assert opened(fakes, "kafka", {f"Kafka.{key}": "x:1"}).servers == ["x:1"]


# values ------------------------------------------------------------------------------------------------------------

SASL = "brokerList: x, saslUsername: me, saslPassword: pw"


@pytest.mark.parametrize(
    ("kafka", "tls"),
    [
        (SASL, True),
        (f"{SASL}, securityProtocol: sasl_ssl", True),
        (f"{SASL}, securityProtocol: Sasl_Plaintext", False),
        ("brokerList: x, securityProtocol: ssl", True),
        ("brokerList: x, securityProtocol: plaintext", False),
        ("brokerList: x, ssl: {enabled: true}", True),
        ("brokerList: x, ssl: {enabled: 'true', tlsCaCert: a}", True),
        ("brokerList: x, ssl: {enabled: false, tlsCaCert: a}", False),
        ("brokerList: x", False),
    ],
)
def test_the_protocol_decides_on_tls(fakes: Fakes, kafka: str, tls: bool) -> None:
    """Kafka's ``securityProtocol`` decides on TLS, whatever its case; without it, credentials or ``ssl`` mean TLS."""
    assert opened(fakes, "kafka", f"kafka: {{{kafka}}}").tls is tls


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"kafka: {{{SASL}, securityProtocol: SASL-SSL}}", r"'kafka.securityProtocol' in .*not 'SASL-SSL'.*'SASL_SSL'"),
        (f"kafka: {{{SASL}, securityProtocol: tls}}", r"one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL', not"),
        ("kafka: {brokerList: x, securityProtocol: SASL_SSL}", r"SASL_SSL needs kafka.saslUsername"),
        (f"kafka: {{{SASL}, securityProtocol: SSL}}", r"credentials would not be used.*Set SASL_SSL"),
        (f"kafka: {{{SASL}, securityProtocol: SASL_PLAINTEXT, ssl: {{enabled: true}}}}", r"does not encrypt"),
        ("kafka: {brokerList: x, ssl: {enabled: yess}}", r"'kafka.ssl.enabled' in .*expected true or false"),
        ("kafka: {brokerList: 'h:75628'}", r"'kafka.brokerList' in .*1 to 65535"),
        ("kafka: {brokers: h, port: 75628}", r"'kafka.brokers' in .*1 to 65535"),
        ("kafka: {brokers: h, port: x}", r"'kafka.port' in .*a whole number"),
        ("kafka: {brokerList: x, saslUsername: me}", r"half of the credentials"),
        (
            "kafka: {brokerList: x, consumer: {client.id: a}, producer: {client.id: b}}",
            r"client.id differs for producers",
        ),
        ("pulsar: {address: h, authPlugin: oauth2, authParams: 'a:b'}", r"'pulsar.authPlugin' in .*not 'oauth2'"),
        (
            "pulsar: {address: h, authPlugin: athenz, authParams: 'a:b'}",
            r"one of 'token', 'basic', 'tls', not 'athenz'",
        ),
        ("pulsar: {address: h, authPlugin: tokn, authParams: 'token:b'}", r"Did you mean 'token'"),
        ("pulsar: {address: h, authPlugin: token}", r"pulsar.authParams is missing"),
        ("pulsar: {address: h, authParams: 'username:s3cret'}", r"pulsar.authPlugin is missing"),
        ("pulsar: {address: h, authPlugin: token, authParams: s3cret}", r"expected key:value with commas, or JSON"),
        ("pulsar: {address: h, authPlugin: token, authParams: '{s3cret'}", r"expected key:value with commas, or JSON"),
        ("pulsar: {address: h, authPlugin: token, authParams: '[\"s3cret\"]'}", r"expected key:value with commas"),
        ("pulsar: {address: h, authPlugin: token, authParams: 'tokn:s3cret'}", r"expected token and file for this"),
        ("pulsar: {address: h, authPlugin: basic, authParams: 'token:s3cret'}", r"expected username and password"),
        ("pulsar: {address: h, maxMessageSize: 5MB}", r"'pulsar.maxMessageSize' in .*a whole number"),
        ("rocksmq: {path: x, retentionTimeInMinutes: 0}", r"'rocksmq.retentionTimeInMinutes' in .*-1 for no limit"),
        ("rocksmq: {path: x, retentionSizeInMB: -2}", r"'rocksmq.retentionSizeInMB' in .*-1 for no limit"),
        ("mq: {type: woodpecker}", r"'mq.type' in .*names 'woodpecker', a queue of Milvus' own.*backend="),
        ("mq: {type: natsmq}\nrocksmq: {path: x}", r"'mq.type' in .*names 'natsmq'"),
        ("mq: {type: kafak}", r"unknown backend 'kafak'. Did you mean 'kafka'"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(fakes: Fakes, text: str, says: str) -> None:
    """A wrong value is a ``ConfigError`` before a backend is opened; the error names the key and shows no secret."""
    with pytest.raises(mqplug.ConfigError, match=says) as caught:
        mqplug.connect(write(text))
    assert "s3cret" not in str(caught.value)
    assert all(fake.given is None for fake in fakes.values())


@pytest.mark.parametrize(
    ("plugin", "parameters", "expected"),
    [
        ("token", "token:e.y:J", {"token": "e.y:J"}),
        ("token", '{"token": "t"}', {"token": "t"}),
        ("token", {"token": "t"}, {"token": "t"}),
        ("", "token:t", {"token": "t"}),
        ("org.apache.pulsar.client.impl.auth.AuthenticationToken", "file:/etc/token", {"token_file": "/etc/token"}),
        ("basic", "username:me,password:pw", {"username": "me", "password": "pw"}),
        ("tls", "tlsCertFile:/c.pem,tlsKeyFile:/k.pem", {"tls_certificate": "/c.pem", "tls_key": "/k.pem"}),
        ("", "", {}),
    ],
)
def test_the_plugins_of_pulsar(fakes: Fakes, plugin: str, parameters: object, expected: dict[str, str]) -> None:
    """Pulsar's token, file, basic and TLS plugins become credentials, in all spellings of their parameters."""
    pulsar = opened(fakes, "pulsar", {"pulsar": {"address": "h", "authPlugin": plugin, "authParams": parameters}})
    names = ("token", "token_file", "username", "password", "tls_certificate", "tls_key")
    assert {name: getattr(pulsar, name) for name in names if getattr(pulsar, name) is not None} == expected


@pytest.mark.parametrize(
    ("pulsar", "admin"),
    [
        ({"address": "h", "webport": 8080}, "http://h:8080"),
        ({"address": "pulsar://h:1,i:2", "webport": 8080}, "http://h:8080"),
        ({"address": "pulsar://[::1]:1", "webport": 8080}, "http://[::1]:8080"),
        ({"address": "h", "webport": 80, "webaddress": "http://w:8080"}, "http://w:8080"),
        ({"address": "h", "webaddress": "w:8080"}, "http://w:8080"),
        ({"address": "pulsar+ssl://h:6651", "webport": 80}, None),
        ({"address": "h"}, None),
    ],
)
def test_the_admin_interface_is_optional(fakes: Fakes, pulsar: dict[str, Any], admin: str | None) -> None:
    """Pulsar's admin interface is optional at the address that the file gives."""
    found = opened(fakes, "pulsar", {"pulsar": pulsar})
    assert (found.admin_url, found.admin_optional) == (admin, admin is not None)


@pytest.mark.parametrize(
    ("minutes", "megabytes", "expected"),
    [
        (4320, 8192, (259200.0, 8192 << 20)),
        (-1, -1, (math.inf, None)),
        ("60", "1", (3600.0, 1 << 20)),
        (None, None, (None, None)),
    ],
)
def test_the_retention_of_rocksmq(fakes: Fakes, minutes: object, megabytes: object, expected: object) -> None:
    """RocksMQ's retention in minutes and megabytes becomes the default of new topics; -1 means no limit."""
    section = {"path": "x", "retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    found = opened(fakes, "rocksmq", {"mq": {"type": "rocksmq"}, "rocksmq": section})
    assert (found.retention, found.retention_bytes) == expected


def test_options_of_the_client_are_passed_on(fakes: Fakes) -> None:
    """Options of Kafka's client are passed to librdkafka as strings; blank ones are left out."""
    kafka = {
        "brokerList": "x",
        "consumer": {"fetch.min.bytes": 1, "client.id": "c"},
        "producer": {"client.id": "c", "log.queue": True, "linger": {"ms": 20}, "compression.type": ""},
    }
    found = opened(fakes, "kafka", {"kafka": kafka})
    assert found.librdkafka == {"fetch.min.bytes": "1", "client.id": "c", "log.queue": "true", "linger.ms": "20"}


# the environment ---------------------------------------------------------------------------------------------------


def test_milvus_variables_win_over_its_file(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Milvus' variables, with or without underscores, take precedence over its file; an empty one has no effect."""
    monkeypatch.setenv("MQ_TYPE", "kafka")
    monkeypatch.setenv("KAFKA_BROKER_LIST", "one:1,two:2")
    monkeypatch.setenv("KAFKA_SASLUSERNAME", "me")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "pw")
    monkeypatch.setenv("KAFKA_SSL_ENABLED", "")
    found = opened(fakes, "kafka", V23)
    assert (found.servers, found.username, found.password, found.tls) == (["one:1", "two:2"], "me", "pw", True)
    monkeypatch.setenv("MQ_TYPE", "default")
    monkeypatch.setenv("ROCKSMQ_PATH", "/elsewhere")
    assert opened(fakes, "rocksmq", V23).path == "/elsewhere"
    monkeypatch.setenv("PULSAR_ADDRESS", "pulsar://there:6655")
    assert opened(fakes, "pulsar", V23, mode="cluster").service_url == "pulsar://there:6655"


def test_our_variables_win_over_milvus(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords come before mqplug's variables, these before Milvus' variables, and these before the file."""
    monkeypatch.setenv("PULSAR_ADDRESS", "pulsar://milvus")
    monkeypatch.setenv("PULSAR_TENANT", "milvus")
    monkeypatch.setenv("MQPLUG_PULSAR_SERVICE_URL", "pulsar://ours")
    found = opened(fakes, "pulsar", V23, mode="cluster", namespace="mine")
    assert (found.service_url, found.tenant, found.namespace) == ("pulsar://ours", "milvus", "mine")


@pytest.mark.parametrize("target", [None, "mqplug.toml", {"rocksmq": {"path": "x"}}, "rocksmq"])
def test_milvus_variables_mean_nothing_without_its_file(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    """Without a ``milvus.yaml``, Milvus' variables neither choose nor change a backend."""
    for name, value in {
        "PULSAR_ADDRESS": "p",
        "MQ_TYPE": "pulsar",
        "ROCKSMQ_PATH": "r",
        "KAFKA_BROKER_LIST": "k",
    }.items():
        monkeypatch.setenv(name, value)
    if target is None:
        with pytest.raises(mqplug.ConfigError, match="no backend was named"):
            mqplug.connect()
        return
    if target == "mqplug.toml":
        target = write("[rocksmq]\npath = 'x'\n", target)
    with mqplug.connect(target, **({"path": "x"} if target == "rocksmq" else {})) as mq:
        assert (mq.backend, fakes["rocksmq"].given.path) == ("rocksmq", "x")


def test_wrong_variables_are_named(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong value of a variable, or two variables for one key, is a ``ConfigError`` with the variable's name."""
    monkeypatch.setenv("PULSAR_PORT", "x")
    with pytest.raises(mqplug.ConfigError, match="'PULSAR_PORT': expected a whole number"):
        mqplug.connect(write(V23), mode="cluster")
    monkeypatch.setenv("PULSARPORT", "y")
    with pytest.raises(mqplug.ConfigError, match="'PULSARPORT' and 'PULSAR_PORT' are one key"):
        mqplug.connect(write(V23), mode="cluster")


def test_what_kubernetes_sets_is_left_alone(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A PULSAR_PORT that Kubernetes sets for a service is ignored and listed, like variables that are not keys."""
    monkeypatch.setenv("PULSAR_PORT", "tcp://10.0.0.7:6650")
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1g")
    assert opened(fakes, "pulsar", V23, mode="cluster").service_url == "pulsar://localhost:6650"
    listed = left_alone(Path("milvus.yaml"), capsys)
    assert (listed["PULSAR_PORT"], listed["KAFKA_HEAP_OPTS"]) == (
        "Kubernetes sets this for a service",
        "not a key of Milvus",
    )


def test_the_doctor_names_the_key_and_its_source(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The doctor shows the variable that a setting comes from, and lists unused TLS files and sections."""
    monkeypatch.setenv("KAFKA_BROKER_LIST", "one:1")
    path = write("mq: {type: kafka}\nkafka: {ssl: {tlsCaCert: a, enabled: false}}\npulsar: {address: h}\n")
    assert run_command(["doctor", "--config", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    shown = {each["name"]: (each["value"], each["source"]) for each in told["settings"]}
    assert shown["servers"] == (["one:1"], "KAFKA_BROKER_LIST")
    listed = {each["key"]: each["reason"] for each in told["left_alone"]}
    assert listed == {"kafka.ssl.tlsCaCert": "kafka.ssl.enabled is not true", "pulsar": "kafka was chosen"}
    assert os.fspath(path) in told["sources"]
