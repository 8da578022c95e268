"""``mqplug rocksmq torture``."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from mqplug import ConfigError
from mqplug_rocksmq._commands.options import print_json_option
from mqplug_rocksmq._commands.output import print_json, timed


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--cycles", type=click.IntRange(min=1), default=30, show_default=True, help="How many times to kill.")
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=1, show_default=True, help="The longest life of one program."
)
@click.option("--sync", type=click.Choice(["always", "interval", "os"]), default="always", show_default=True)
@click.option("--seed", type=int, help="Repeat the same operations. The moments of the kills remain random.")
@print_json_option
@click.pass_context
def torture(
    context: click.Context, path: Path | None, cycles: int, seconds: float, sync: str, seed: int | None, as_json: bool
) -> None:
    """Kill a program again and again while it uses a new store at PATH, and check that nothing acknowledged is lost.

    The program sends, acks, trims, and creates and deletes topics, on three threads. A model remembers what was
    acknowledged. Without PATH the store is temporary. The check finds a disk or a file system that loses written data
    when a process is killed. It does not show what happens when the power fails.
    """
    from mqplug_rocksmq._torture.torturer import run_torture

    seed = secrets.randbelow(1 << 30) if seed is None else seed
    with ExitStack() as stack:
        if path is None:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqplug-torture-"))) / "store"
        elif path.exists() and any(path.iterdir()):
            raise ConfigError(f"there is something at {path} already", fix="Name a path where nothing exists")
        verdict = run_torture(path, cycles=cycles, seconds=seconds, sync=sync, seed=seed)
    if as_json:
        print_json({"cycles": verdict.cycles, "sent": verdict.sent, "acks": verdict.acks, "seed": seed,
                   "slowest_open": verdict.slowest_open, "wrong": list(verdict.wrong)})  # fmt: skip
    else:
        for each in verdict.wrong[:20]:
            click.echo(each)
        click.echo(f"{verdict} (seed {seed}, sync {sync}, slowest open {timed(verdict.slowest_open)})")
    context.exit(1 if verdict.wrong else 0)
