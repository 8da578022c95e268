"""``mqplug caps`` and ``cluster`` of a backend, ``plugins`` that are installed, and ``doctor`` for troubleshooting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import mqplug
from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._error_text import spoken
from mqplug_cli._exit_codes import FAILED
from mqplug_cli._output import Output, output_option, show_table

if TYPE_CHECKING:
    from mqplug.introspection import Diagnosis


@click.command(cls=ClientCommand)
@client_options
@output_option
def caps(client: ClientOptions, output: Output) -> None:
    """Show the capabilities and limits of a backend.

    A capability is native, provided by the core (the same way on every backend), or absent.

    Examples:
      $ mqplug caps rocksmq:///tmp/mq
      $ mqplug caps rocksmq:///tmp/mq -o json
    """
    import attrs

    with client.open() as mq:
        name, values = mq.backend, attrs.asdict(mq.capabilities)
        support = {each: mq.support(each) for each, value in sorted(values.items()) if isinstance(value, bool)}
    limits = {each: value for each, value in values.items() if each not in support}
    if not output.for_people:
        output.value({"backend": name, "capabilities": support, "limits": limits})
        return
    show_table(("capability", "support"), [{"capability": each, "support": kind} for each, kind in support.items()])
    click.echo()
    show_table(("limit", "value"), [{"limit": each, "value": value} for each, value in limits.items()])


@click.command(cls=ClientCommand)
@client_options
@output_option
def cluster(client: ClientOptions, output: Output) -> None:
    """Show the brokers of a cluster and their addresses.

    A backend without brokers, such as RocksMQ, shows none.

    Examples:
      $ mqplug cluster kafka://localhost:9092
    """
    with client.open() as mq:
        backend = mq.backend
        try:
            found = mq.describe_cluster(timeout=client.timeout)
        except mqplug.Unsupported:
            if mq.capabilities.multi_node:
                raise
            found = mqplug.ClusterInfo("", ())
    rows = [{"name": each.name, "address": each.address} for each in found.brokers]
    if not output.for_people:
        output.value({"backend": backend, "cluster": found.name or None, "brokers": rows})
    elif not rows:
        click.echo(f"{client.place()} has no brokers")
    else:
        click.echo(f"{backend} cluster {found.name}\n")
        show_table(("name", "address"), rows)


PLUGIN_COLUMNS = ("kind", "name", "distribution", "version", "api_version", "state", "reason")


@click.command()
@click.option("--check", is_flag=True, help="Exit with 1 if any plugin is not ok.")
@output_option
@click.pass_context
def plugins(context: click.Context, check: bool, output: Output) -> None:
    """List backends and extensions. Each is loaded; a broken one is listed with the reason, and hides no others.

    Examples:
      $ mqplug plugins
      $ mqplug plugins -o json
    """
    import attrs

    from mqplug.introspection import inspect_plugins, sources

    found = inspect_plugins(sources(None, {}).rules())
    rows = [{**attrs.asdict(plugin), "reason": " ".join(plugin.reason.split())} for plugin in found]
    output.rows(PLUGIN_COLUMNS, rows)
    if check and any(plugin.state != "ok" for plugin in found):
        context.exit(1)


@click.command(cls=ClientCommand)
@client_options
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Read only this file.")
@output_option
def doctor(client: ClientOptions, config: Path | None, output: Output) -> int:
    """Show the configuration, and try to connect.

    It shows each setting with its source, and which backend is chosen and why. Without a URL, a context or --config, it
    reads the same sources as connect(). Secrets are masked.

    Examples:
      $ mqplug doctor rocksmq:///tmp/mq
      $ mqplug doctor --config mqplug.toml
    """
    import attrs

    from mqplug.introspection import diagnose

    if client.target is not None and config is not None:
        raise click.UsageError("Give only one of a URL, a context and --config.")
    found = diagnose(config or client.target, client.timeout, client.secrets)
    if output.for_people:
        _show_diagnosis(found)
    else:
        output.value(attrs.asdict(found))
    return 0 if found.error is None else FAILED


def _show_diagnosis(found: Diagnosis) -> None:
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
