"""``mqplug doctor``: shows the effective configuration, and whether it connects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqplug.cli._clients import json_option, timeout_option
from mqplug.cli._tables import show_json, show_rows

if TYPE_CHECKING:
    from mqplug._client.diagnosis import Diagnosis


@click.command()
@click.argument("url", required=False)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Read this file, and no other.")
@timeout_option
@json_option
@click.pass_context
def doctor(context: click.Context, url: str | None, config: Path | None, timeout: float, as_json: bool) -> None:
    """Show the configuration, and try to connect.

    It shows each setting with its source, and which backend is chosen and why. Without URL and --config it reads the
    sources that connect() reads. Secrets are masked.
    """
    import attrs

    from mqplug._client.diagnosis import diagnose
    from mqplug._config.targets import target_of

    if url is not None and config is not None:
        raise click.UsageError("Give a URL or --config, not both.")
    found = diagnose(config or (url and target_of(url)), timeout)
    if as_json:
        show_json(attrs.asdict(found))
    else:
        _show(found)
    if found.error is not None:
        context.exit(1)


def _show(found: Diagnosis) -> None:
    _line("sources", ", ".join(found.sources))
    if found.backend is not None:
        _line("backend", f"{found.backend}: {found.reason}")
    if found.settings:
        rows = [{"setting": each.name, "value": _as_text(each.value), "source": each.source} for each in found.settings]
        click.echo()
        show_rows(("setting", "value", "source"), rows, as_json=False)
        click.echo()
    if found.left_alone:
        rows = [{"left alone": each.key, "because": each.reason} for each in found.left_alone]
        show_rows(("left alone", "because"), rows, as_json=False)
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
        _line("error", found.error)


def _line(name: str, text: str) -> None:
    click.echo(f"{name:<10}{text}".rstrip())


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "-" if value is None or value == {} else str(value)
