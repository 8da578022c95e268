"""References in the options that name a backend."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import mqplug
from mqplug import ConfigError
from mqplug_spark._options.backend_settings import BackendSettings, parse_backend, resolve, resolve_url

SECRET = "p@ss/w?rd#"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path of a file with a secret, which is also in a variable."""
    monkeypatch.setenv("ORDERS_SECRET", SECRET)
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return path


def test_a_variable_and_a_file_are_read_where_they_are_used(secret: Path) -> None:
    """``${NAME}`` is the variable, ``${file:PATH}`` the file without its final newline, and ``$${`` is ``${``."""
    assert resolve("password", "${ORDERS_SECRET}") == resolve("password", f"${{file:{secret}}}") == SECRET
    assert resolve("password", "a $${b} ${ORDERS_SECRET}") == f"a ${{b}} {SECRET}"
    assert resolve("password", "$NAME {x} }") == "$NAME {x} }"


def test_what_a_url_refers_to_is_escaped_unless_it_is_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password may hold any character; a variable with a whole URL is used unchanged."""
    assert resolve_url("kafka://me:${ORDERS_SECRET}@host") == "kafka://me:p%40ss%2Fw%3Frd%23@host"
    monkeypatch.setenv("ORDERS_URL", "kafka://me:x%40y@host")
    assert resolve_url("${ORDERS_URL}") == "kafka://me:x%40y@host"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${NOT_SET}", r"option 'url' refers to the variable 'NOT_SET'.*spark\.executorEnv\.NOT_SET"),
        ("kafka://${file:/nowhere/secret}@host", "option 'url' refers to the file '/nowhere/secret'.*No such file"),
    ],
)
def test_a_reference_to_nothing_is_named(text: str, says: str) -> None:
    """A missing variable or file raises ConfigError, which says for which processes to provide it."""
    with pytest.raises(ConfigError, match=says):
        BackendSettings(url=text).connect()


def test_settings_resolve_only_when_they_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickled settings hold only the reference; options of spark-sql-kafka may also refer to secrets."""
    mqplug.connect("rocksmq", path=str(tmp_path / "store")).close()
    made = parse_backend({"backend": "rocksmq", "path": "${ORDERS_PATH}", "sync": "os"}, {})
    monkeypatch.setenv("ORDERS_PATH", str(tmp_path / "store"))
    with pickle.loads(pickle.dumps(made)).connect() as client:
        assert client.backend == "rocksmq"
    login = {"kafka.sasl.username": "me", "kafka.sasl.password": "${ORDERS_SECRET}"}
    made = parse_backend({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.security.protocol": "SASL_SSL", **login}, {})
    assert SECRET.encode() not in pickle.dumps(made)


def test_a_url_that_is_a_reference_takes_no_options_of_kafka() -> None:
    """Kafka options are refused, because the backend of such a URL is unknown until it is resolved."""
    with pytest.raises(ConfigError, match="no option says that the backend is kafka"):
        parse_backend({"url": "${ORDERS_URL}", "kafka.client.id": "me"}, {})
