"""``mqplug rocksmq backup`` and ``restore``."""

from __future__ import annotations

from pathlib import Path

import click

from mqplug_rocksmq._commands.output import answer_timeout_option, path_argument
from mqplug_rocksmq._processes.client_connection import ask_owner, existing_store

_target = click.argument("target", type=click.Path(path_type=Path))


@click.command()
@path_argument
@_target
@answer_timeout_option
def backup(path: Path, target: Path, timeout: float) -> None:
    """Copy the store at PATH, as it is at one moment, into the new directory TARGET.

    Others may write meanwhile. On the same file system the copy consists of links, and takes little time and space.
    Copy it elsewhere to be safe from a broken disk.
    """
    path, target = existing_store(path), target.absolute()
    if ask_owner(path, {"call": "backup", "path": str(target)}, timeout) is None:
        _back_up_closed(path, target)
    click.echo(f"backed up to {target}")


def _back_up_closed(path: Path, target: Path) -> None:
    from mqplug_rocksmq._care.backup import back_up_store
    from mqplug_rocksmq._processes.owner import close_store, open_store
    from mqplug_rocksmq._settings import RocksMQSettings

    store = open_store(path, RocksMQSettings(path=str(path)))
    try:
        back_up_store(store, target)
    finally:
        close_store(store)


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_target
def restore(source: Path, target: Path) -> None:
    """Copy the backup SOURCE to TARGET, where nothing may exist, and check it."""
    from mqplug_rocksmq._care.backup import restore_backup

    restore_backup(source, target.absolute())
    click.echo(f"restored to {target}")
