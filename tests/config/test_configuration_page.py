"""The page on configuration is complete, and its examples are valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import attrs
import pytest
from json_schema import BACKENDS, complaints, settings_of

from mqplug._config.choice import MODE_BACKENDS
from mqplug._config.configuration import Plugins, TopLevel
from mqplug._plugins.discovery import installed
from mqplug._settings.fields import fields_of
from mqplug.introspection import schema_of

pytestmark = pytest.mark.python

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text()


@pytest.mark.parametrize("name", BACKENDS)
def test_every_setting_is_documented(name: str) -> None:
    """Each setting of a backend has a row in its table, and each row is a setting."""
    if name not in installed():
        pytest.skip(f"mqplug-{name} is not installed")
    table = PAGE.split(f"### `[{name}]`\n")[1].split("\n#")[0]
    rows = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    assert {key for row in rows for key in re.findall(r"`(\w+)`", row)} == set(fields_of(settings_of(name)))


@pytest.mark.parametrize("key", [*fields_of(TopLevel), *fields_of(Plugins)])
def test_every_key_is_documented(key: str) -> None:
    """Each key above the sections and in `[plugins]` is documented."""
    assert f"`{key}`" in PAGE


@pytest.mark.parametrize("mode", MODE_BACKENDS)
def test_the_table_of_modes_is_the_order(mode: str) -> None:
    """The order of modes on the page is that of the code."""
    assert re.search(rf"\| `{mode}` \| {', '.join(MODE_BACKENDS[mode])}[ ;]", PAGE)


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_examples_are_valid(example: str) -> None:
    """The schema accepts each example file."""
    kinds = {name: settings_of(name) for name in BACKENDS if name in installed()}
    content = tomllib.loads(example)
    known = {key: value for key, value in content.items() if key in {*kinds, *fields_of(TopLevel)}}
    assert complaints(schema_of(kinds), known) == []
    assert all(attrs.has(kind) for kind in kinds.values())
