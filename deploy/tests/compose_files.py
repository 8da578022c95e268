"""Compose files as Compose reads them: with variables replaced, and a second file merged into the first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1]


class Replacing(list[Any]):
    """A list that replaces an earlier file's list instead of extending it."""


class Loader(yaml.SafeLoader):
    """A YAML loader that knows Compose's tag ``!override``."""


Loader.add_constructor("!override", lambda loader, node: Replacing(loader.construct_sequence(node)))
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def load_compose(*names: str, **variables: str) -> dict[str, Any]:
    """Return these files of deploy/ merged into one, with these variables."""
    merged: dict[str, Any] = {}
    for name in names:
        text = VARIABLE.sub(lambda match: _filled_in(match, variables), (DEPLOY / name).read_text())
        merged = _laid_over(merged, yaml.load(text, Loader))
    return merged


def environment(service: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a service as its program sees it."""
    return {name: str(value) for name, value in service["environment"].items()}


def kafka_properties(given: dict[str, str]) -> dict[str, str]:
    """Return the settings that Kafka's image derives from its environment."""
    names = {name: name.removeprefix("KAFKA_").lower() for name in given if name.startswith("KAFKA_")}
    return {
        name.replace("_", ".").replace("...", "-").replace("..", "_"): given[variable]
        for variable, name in names.items()
    }


def _filled_in(match: re.Match[str], variables: dict[str, str]) -> str:
    name, kind, text = match.groups()
    if name in variables:
        return variables[name]
    assert kind == "-", f"the variable {name} is not set"
    return str(text)


def _laid_over(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        both = {key: _laid_over(first[key], second[key]) for key in first.keys() & second.keys()}
        return {**first, **second, **both}
    if isinstance(first, list) and isinstance(second, list) and not isinstance(second, Replacing):
        return [*first, *second]
    return second
