"""The JSON Schema of ``mqplug.toml``: it covers every setting, and separates valid files from invalid ones."""

from __future__ import annotations

import json
import tomllib
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import pytest
from config_backends import KINDS, Kafka
from json_schema import BACKENDS, complaints, installed

import mqplug
from mqplug.introspection import schema_of
from mqplug_cli import run_command

pytestmark = pytest.mark.python

GOOD = """
mode = "cluster"
extensions = ["faults"]

[kafka]
servers = ["one:9092"]
message_max_bytes = "${LARGEST}"
tls = true
timeout_ratio = 1

[kafka.sasl]
username = "me"

[kafka.librdkafka]
"linger.ms" = "20"

[rocksmq]
path = "./mq"
sync = "os"

[extension.faults]
seed = 7

[plugins]
deny = ["pulsar"]
"""


def test_a_good_file_is_valid() -> None:
    """Types, references, nested tables, options of the client and extensions are valid."""
    assert complaints(schema_of(KINDS), tomllib.loads(GOOD)) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[kafak]", "$.kafak"),
        ("bakend = 'kafka'", "$.bakend"),
        ("mode = 'clustre'", "$.mode"),
        ("[kafka]\nservres = ['x']", "$.kafka.servres"),
        ("[kafka]\nservers = 'x'", "$.kafka.servers"),
        ("[kafka]\nservers = [3]", "$.kafka.servers[0]"),
        ("[kafka]\ntls = 'yes'", "$.kafka.tls"),
        ("[kafka]\nmessage_max_bytes = 1.5", "$.kafka.message_max_bytes"),
        ("[kafka]\npassword = 3", "$.kafka.password"),
        ("[kafka.librdkafka]\na = 3", "$.kafka.librdkafka.a"),
        ("[kafka.sasl]\nusernme = 'x'", "$.kafka.sasl.usernme"),
        ("[rocksmq]\nsync = 'never'", "$.rocksmq.sync"),
        ("[plugins]\nalow = []", "$.plugins.alow"),
        ("extension = 3", "$.extension"),
    ],
)
def test_a_bad_file_is_not(text: str, path: str) -> None:
    """A misspelt key, a wrong type and an invalid choice are found at their place."""
    assert complaints(schema_of(KINDS), tomllib.loads(text)) == [path]


def test_secrets_have_no_default() -> None:
    """The default of a secret is not published."""
    kind = attrs.make_class("Settings", {"token": attrs.field(default="s3cret", repr=False, type=str)})
    assert "s3cret" not in json.dumps(schema_of({"x": kind}))


def test_descriptions_come_from_docstrings() -> None:
    """A setting is described by the sentences that name it."""
    properties = schema_of({"kafka": Kafka})["properties"]["kafka"]["properties"]
    assert properties["servers"]["description"] == "`servers` lists brokers."
    assert properties["librdkafka"]["description"] == "`librdkafka` is for options of the client."


def test_rare_types() -> None:
    """Unions, enumerations, and values that are written as text are supported."""

    class Color(Enum):
        RED = "red"

    kind = attrs.make_class(
        "Settings",
        {
            "either": attrs.field(default=None, type=int | str | None),
            "color": attrs.field(default=Color.RED, type=Color),
            "path": attrs.field(default=Path("x"), type=Path),
            "names": attrs.field(factory=set, type=frozenset[str]),
            "any": attrs.field(default=None, type=Any),
        },
    )
    schema = schema_of({"x": kind})
    good = {"either": 3, "color": "red", "path": "x", "names": ["a"], "any": [3]}
    assert complaints(schema, {"x": good}) == []
    assert complaints(schema, {"x": {"color": "blue"}}) == ["$.x.color"]


def test_the_command_prints_the_schema_of_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    """`mqplug schema` has a section for each installed backend."""
    assert run_command(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert "memory" in printed["properties"]
    assert printed["additionalProperties"] is False


@pytest.mark.parametrize("name", BACKENDS)
def test_each_setting_is_in_the_schema_with_a_description(name: str) -> None:
    """Every setting is in the schema, with a description."""
    if name not in installed():
        pytest.skip(f"mqplug-{name} is not installed")
    kind = installed()[name]
    properties = schema_of({name: kind})["properties"][name]["properties"]
    assert list(properties) == [*(field.name for field in attrs.fields(kind)), "debug"]
    assert [key for key, value in properties.items() if "description" not in value] == []


def test_the_schema_names_no_reference() -> None:
    """The schema is self-contained."""
    text = json.dumps(schema_of(KINDS))
    assert "$ref" not in text
    assert mqplug.__name__ in text
