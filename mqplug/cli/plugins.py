"""``mqplug plugins``: which backends are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mqplug._backend import Backend
from mqplug._discovery import GROUP, load
from mqplug.cli._errors import described
from mqplug.cli._session import output_option
from mqplug.cli._tables import Row, show

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COLUMNS = ("name", "distribution", "version")


@click.command()
@click.option("--check", is_flag=True, help="Load each, and say what is wrong with it; exit code 1 if anything is.")
@output_option
@click.pass_context
def plugins(context: click.Context, check: bool, output: str) -> None:
    """List the backends that are installed. None is loaded, but with --check."""
    from importlib.metadata import entry_points

    found = sorted({_row(point) for point in entry_points(group=GROUP)})
    rows: list[Row] = [dict(zip(COLUMNS, row, strict=True)) for row in found]
    if not check:
        show(COLUMNS, rows, output)
        return
    checked = [{**row, "health": _health(row["name"])} for row in rows]
    show((*COLUMNS, "health"), checked, output)
    if any(row["health"] != "ok" for row in checked):
        context.exit(1)


def _row(point: EntryPoint) -> tuple[str, str, str]:
    if point.dist is None:
        return point.name, "?", "?"
    return point.name, point.dist.name, point.dist.version


def _health(name: str) -> str:
    try:
        Backend(name, load(name))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one plugin, the others are shown
        return described(error)
    return "ok"
