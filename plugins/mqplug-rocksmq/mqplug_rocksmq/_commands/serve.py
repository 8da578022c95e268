"""``mqplug rocksmq serve``."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from mqplug_rocksmq._commands.options import StorePath
from mqplug_rocksmq._settings import MIN_DISK_BYTES, RocksMQSettings, Sync

_ENDS = (signal.SIGINT, signal.SIGTERM)


@click.command()
@click.argument("path", type=StorePath())
@click.option(
    "--sync", type=click.Choice(["always", "interval", "os"]), default="always", show_default=True,
    help="When a send is done, unless a program asks for more.",
)  # fmt: skip
@click.option(
    "--disk-max-bytes", type=click.IntRange(min=MIN_DISK_BYTES), help="The most disk space that the store may use."
)
def serve(path: Path, sync: Sync, disk_max_bytes: int | None) -> None:
    """Hold the store at PATH open for other programs, until SIGINT or SIGTERM. Create it if it is missing.

    Programs use the store by the same path with or without this command. It spares short-lived programs the time to
    open the store, and answers steadily where a program that owned the store would be busy with its own work.
    """
    from mqplug_rocksmq._processes.open_stores import close_store, open_store

    settings = RocksMQSettings(path=str(path), sync=sync, disk_max_bytes=disk_max_bytes)
    # Blocked in all threads: otherwise another thread would sometimes take them, and the wait below would not end.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        store = open_store(path, settings)
        try:
            click.echo(f"serving {store.path} (process {os.getpid()})")
            signal.sigwait(_ENDS)
        finally:
            close_store(store)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
