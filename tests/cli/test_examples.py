"""The examples in the help of each verb run, and print JSON that matches the published schema."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
from command_examples import (
    VERB_NAMES,
    examples_of,
    expected_end,
    help_of,
    prepared_stores,
    run_example,
    subcommands_of,
)

EXAMPLES = [(name, example) for name in VERB_NAMES for example in examples_of(name)]
SCHEMA = json.loads((Path(__file__).parents[2] / "docs/command-line.schema.json").read_text())


@pytest.fixture(autouse=True)
def stores(tmp_path, monkeypatch):
    """The stores and the folder that examples use."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    with prepared_stores(tmp_path):
        yield


@pytest.mark.parametrize("name", VERB_NAMES)
def test_each_verb_has_an_example(name):
    """The help of each verb has an example of it."""
    assert any(f"mqplug {name}" in example for example in examples_of(name))


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_examples_run(name, example, capfd):
    """Each example exits with 0, or with the code in its comment."""
    demo = example.startswith("mqplug demo") and "--url" not in example
    if demo and find_spec("mqplug_rocksmq") is None:
        pytest.skip("without a URL the demo needs mqplug-rocksmq")
    code, _ = run_example(example)
    complaint = capfd.readouterr().err
    if name == "top" and find_spec("textual") is None:
        assert "needs textual" in complaint
    elif name == "top" and "--picture" not in example:  # the tests of top give it a terminal
        assert "needs a terminal" in complaint
    else:
        assert code == expected_end(example), complaint


def printing_json():
    """Return the verbs that print JSON, each with an example that does."""
    for name in VERB_NAMES:
        for words in [f"{name} {each}" for each in subcommands_of(name)] or [name]:
            if re.search(r"--output \[[^\]]*\bjson\b", help_of(*words.split())):
                yield words, next(each for each in examples_of(name) if f"mqplug {words}" in each)


JSON_EXAMPLES = list(printing_json())


def test_the_schema_has_every_verb_that_prints_json():
    """The schema describes the output of each verb with -o json, and of no other verb."""
    assert sorted(SCHEMA["$defs"]) == sorted(words for words, _ in JSON_EXAMPLES)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("words", "example"), JSON_EXAMPLES, ids=[words for words, _ in JSON_EXAMPLES])
def test_json_is_as_the_schema_says(words, example):
    """The JSON that a verb prints has the published form and no unpublished key."""
    line = example.partition("  #")[0].rsplit(" | ", 1)[0]
    _, printed = run_example(line if "json" in line else f"{line} -o json")
    wanted = complete(SCHEMA["$defs"][words]) | {"$defs": SCHEMA["$defs"]}
    values = documents(printed.decode())
    assert values
    for value in values:
        jsonschema.Draft202012Validator(wanted).validate(value)


def documents(text):
    """Return the one document of a text, or one for each line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def complete(schema):
    """Return the schema with no additional keys allowed in any object."""
    if isinstance(schema, list):
        return [complete(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {"additionalProperties": False} if "properties" in schema and "additionalProperties" not in schema else {}
    return {key: complete(value) for key, value in schema.items()} | strict
