"""The page on configuration is complete, and its examples are valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import attrs
import pytest
from config_backends import Fakes, fakes
from json_schema import BACKENDS, complaints, installed

import mqplug
from mqplug.introspection import schema_of

__all__ = ["fakes"]

pytestmark = pytest.mark.python

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text()
PROPERTIES = schema_of({})["properties"]
KEYS = PROPERTIES.keys() - {"plugins", "context", "extension"}
"""The keys above the sections."""
ADDRESSES = {
    "rocksmq": {"path": "mq"},
    "pulsar": {"service_url": "pulsar://p:6650"},
    "kafka": {"servers": ["k:9092"]},
}


@pytest.mark.parametrize("name", BACKENDS)
def test_every_setting_is_documented(name: str) -> None:
    """Each setting of a backend has a row in its table, and each row is a setting."""
    if name not in installed():
        pytest.skip(f"mqplug-{name} is not installed")
    table = PAGE.split(f"### `[{name}]`\n")[1].split("\n#")[0]
    rows = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    kind = installed()[name]
    assert {key for row in rows for key in re.findall(r"`(\w+)`", row)} == {field.name for field in attrs.fields(kind)}


@pytest.mark.parametrize("key", sorted(KEYS | PROPERTIES["plugins"]["properties"].keys()))
def test_every_key_is_documented(key: str) -> None:
    """Each key above the sections and in `[plugins]` is documented."""
    assert f"`{key}`" in PAGE


@pytest.mark.parametrize("mode", PROPERTIES["mode"]["anyOf"][0]["enum"])
def test_the_table_of_modes_is_the_order(fakes: Fakes, mode: str) -> None:
    """In each mode, backends are chosen in the order on the page, until none of it is configured."""
    row = re.search(rf"\| `{mode}` \| ((?:rocksmq|pulsar|kafka)(?:, \w+)*)", PAGE)
    assert row is not None
    left = dict(ADDRESSES)
    for name in row[1].split(", "):
        with mqplug.connect({"mode": mode, **left}) as mq:
            assert mq.backend == name
        del left[name]
    with pytest.raises(mqplug.ConfigError):
        mqplug.connect({"mode": mode, **left})


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_examples_are_valid(example: str) -> None:
    """The schema accepts each example file."""
    kinds = installed()
    content = tomllib.loads(example)
    known = {key: value for key, value in content.items() if key in {*kinds, *KEYS}}
    assert complaints(schema_of(kinds), known) == []
    assert all(attrs.has(kind) for kind in kinds.values())
