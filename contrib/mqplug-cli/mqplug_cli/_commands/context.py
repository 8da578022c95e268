"""``mqplug context``: lists the contexts of ``mqplug.toml``, and chooses one for later commands."""

from __future__ import annotations

import os

import click

from mqplug_cli._output.formats import Output, output_option


@click.group()
def context() -> None:
    """List the contexts, choose one, show what is chosen.

    A context is a table [context.NAME] of mqplug.toml, in the working directory or in ~/.config/mqplug, with a url or a
    backend and its settings. --context NAME uses one for a single command, MQPLUG_CONTEXT for a shell.

    Examples:
      $ mqplug context list
      $ mqplug context use laptop
      $ mqplug context show laptop
    """


@context.command("list")
@output_option
def list_contexts(output: Output) -> None:
    """List the contexts."""
    from mqplug.tools import chosen_context, contexts

    chosen = chosen_context(os.environ)
    rows = [
        {"name": each.name, "chosen": each.name == chosen, "file": each.file} for each in contexts(os.environ).values()
    ]
    output.rows(("name", "chosen", "file"), rows)


@context.command()
@click.argument("name", required=False)
@click.option("--none", is_flag=True, help="Choose none: the environment and mqplug.toml decide again.")
def use(name: str | None, none: bool) -> None:
    """Choose the context NAME for later commands."""
    from mqplug.tools import choose_context, context_in_force

    if (name is None) != none:
        raise click.UsageError("Give the NAME of a context, or --none.")
    if name is not None:
        context_in_force(name, os.environ)
    choose_context(name, os.environ)
    click.echo("no context is chosen" if name is None else f"later commands use the context {name}")


@context.command()
@click.argument("name", required=False)
@output_option
def show(name: str | None, output: Output) -> None:
    """Show the settings of a context, of the chosen one without NAME. Secrets are masked."""
    import attrs

    from mqplug.tools import context_in_force, effective_settings

    found = effective_settings(context_in_force(name, os.environ))
    output.rows(("name", "value", "source"), [attrs.asdict(each) for each in found])
