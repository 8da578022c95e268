"""``mqplug rocksmq stats`` and ``compact``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mqplug_rocksmq._commands.output import (
    answer_timeout_option,
    path_argument,
    print_json,
    print_json_option,
    show_table,
    sized,
    timed,
)
from mqplug_rocksmq._processes.client_connection import ask_owner, existing_store, hold_closed_store


@click.command()
@path_argument
@answer_timeout_option
@print_json_option
def stats(path: Path, timeout: float, as_json: bool) -> None:
    """Show sizes, topics, groups with their lag, and write latencies of the store at PATH.

    If a process has the store open, that process is asked. A closed store is only read.
    """
    path = existing_store(path)
    found = ask_owner(path, {"call": "stats"}, timeout) or {"stats": _of_closed(path)}
    if as_json:
        print_json(found["stats"])
    else:
        _show(found["stats"])


def _of_closed(path: Path) -> dict[str, Any]:
    from mqplug_rocksmq._care.counting import closed_statistics

    with hold_closed_store(path):
        return closed_statistics(path).as_json()


def _show(found: dict[str, Any]) -> None:
    owner = "closed" if found["pid"] is None else f"open in process {found['pid']}"
    click.echo(f"store    {found['path']} ({found['id']}), {owner}")
    click.echo(f"disk     {sized(found['disk'])}: tables {sized(found['tables'])}, log {sized(found['log'])}")
    if found["staged"]:
        click.echo(f"staged   {sized(found['staged'])}, not ingested yet")
    if found.get("ballast"):
        click.echo(f"ballast  {sized(found['ballast'])}, reserved for a full disk")
    click.echo(f"memory   {sized(found['memory'])} in RocksDB; about {found['pages']} pages")
    for name in ("writes", "commits"):
        if (taken := found[name])["count"]:
            times = ", ".join(f"{key} {timed(taken[key])}" for key in ("p50", "p99", "longest"))
            click.echo(f"{name:<8} {taken['count']}: {times}")
    if found["delays"] or found["stops"]:
        click.echo(f"stalls   {found['delays']} delays, {found['stops']} stops")
    _table(("topic", "partition", "low", "high", "size"), found["partitions"])
    _table(("group", "topic", "partition", "position", "lag", "acked"), found["groups"])


def _table(names: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo()
        show_table(names, [[row[name] for name in names] for row in rows])


@click.command()
@path_argument
@answer_timeout_option
def compact(path: Path, timeout: float) -> None:
    """Drop messages that retention no longer keeps in the store at PATH, and free as much disk space as possible."""
    from mqplug_rocksmq._care.counting import disk_used

    path = existing_store(path)
    before = disk_used(path)
    if ask_owner(path, {"call": "compact"}, timeout) is None:
        _compact_closed(path)
    click.echo(f"{sized(before)} before, {sized(disk_used(path))} now")


def _compact_closed(path: Path) -> None:
    from mqplug_rocksmq._processes.owner import close_store, open_store
    from mqplug_rocksmq._settings import RocksMQSettings

    store = open_store(path, RocksMQSettings(path=str(path)))
    try:
        store.compact()
    finally:
        close_store(store)
