"""``mqplug doctor``: shows the effective configuration, and whether it connects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._exit_codes import FAILED
from mqplug_cli._output.error_text import spoken
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.tables import show_table

if TYPE_CHECKING:
    from mqplug.tools import Diagnosis


@click.command(cls=ClientCommand)
@client_options
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Read this file, and no other.")
@output_option
def doctor(client: ClientOptions, config: Path | None, output: Output) -> int:
    """Show the configuration, and try to connect.

    It shows each setting with its source, and which backend is chosen and why. Without a URL, a context and --config it
    reads the sources that connect() reads. Secrets are masked.

    Examples:
      $ mqplug doctor rocksmq:///tmp/mq
      $ mqplug doctor --config mqplug.toml
    """
    import attrs

    from mqplug.tools import diagnose

    if client.target is not None and config is not None:
        raise click.UsageError("Give a URL, a context or --config, not two of them.")
    found = diagnose(config or client.target, client.timeout, client.secrets)
    if output.for_people:
        _show(found)
    else:
        output.value(attrs.asdict(found))
    return 0 if found.error is None else FAILED


def _show(found: Diagnosis) -> None:
    _line("sources", ", ".join(found.sources))
    if found.backend is not None:
        _line("backend", f"{found.backend}: {found.reason}")
    if found.settings:
        rows = [{"setting": each.name, "value": _as_text(each.value), "source": each.source} for each in found.settings]
        click.echo()
        show_table(("setting", "value", "source"), rows)
        click.echo()
    if found.left_alone:
        rows = [{"left alone": each.key, "because": each.reason} for each in found.left_alone]
        show_table(("left alone", "because"), rows)
        click.echo()
    for warning in found.warnings:
        _line("warning", warning)
    if found.seconds is not None:
        _line("connects", f"yes, in {found.seconds * 1000:.0f} ms")
    for note in found.notes:
        _line("note", note)
    for kind, names in found.capabilities.items():
        _line(kind, ", ".join(names))
    if found.error is not None:
        _line("error", spoken(found.error))


def _line(name: str, text: str) -> None:
    click.echo(f"{name:<10}{text}".rstrip())


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "-" if value is None or value == {} else str(value)
