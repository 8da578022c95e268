"""``mqplug rocksmq serve``, which notifies a service manager such as systemd when programs can use the store."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqplug import AlreadyOpen
from mqplug_rocksmq._commands.output import StorePath
from mqplug_rocksmq._settings import MIN_DISK_BYTES, RocksMQSettings, Sync

if TYPE_CHECKING:
    from mqplug_rocksmq._store.store import Store

_VARIABLE = "NOTIFY_SOCKET"
_ENDS = (signal.SIGINT, signal.SIGTERM)
_WAIT_ROUND_S = 0.5


@click.command()
@click.argument("path", type=StorePath())
@click.option(
    "--sync", type=click.Choice(["always", "interval", "os"]), default="always", show_default=True,
    help="When a send is done, unless a program asks for more.",
)  # fmt: skip
@click.option(
    "--disk-max-bytes", type=click.IntRange(min=MIN_DISK_BYTES), help="The most disk space that the store may use."
)
@click.option("--wait", is_flag=True, help="If another program has the store open, wait until it ends.")
def serve(path: Path, sync: Sync, disk_max_bytes: int | None, wait: bool) -> None:
    """Hold the store at PATH open for other programs, until SIGINT or SIGTERM. Create it if it is missing.

    Programs use the store by the same path with or without this command. It saves short-lived programs the time to
    open the store, and answers steadily, while a program that owned the store might be busy with its own work.
    """
    from mqplug_rocksmq._processes.owner import close_store

    settings = RocksMQSettings(path=str(path), sync=sync, disk_max_bytes=disk_max_bytes)
    # Blocked in all threads: otherwise another thread might receive them, and the wait below would not end.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        store = _open(path, settings, wait=wait)
        if store is None:
            return
        try:
            click.echo(f"serving {store.path} (process {os.getpid()})")
            notify_service_manager("READY=1", f"STATUS=serving {store.path}")
            signal.sigwait(_ENDS)
            notify_service_manager("STOPPING=1")
        finally:
            close_store(store)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _open(path: Path, settings: RocksMQSettings, *, wait: bool) -> Store | None:
    """Return the store, with *wait* as soon as no other process owns it, or None if a signal ended the wait."""
    from mqplug_rocksmq._processes.owner import open_store

    announced = False
    while True:
        try:
            return open_store(path, settings)
        except AlreadyOpen as taken:
            if not wait:
                raise
            if not announced:  # programs can use the store nevertheless
                click.echo(f"waiting: {taken.message}")
                notify_service_manager("READY=1", f"STATUS=waiting: {taken.message}")
                announced = True
        if signal.sigtimedwait(_ENDS, _WAIT_ROUND_S):
            return None


def notify_service_manager(*lines: str) -> None:
    """Send lines such as ``READY=1`` to the service manager, if one started this process and listens.

    Only a unit with ``Type=notify`` listens. A name that begins with ``@`` is in Linux' abstract namespace.
    """
    address = os.environ.get(_VARIABLE)
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto("\n".join(lines).encode(), address)
