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
    help="When a send is done, for programs that do not ask for more.",
)  # fmt: skip
@click.option(
    "--disk-max-bytes", type=click.IntRange(min=MIN_DISK_BYTES), help="The most that the store takes on disk."
)
def serve(path: Path, sync: Sync, disk_max_bytes: int | None) -> None:
    """Hold the store at PATH open for other programs, until SIGINT or SIGTERM. It is made where there is none.

    Programs use the store by the same path with or without this. It spares short-lived ones the opening, and keeps the
    answers steady where a program that owns the store would be busy with its own work.
    """
    from mqplug_rocksmq._processes.open_stores import close_store, open_store

    settings = RocksMQSettings(path=str(path), sync=sync, disk_max_bytes=disk_max_bytes)
    # No thread takes them while they are blocked: one would, now and then, and the wait would not end by that.
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
