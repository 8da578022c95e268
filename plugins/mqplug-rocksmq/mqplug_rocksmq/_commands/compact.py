"""``mqplug rocksmq compact``."""

from __future__ import annotations

from pathlib import Path

import click

from mqplug_rocksmq._commands.options import answer_timeout_option, path_argument
from mqplug_rocksmq._commands.output import sized
from mqplug_rocksmq._processes.reach import ask_owner, existing_store


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
    from mqplug_rocksmq._processes.open_stores import close_store, open_store
    from mqplug_rocksmq._settings import RocksMQSettings

    store = open_store(path, RocksMQSettings(path=str(path)))
    try:
        store.compact()
    finally:
        close_store(store)
