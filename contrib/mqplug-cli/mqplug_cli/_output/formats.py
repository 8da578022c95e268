"""The format in which a verb prints its rows or values: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal

import click

from mqplug_cli._output.tables import TableRow, show_table

Format = Literal["table", "json", "yaml"]


class Output:
    """Prints what a verb found, in the chosen format."""

    def __init__(self, format_: Format) -> None:
        self.format = format_

    @property
    def for_people(self) -> bool:
        """Whether people read it."""
        return self.format == "table"

    def rows(self, columns: Sequence[str], rows: Sequence[TableRow]) -> None:
        """Print rows under the names of their columns, or as one list."""
        if self.for_people:
            show_table(columns, rows)
        else:
            self.value([{name: row[name] for name in columns} for row in rows])

    def value(self, value: object) -> None:
        """Print one value as JSON or YAML."""
        click.echo(_yaml(value) if self.format == "yaml" else json.dumps(value, indent=2), nl=self.format != "yaml")

    def line(self, value: object) -> None:
        """Print one of many values: as one line of JSON, or as one document of YAML."""
        click.echo(f"---\n{_yaml(value)}" if self.format == "yaml" else json.dumps(value), nl=self.format != "yaml")


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-o`` to a command. The function gets ``output``."""

    @wraps(function)
    def call(*args: Any, output_format: Format, as_json: bool, **rest: Any) -> Any:
        return function(*args, output=Output("json" if as_json else output_format), **rest)

    call = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")(call)
    return click.option(
        "-o", "--output", "output_format", type=click.Choice(["table", "json", "yaml"]), default="table",
        show_default=True, help="How to print it.",
    )(call)  # fmt: skip


def _yaml(value: object) -> str:
    from importlib.util import find_spec

    if find_spec("yaml") is None:
        raise click.UsageError("-o yaml needs PyYAML. Run pip install 'mqplug[yaml]'")
    import yaml

    text: str = yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=True)
    return text


def _plain(value: object) -> object:
    """Return the value as JSON would read it: YAML alone would write tuples as Python's."""
    if isinstance(value, Mapping | list | tuple):
        return json.loads(json.dumps(value))
    return value
