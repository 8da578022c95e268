"""References in the options that name a backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from reads import reader_of

import mqplug
from mqplug import ConfigError, ConnectError

SECRET = "p@ss/w?rd#"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path of a file with a secret, which is also in a variable."""
    monkeypatch.setenv("ORDERS_SECRET", SECRET)
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return path


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The targets that tests connect to, and their options of librdkafka. No broker is contacted."""
    found: list[tuple[Any, Any]] = []

    def connect(target: Any, *, librdkafka: Any = None, **_: Any) -> mqplug.Client:
        found.append((target, librdkafka))
        raise ConnectError("nobody is there")

    monkeypatch.setattr(mqplug, "connect", connect)
    return found


def plan(**given: str) -> None:
    """Plan a read of the topic ``orders``, which connects. Option names have an underscore for a dot."""
    options = {name.replace("_", "."): text for name, text in given.items()}
    reader_of({"subscribe": "orders", **options}).partitions()


def target_of(connected: list[tuple[Any, Any]], **given: str) -> Any:
    """Return what a read with these options connects to."""
    with pytest.raises(ConnectError, match="nobody is there"):
        plan(**given)
    return connected[-1][0]


def test_a_variable_and_a_file_are_read_where_they_are_used(connected: list[tuple[Any, Any]], secret: Path) -> None:
    """``${NAME}`` is the variable, ``${file:PATH}`` the file without its final newline, and ``$${`` is ``${``."""
    texts = {
        "${ORDERS_SECRET}": SECRET,
        f"${{file:{secret}}}": SECRET,
        "a $${b} ${ORDERS_SECRET}": f"a ${{b}} {SECRET}",
        "$NAME {x} }": "$NAME {x} }",
    }
    for text, meant in texts.items():
        target_of(connected, kafka_bootstrap_servers="a:1", kafka_client_id=text)
        assert connected[-1][1] == {"client.id": meant}


def test_what_a_url_refers_to_is_escaped_unless_it_is_the_whole_url(
    connected: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password may hold any character; a variable with a whole URL is used unchanged."""
    assert target_of(connected, url="kafka://me:${ORDERS_SECRET}@host") == "kafka://me:p%40ss%2Fw%3Frd%23@host"
    monkeypatch.setenv("ORDERS_URL", "kafka://me:x%40y@host")
    assert target_of(connected, url="${ORDERS_URL}") == "kafka://me:x%40y@host"


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
        plan(url=text)


def test_settings_resolve_only_when_they_connect(connected: list[tuple[Any, Any]]) -> None:
    """A pickled reader holds only the references, and resolves them where it connects."""
    login = {"kafka.sasl.username": "me", "kafka.sasl.password": "${ORDERS_SECRET}"}
    given = {"kafka.bootstrap.servers": "a:1", "kafka.security.protocol": "SASL_SSL", "subscribe": "orders", **login}
    pickled = CloudPickleSerializer().dumps(reader_of(given))
    assert SECRET.encode() not in pickled
    with pytest.raises(ConnectError, match="nobody is there"):
        CloudPickleSerializer().loads(pickled).partitions()
    assert "password=p%40ss%2Fw%3Frd%23" in connected[-1][0]


def test_a_url_that_is_a_reference_takes_no_options_of_kafka() -> None:
    """Kafka options are refused, because the backend of such a URL is unknown until it is resolved."""
    with pytest.raises(ConfigError, match="no option says that the backend is kafka"):
        plan(url="${ORDERS_URL}", kafka_client_id="me")
